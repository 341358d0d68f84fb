package cluster

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// nearTheEnd is called for watches that end in a few seconds. As API servers do, it sends a bookmark, though without that wait.
func (s *apiServer) nearTheEnd() {
	s.mu.Lock()
	mute := s.mute
	s.requests = append(s.requests, "HURRIED")
	s.mu.Unlock()
	if !mute {
		s.bookmark()
	}
}

// unread has no list and no watch succeed, or all again.
func (s *apiServer) unread(status int) {
	s.refuse("WATCH", status)
	s.refuse("GET /api/v1/nodes", status)
}

// goesOn has something happen that is no Node's business.
func (s *apiServer) goesOn() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rv += 10
}

func (s *apiServer) silence(mute bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mute = mute
}

// version is how far the informer is.
func (n *nodes) version(t *testing.T) int {
	t.Helper()
	v, err := strconv.Atoi(n.informer.(versioned).LastSyncResourceVersion())
	require.NoError(t, err)
	return v
}

// slowly keeps the clock behind a busy machine: a session that is not synced for five minutes is given up.
const slowly = 200 * time.Millisecond

// outage returns a world whose cluster was lost and is connected again, in which something happened meanwhile.
func outage(t *testing.T, meanwhile func(*apiServer)) (*world, *apiServer, *nodes) {
	t.Helper()
	w, s := newWorld(t, patient()), newAPIServer(t)
	s.put("n1")
	w.reach(keyA, s)
	view := w.connected(keyA)
	s.put("n0") // a watch that has told of nothing yet is begun anew
	w.eventually("the watch tells", func() bool { return view.Value.has(t, "n0") })
	s.stop()
	require.Error(t, w.becomes(keyA, ReasonUnreachable))
	meanwhile(s)
	s.restart()
	w.stepUntil(slowly, "connected again", func() bool { return w.get(keyA).Connected })
	return w, s, view.Value
}

// requireBehind requires that nobody is told that what is not found does not exist.
func (w *world) requireBehind(before *nodes) {
	w.t.Helper()
	for range 30 {
		view := w.get(keyA)
		require.True(w.t, view.Connected)
		require.Same(w.t, before, view.Value)
		require.False(w.t, view.Synced)
		require.ErrorIs(w.t, view.Problem, ErrNotSynced)
		require.True(w.t, view.Behind(schema.GroupKind{Kind: "Node"}))
		require.False(w.t, view.Behind(schema.GroupKind{Kind: "Pod"}), "nobody reads them")
		w.clock.Step(time.Second)
		time.Sleep(time.Millisecond)
	}
}

func TestNodesFromBeforeAnOutageAreNotSyncedUntilThereIsNewsOfThem(t *testing.T) {
	w, s, before := outage(t, func(s *apiServer) {
		s.put("n2")
		s.unread(503)
	})
	w.requireBehind(before)
	require.False(t, before.has(t, "n2"))
	require.True(t, before.has(t, "n1"), "what was read stays readable")
	w.rest()

	s.unread(0)
	w.eventually("n2 is read", func() bool { return before.has(t, "n2") })
	w.stepUntil(time.Second, "it is said that it is", func() bool { return w.get(keyA).Synced })
	w.woken(keyA)
	require.Same(t, before, w.get(keyA).Value)
	require.NoError(t, w.get(keyA).Problem)
}

func TestAServerThatWasOutWhileNothingHappenedNeedsNoNews(t *testing.T) {
	w, s, before := outage(t, func(s *apiServer) { s.silence(true) })
	require.True(t, w.get(keyA).Synced)
	require.Same(t, before, w.get(keyA).Value)
	require.Equal(t, 1, s.count("PEEK"))
}

// In a cluster in which no Node changes, only a bookmark says so. One that is due once a minute is asked for at once.
func TestANodeThatDidNotChangeDuringAnOutageIsKnownFromABookmark(t *testing.T) {
	var at int
	w, s, before := outage(t, func(s *apiServer) {
		s.goesOn()
		at = s.rv
	})
	require.False(t, w.get(keyA).Synced)
	w.eventually("a bookmark has come", func() bool { return before.version(t) >= at })
	w.stepUntil(time.Second, "synced", func() bool { return w.get(keyA).Synced })
	require.Same(t, before, w.get(keyA).Value)
	require.Equal(t, 1, s.count("PEEK"))
	require.Zero(t, s.count("GET /api/v1/nodes"), "nothing was listed anew")

	hurried := s.count("HURRIED")
	require.NotZero(t, hurried)

	t.Log("watches are long again")
	watches := s.count("WATCH")
	s.http.CloseClientConnections()
	w.eventually("the watch was begun anew", func() bool { return s.count("WATCH") > watches })
	s.put("n2")
	w.eventually("and tells", func() bool { return before.has(t, "n2") })
	require.Equal(t, hurried, s.count("HURRIED"))
}

func TestACacheThatDoesNotCatchUpIsGivenUp(t *testing.T) {
	w, s, before := outage(t, func(s *apiServer) {
		s.goesOn()
		s.unread(503)
	})
	w.requireBehind(before)
	steps := w.stepUntil(time.Second, "there is another connection", func() bool { return w.get(keyA).Value != before })
	require.GreaterOrEqual(t, steps, 100)
	require.False(t, w.get(keyA).Synced)
	s.unread(0)
	require.True(t, w.connected(keyA).Value.has(t, "n1"))
}

func TestACacheThatDoesNotCatchUpIsKeptWhileThereIsNoOther(t *testing.T) {
	w, s, before := outage(t, func(s *apiServer) {
		s.goesOn()
		s.unread(503)
	})
	w.mu.Lock()
	w.errs[keyA] = ErrInvalidKubeconfig
	asked := w.asked
	w.mu.Unlock()
	w.stepUntil(time.Second, "the target was asked for", func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		return w.asked > asked
	})
	w.requireBehind(before)
	at := before.version(t)
	s.unread(0)
	w.eventually("it catches up after all", func() bool { return before.version(t) > at })
	w.stepUntil(time.Second, "synced", func() bool { return w.get(keyA).Synced })
	require.ErrorIs(t, w.get(keyA).Problem, ErrInvalidKubeconfig)
	require.Same(t, before, w.get(keyA).Value)
}

// API servers refuse lists for a moment while they fill their caches.
func TestAServerThatCannotSayHowFarItIsIsAskedAgain(t *testing.T) {
	w, s, before := outage(t, func(s *apiServer) {
		s.put("n2")
		s.refuse("PEEK", 429)
	})
	w.requireBehind(before)
	s.refuse("PEEK", 0)
	w.eventually("n2 is read", func() bool { return before.has(t, "n2") })
	w.stepUntil(time.Second, "synced", func() bool { return w.get(keyA).Synced })
	require.Same(t, before, w.get(keyA).Value)
}

func TestAServerThatIsLostAgainIsCaughtUpWithAllTheSame(t *testing.T) {
	w, s, before := outage(t, func(s *apiServer) {
		s.goesOn()
		s.unread(503)
	})
	s.stop()
	w.stepUntil(slowly, "lost again", func() bool { return w.get(keyA).Reason == ReasonUnreachable })
	require.NoError(t, w.get(keyA).Problem)
	require.False(t, w.get(keyA).Synced)
	s.unread(0)
	s.restart()
	w.stepUntil(slowly, "connected and synced", func() bool { view := w.get(keyA); return view.Connected && view.Synced })
	require.Same(t, before, w.get(keyA).Value)
}

// at is an informer that stands at a resource version.
type at struct {
	versioned
	version string
}

func (i at) LastSyncResourceVersion() string { return i.version }
func (i at) IsStopped() bool                 { return false }

func TestEachKindTellsHowFarItIs(t *testing.T) {
	w, s := newWorld(t, patient()), newAPIServer(t)
	for range 49 {
		s.put("n1") // up to version 50
	}
	w.reach(keyA, s)
	w.connected(keyA)
	link := func() *link[*nodes] {
		w.clusters.mu.RLock()
		defer w.clusters.mu.RUnlock()
		return w.clusters.links[keyA]
	}()
	const nodes, unknown = "/api/v1/nodes", "/api/v1/pods"
	for name, tc := range map[string]struct {
		given   []laggard
		behind  int
		rewound bool
	}{
		"nothing is cached":           {},
		"it is where the server is":   {given: []laggard{{path: nodes, seen: "50"}}},
		"it is behind":                {given: []laggard{{path: nodes, seen: "49"}}, behind: 1},
		"one of two is":               {given: []laggard{{path: nodes, seen: "50"}, {path: nodes, seen: "49"}}, behind: 1},
		"it is ahead":                 {given: []laggard{{path: nodes, seen: "51"}}, rewound: true},
		"the second one is":           {given: []laggard{{path: nodes, seen: "49"}, {path: nodes, seen: "51"}}, rewound: true},
		"nobody can compare":          {given: []laggard{{path: nodes, seen: "one"}}},
		"it is asked for in vain":     {given: []laggard{{path: unknown, seen: "51"}}},
		"it arrived a moment ago":     {given: []laggard{{want: "50", informer: at{version: "50"}}}, behind: 1},
		"it has arrived":              {given: []laggard{{want: "50", informer: at{version: "50"}, arrived: true}}},
		"it has gone back since then": {given: []laggard{{want: "50", informer: at{version: "49"}, arrived: true}}, behind: 1},
	} {
		t.Run(name, func(t *testing.T) {
			for i := range tc.given {
				if tc.given[i].informer == nil {
					tc.given[i].informer = at{version: tc.given[i].seen}
				}
			}
			behind, rewound := link.current().survey(t.Context(), tc.given)
			require.Len(t, behind, tc.behind)
			require.Equal(t, tc.rewound, rewound)
		})
	}
}
