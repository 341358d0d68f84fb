package runner

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/drain"
)

// wakes notes which Nodes' owners are woken from now on.
func (g *rig) wakes() *[]string {
	g.t.Helper()
	var nodes []string
	g.runner.addSink(func(node string, _ types.NamespacedName) { nodes = append(nodes, node) })
	return &nodes
}

// taken steps two Nodes with a pod each behind one budget, and takes the first request.
func taken(t *testing.T, allowed int32) (*rig, *attempt) {
	t.Helper()
	g := newRig(t)
	g.budgets.set(allowed, 10)
	g.on("n1", "a")
	g.on("n2", "b")
	g.step("n1")
	g.step("n2")
	job, _ := g.runner.pick()
	require.NotNil(t, job)
	require.Equal(t, "a", job.ref.Name)
	return g, job
}

func TestToken(t *testing.T) {
	for name, tc := range map[string]struct {
		answer     error
		stillThere bool
		stopping   bool
		released   bool
		tokens     int
		state      attemptState
		woken      bool
	}{
		"accepted":                            {tokens: 1, state: accepted},
		"gone":                                {answer: apierrors.NewNotFound(podsResource, "a"), state: accepted},
		"the process stops":                   {answer: context.Canceled, stillThere: true, stopping: true, state: idle},
		"accepted as the process stops":       {stopping: true, tokens: 1, state: accepted},
		"throttled":                           {answer: throttled(), stillThere: true, tokens: 1, state: queued},
		"refused by the budget":               {answer: exhausted(), stillThere: true, state: resting, woken: true},
		"refused for its overload":            {answer: overloaded(), stillThere: true, state: resting, woken: true},
		"refused after its Node was let go":   {answer: errors.New("no"), stillThere: true, released: true, state: inFlight, woken: true},
		"accepted after its Node was let go":  {released: true, tokens: 1, state: accepted},
		"throttled after its Node was let go": {answer: throttled(), released: true, state: inFlight, woken: true},
	} {
		t.Run(name, func(t *testing.T) {
			g, j := taken(t, 1)
			woken := g.wakes()
			if tc.released {
				g.runner.Release("n1")
			}
			if !tc.stillThere && !tc.released {
				g.gone("n1", "a")
				g.step("n1")
				require.Len(t, g.runner.budgets[thePDB].tokens, 1, "before the answer")
			}
			g.runner.finish(j, tc.answer, tc.stopping)
			require.Len(t, g.runner.budgets[thePDB].tokens, tc.tokens)
			require.Equal(t, tc.tokens == 1, j.token)
			require.Equal(t, tc.state, j.state)
			require.Equal(t, tc.woken, slices.Contains(*woken, "n2"), "woken: %v", *woken)
			require.Zero(t, g.runner.inFlight)
			require.Equal(t, strings.HasPrefix(name, "throttled"), g.clock.Now().Before(g.runner.paused.until))
		})
	}
}

func TestRecall(t *testing.T) {
	for name, answer := range map[string]error{"exhausted": exhausted(), "overloaded": overloaded()} {
		t.Run(name, func(t *testing.T) {
			g, j := taken(t, 2)
			other := g.runner.nodes["n2"].attempts["uid-b"]
			require.Equal(t, queued, other.state)
			woken := g.wakes()
			g.runner.finish(j, answer, false)
			require.Equal(t, idle, other.state)
			require.False(t, other.token)
			require.Empty(t, g.runner.nodes["n2"].queue)
			require.Empty(t, g.runner.budgets[thePDB].tokens)
			require.Contains(t, *woken, "n2")
		})
	}
}

func TestTokenExpires(t *testing.T) {
	g, j := taken(t, 1)
	g.runner.finish(j, nil, false)
	g.runner.nodes["n1"].look([]drain.Decision{{Pod: pod("n1", "a")}}, &g.runner.paused, g.clock.Now().Add(acceptedFor))
	require.Equal(t, idle, j.state)
	require.Empty(t, g.runner.budgets[thePDB].tokens, "it would count against the budget for ever")

	g, j = taken(t, 1)
	g.runner.finish(j, nil, false)
	g.budgets.set(0, 11) // which shows it
	g.step("n2")
	require.Empty(t, g.runner.budgets[thePDB].tokens)
}

func TestNewestGrace(t *testing.T) {
	g := newRig(t)
	g.on("n", "a")
	g.step("n")
	ns := g.runner.nodes["n"]
	decided := func(grace int64) *drain.Decision {
		return &drain.Decision{Node: "n", Pod: pod("n", "a"), Verdict: drain.Verdict{Action: drain.Delete, GracePeriodSeconds: &grace}}
	}
	for _, grace := range []int64{30, 1} {
		ns.carryOut(decided(grace), g.runner.budgets, g.clock.Now())
		require.Equal(t, grace, *ns.attempts["uid-a"].grace)
		require.Equal(t, []types.UID{"uid-a"}, ns.queue)
	}
	job, _ := g.runner.pick()
	require.NotNil(t, job)
	ns.carryOut(decided(60), g.runner.budgets, g.clock.Now())
	require.Equal(t, int64(1), *ns.attempts["uid-a"].grace, "it is on its way")
	require.Empty(t, ns.queue)
}

func TestReportForgets(t *testing.T) {
	g := newRig(t)
	g.budgets.set(0, 10)
	g.on("n", "a")
	require.Equal(t, g.clock.Now(), g.step("n").Blockers[0].Since)
	require.True(t, g.runner.nodes["n"].waits[thePDB])
	g.clock.Step(time.Second)
	g.budgets.set(1, 11)
	g.step("n")
	require.Empty(t, g.runner.nodes["n"].waits, "it waits for no budget any more")
	g.clock.Step(time.Second)
	g.budgets.set(0, 12)
	g.runner.Step(g.t.Context(), Request{Node: cordoned("n")}) //nolint:errcheck // the pod is still queued
	g.runner.nodes["n"].attempts["uid-a"].withdraw()
	require.Equal(t, g.clock.Now(), g.step("n").Blockers[0].Since, "it is blocked since now, and not since it was the last time")
}

// releasing is a source that notes which Nodes are let go.
type releasing struct {
	*memorySource

	released []string
}

func (s *releasing) Release(node string) { s.released = append(s.released, node) }

// nodesThatAre is a reader of Nodes.
type nodesThatAre func(name string) *corev1.Node

func (n nodesThatAre) Get(_ context.Context, key client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	n(key.Name).DeepCopyInto(into.(*corev1.Node))
	return nil
}

func (nodesThatAre) List(context.Context, client.ObjectList, ...client.ListOption) error { return nil }

// The Node that was drained so far is not the one that the server has now.
func TestNodeReplaced(t *testing.T) {
	g := newRig(t)
	known := cordoned("n")
	known.UID = "the-one-before"
	d := &drains{runner: g.runner, live: nodesThatAre(cordoned)}
	err := d.read(t.Context(), &nodeDrain{NodeResult: NodeResult{Node: "n"}, node: known})
	require.ErrorIs(t, err, errNodeReplaced)
	require.True(t, isFinal(err))
}

func TestDrainReleases(t *testing.T) {
	source := &releasing{memorySource: &memorySource{pods: map[string]map[types.UID]*corev1.Pod{}}}
	g := newRig(t, func(c *Config) { c.Pods = source })
	results, err := drainBy(t.Context(), g.runner, nodesThatAre(cordoned), DrainOptions{}, []string{"n"})
	require.NoError(t, err)
	require.True(t, results[0].Done)
	require.Empty(t, g.runner.nodes)
	require.Empty(t, g.runner.ring)
	require.Empty(t, g.runner.sinks)
	require.Equal(t, []string{"n", "n"}, source.released, "its Pods are listed again, and then it is let go")
}

func TestDeletion(t *testing.T) {
	g := newRig(t)
	g.budgets.set(0, 10)
	g.answer(exhausted())
	g.on("n", "a")
	policy := &drain.Policy{GracePeriod: new(int64(20)), DeleteAfter: 10 * time.Minute}
	req := Request{Policy: policy, StartedAt: g.clock.Now().Add(-10*time.Minute + 5*time.Second)}
	require.Equal(t, 5*time.Second, g.stepWith(req).RequeueAfter, "when deletions begin")
	require.Zero(t, g.send())
	g.clock.Step(5 * time.Second)
	g.stepWith(req)
	g.answer(nil)
	require.Equal(t, 1, g.send())
	g.wantRequests("delete a 20s")
	require.Equal(t, pod("n", "a").UID, g.evictor.refs[0].UID)
	require.Equal(t, 1, g.stepWith(req).Counts.Terminating)
	g.gone("n", "a")
	require.True(t, g.stepWith(req).Done)
}

func TestDeletionTakesOver(t *testing.T) {
	g := newRig(t)
	g.budgets.set(1, 10)
	g.answer(forbidden())
	g.on("n", "rests", "waits")
	req := Request{StartedAt: g.clock.Now(), Policy: &drain.Policy{DeleteAfter: time.Second}}
	g.stepWith(req)
	require.Equal(t, 1, g.send())
	g.stepWith(req)
	require.Equal(t, 1, g.send(), "the token of the refused pod serves the other one")
	g.on("n", "queued")
	g.stepWith(req)
	g.clock.Step(time.Second)
	require.Equal(t, 3, g.stepWith(req).Counts.Evictable, "what kept evictions back is no longer reported")
	require.Len(t, g.runner.nodes["n"].queue, 3)
	require.Empty(t, g.runner.budgets[thePDB].tokens, "deletions take no tokens")
	g.answer(nil)
	require.Equal(t, 3, g.send())
	g.wantRequests("rests", "waits", "delete queued", "delete rests", "delete waits")
}

func TestRefusedDeletion(t *testing.T) {
	g := newRig(t)
	g.answer(forbidden())
	g.on("n", "a")
	req := Request{StartedAt: g.clock.Now().Add(-1), Policy: &drain.Policy{DeleteAfter: 1}}
	g.stepWith(req)
	require.Equal(t, 1, g.send())
	for range 3 {
		got := g.stepWith(req)
		require.Len(t, got.Blockers, 1)
		require.Equal(t, drain.ReasonForbidden, got.Blockers[0].Reason)
		require.Zero(t, g.send(), "it rests")
	}
	g.clock.Step(15 * time.Second)
	g.answer(nil)
	g.stepWith(req)
	require.Equal(t, 1, g.send())
	g.wantRequests("delete a", "delete a")
}

// What is queued and not sent leaves the queue when the rules or the source say something else.
func TestQueuedPod(t *testing.T) {
	ignores := func(*corev1.Pod, drain.Verdict) (drain.Verdict, error) {
		return drain.Verdict{Action: drain.Ignore}, nil
	}
	denies := func(_ *corev1.Pod, prev drain.Verdict) (drain.Verdict, error) { return prev, errors.New("not now") }
	for name, tc := range map[string]struct {
		rules []drain.Rule
		want  drain.Counts
	}{
		"that is ignored": {[]drain.Rule{ignores}, drain.Counts{Total: 1, Ignored: 1}},
		"that is denied":  {[]drain.Rule{denies}, drain.Counts{Total: 1, Blocked: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			g := newRig(t)
			g.budgets.set(1, 10)
			g.on("n", "a")
			g.step("n")
			got := g.stepWith(Request{Rules: tc.rules})
			require.Equal(t, tc.want, got.Counts)
			require.Equal(t, tc.want.Ignored == 1, got.Done)
			require.Empty(t, g.runner.nodes["n"].queue)
			require.Empty(t, g.runner.budgets[thePDB].tokens)
			require.Zero(t, g.send())
		})
	}
	t.Run("that was created again", func(t *testing.T) {
		g := newRig(t)
		g.on("n", "a")
		g.step("n")
		again := pod("n", "a")
		again.UID = "another"
		g.gone("n", "a")
		g.pods.put(again)
		g.step("n")
		require.Equal(t, 1, g.send())
		require.Equal(t, again.UID, g.evictor.refs[0].UID)
	})
}

func TestPolicy(t *testing.T) {
	g := newRig(t)
	g.on("n", "a")
	g.stepWith(Request{Policy: &drain.Policy{GracePeriod: new(int64(7))}})
	g.send()
	g.wantRequests("a 7s")
	_, err := g.runner.Step(t.Context(), Request{Node: schedulable("n", "1"), Policy: &drain.Policy{GracePeriod: new(int64(0))}})
	require.ErrorContains(t, err, "GracePeriod must be at least 1")
	require.Empty(t, g.nodes.patches, "refused before the cordon")
}
