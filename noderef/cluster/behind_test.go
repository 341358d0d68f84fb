package cluster

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// nearTheEnd is called for watches that end in a few seconds. It sends a bookmark as API servers do, but at once.
func (s *apiServer) nearTheEnd() {
	s.mu.Lock()
	mute := s.mute
	s.requests = append(s.requests, "SHORT WATCH")
	s.mu.Unlock()
	if !mute {
		s.bookmark()
	}
}

// unread makes all lists and watches fail with a status; 0 makes them succeed again.
func (s *apiServer) unread(status int) {
	s.refuse("WATCH", status)
	s.refuse("GET /api/v1/nodes", status)
}

// goesOn advances the resource version without a change of a Node.
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

// version returns the resource version of the informer.
func (n *nodes) version(t *testing.T) int {
	t.Helper()
	v, err := strconv.Atoi(n.informer.(versioned).LastSyncResourceVersion())
	require.NoError(t, err)
	return v
}

// slowly is a step of the clock that is small enough for a busy machine: a session that is not synced in time is replaced.
const slowly = 200 * time.Millisecond

// outage returns a world whose cluster was lost and is connected again; meanwhile runs during the outage.
func outage(t *testing.T, meanwhile func(*apiServer)) (*world, *apiServer, *nodes) {
	t.Helper()
	w, s := newWorld(t, patient()), newAPIServer(t)
	s.put("n1")
	w.reach(keyA, s)
	view := w.connected(keyA)
	s.put("n0") // a reflector restarts a watch that has brought no event
	w.eventually("the watch brings the event", func() bool { return view.Value.has(t, "n0") })
	s.stop()
	require.Error(t, w.becomes(keyA, ReasonUnreachable))
	meanwhile(s)
	s.restart()
	w.stepUntil(slowly, "connected again", func() bool { return w.get(keyA).Connected })
	return w, s, view.Value
}

// requireBehind requires that no caller takes an object that is not found for absent.
func (w *world) requireBehind(before *nodes) {
	w.t.Helper()
	for range 30 {
		view := w.get(keyA)
		require.True(w.t, view.Connected)
		require.Same(w.t, before, view.Value)
		require.False(w.t, view.Synced)
		require.ErrorIs(w.t, view.Problem, ErrNotSynced)
		require.True(w.t, view.Behind(schema.GroupKind{Kind: "Node"}))
		require.False(w.t, view.Behind(schema.GroupKind{Kind: "Pod"}), "no informer reads Pods")
		w.clock.Step(time.Second)
		w.holds("connected", func() bool { return w.get(keyA).Connected })
	}
}

func TestACacheIsNotSyncedAfterAnOutageUntilItsInformersHaveCaughtUp(t *testing.T) {
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
	w.stepUntil(time.Second, "the view is synced", func() bool { return w.get(keyA).Synced })
	w.woken(keyA)
	require.Same(t, before, w.get(keyA).Value)
	require.NoError(t, w.get(keyA).Problem)
}

func TestACacheIsSyncedAtOnceAfterAnOutageWithoutChanges(t *testing.T) {
	w, s, before := outage(t, func(s *apiServer) { s.silence(true) })
	require.True(t, w.get(keyA).Synced)
	require.Same(t, before, w.get(keyA).Value)
	require.Equal(t, 1, s.count("PEEK"))
}

// In a cluster in which no Node changes, only a bookmark brings the resource version. Short watches bring one within seconds.
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
	require.Zero(t, s.count("GET /api/v1/nodes"), "nothing was listed again")

	shortWatches := s.count("SHORT WATCH")
	require.NotZero(t, shortWatches)

	t.Log("watches are long again")
	watches := s.count("WATCH")
	s.http.CloseClientConnections()
	w.eventually("the watch was restarted", func() bool { return s.count("WATCH") > watches })
	s.put("n2")
	w.eventually("and tells", func() bool { return before.has(t, "n2") })
	require.Equal(t, shortWatches, s.count("SHORT WATCH"))
}

func TestACacheThatDoesNotCatchUpIsReplaced(t *testing.T) {
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

func TestACacheThatDoesNotCatchUpIsKeptUntilThereIsAnother(t *testing.T) {
	w, s, before := outage(t, func(s *apiServer) {
		s.goesOn()
		s.unread(503)
	})
	w.mu.Lock()
	w.errs[keyA] = errInvalidKubeconfig
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
	require.ErrorIs(t, w.get(keyA).Problem, errInvalidKubeconfig)
	require.Same(t, before, w.get(keyA).Value)
}

// API servers refuse lists for a moment while they fill their caches.
func TestAServerWhoseVersionCannotBeListedIsAskedAgain(t *testing.T) {
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

func TestACacheCatchesUpAfterASecondOutage(t *testing.T) {
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

// at is an informer at a resource version.
type at struct {
	versioned
	version string
}

func (i at) LastSyncResourceVersion() string { return i.version }
func (i at) IsStopped() bool                 { return false }

func TestTheVersionOfEachKindIsCompared(t *testing.T) {
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
		given   []informerProgress
		behind  int
		rewound bool
	}{
		"nothing is cached":           {},
		"it is up to date":            {given: []informerProgress{{path: nodes, seen: "50"}}},
		"it is behind":                {given: []informerProgress{{path: nodes, seen: "49"}}, behind: 1},
		"one of two is behind":        {given: []informerProgress{{path: nodes, seen: "50"}, {path: nodes, seen: "49"}}, behind: 1},
		"it is ahead":                 {given: []informerProgress{{path: nodes, seen: "51"}}, rewound: true},
		"the second one is ahead":     {given: []informerProgress{{path: nodes, seen: "49"}, {path: nodes, seen: "51"}}, rewound: true},
		"versions cannot be compared": {given: []informerProgress{{path: nodes, seen: "one"}}},
		"its list fails":              {given: []informerProgress{{path: unknown, seen: "51"}}},
		"it has just caught up":       {given: []informerProgress{{want: "50", informer: at{version: "50"}}}, behind: 1},
		"it has caught up":            {given: []informerProgress{{want: "50", informer: at{version: "50"}, arrived: true}}},
		"it has gone back since then": {given: []informerProgress{{want: "50", informer: at{version: "49"}, arrived: true}}, behind: 1},
	} {
		t.Run(name, func(t *testing.T) {
			for i := range tc.given {
				if tc.given[i].informer == nil {
					tc.given[i].informer = at{version: tc.given[i].seen}
				}
			}
			behind, rewound := link.current().checkProgress(t.Context(), tc.given)
			require.Len(t, behind, tc.behind)
			require.Equal(t, tc.rewound, rewound)
		})
	}
}
