package runner

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/machinist-dev/machinist/drain"
)

func TestNew(t *testing.T) {
	_, err := New(Config{})
	require.ErrorContains(t, err, "Nodes, Pods and Evictor are required")
}

func TestUnsynced(t *testing.T) {
	g := newRig(t)
	g.pods.lost = true
	got := g.step("n")
	require.False(t, got.Done)
	require.NotEmpty(t, got.Message)
	require.NotZero(t, got.RequeueAfter)
	g.pods.lost = false
	got = g.step("n")
	require.True(t, got.Done)
	require.Empty(t, got.Message)
	require.Zero(t, got.RequeueAfter)
	g.pods.err = errors.New("watch refused")
	got, err := g.runner.Step(t.Context(), Request{Node: cordoned("n")})
	require.ErrorContains(t, err, "watch refused")
	require.False(t, got.Done)
}

func TestUnknownNode(t *testing.T) {
	g := newRig(t)
	for _, node := range []*corev1.Node{nil, {}, {ObjectMeta: metav1.ObjectMeta{Name: "n"}}} {
		_, err := g.runner.Step(t.Context(), Request{Node: node})
		require.Error(t, err)
	}
}

func TestCordon(t *testing.T) {
	g := newRig(t, func(c *Config) { c.Settle = 5 * time.Second })
	step := func(node *corev1.Node) Result {
		before := node.DeepCopy()
		result := g.stepWith(Request{Node: node})
		require.Equal(t, before, node, "the Node is not changed")
		return result
	}
	for _, version := range []string{"99", "99", "98"} { // stale looks
		require.False(t, step(schedulable("n", version)).Done)
	}
	require.Equal(t, slices.Repeat([]string{`n application/json-patch+json [{"op":"test","path":"/metadata/uid","value":"uid-n"},` +
		`{"op":"add","path":"/spec/unschedulable","value":true}]`}, 3), g.nodes.patches)
	got := step(cordoned("n"))
	require.False(t, got.Done)
	require.Equal(t, 5*time.Second, got.RequeueAfter)
	g.clock.Step(5 * time.Second)
	require.True(t, step(cordoned("n")).Done)
	require.False(t, step(schedulable("n", "300")).Done)
	require.Len(t, g.nodes.patches, 4, "the first cordon was undone")
}

func TestDrainedNode(t *testing.T) {
	g := newRig(t)
	g.on("n", "a", "b")
	g.step("n")
	require.Equal(t, 2, g.send())
	got := g.step("n")
	require.False(t, got.Done)
	require.Equal(t, 2, got.Counts.Terminating)
	require.Zero(t, g.send(), "accepted is not requested again")
	terminating := pod("n", "a")
	terminating.DeletionTimestamp = &metav1.Time{Time: g.clock.Now()}
	g.pods.put(terminating)
	g.gone("n", "b")
	require.Equal(t, "* Pod default/a: deletionTimestamp set, but still not removed from the Node", g.step("n").Message)
	g.gone("n", "a")
	require.True(t, g.step("n").Done)
	require.Empty(t, g.runner.nodes["n"].attempts)
	g.wantRequests("a", "b")
}

func TestAnotherNode(t *testing.T) {
	g := newRig(t)
	g.on("n", "a")
	g.step("n")
	other := schedulable("n", "5")
	other.UID = "other"
	g.stepWith(Request{Node: other})
	require.Len(t, g.nodes.patches, 1)
	require.Equal(t, other.UID, g.runner.nodes["n"].uid)
	require.Len(t, g.runner.ring, 1)
}

// uncordoned returns the blocker that others make the Node schedulable again.
func uncordoned(r Result) (b drain.Blocker, found bool) {
	at := slices.IndexFunc(r.Blockers, func(b drain.Blocker) bool { return b.Reason == drain.ReasonUncordoned })
	if at < 0 {
		return b, false
	}
	return r.Blockers[at], true
}

// resets steps through a fight about the cordon: another writer makes the Node schedulable again right after each cordon.
func (g *rig) resets(version, times int, every time.Duration) (last Result, took int) {
	g.t.Helper()
	for i := range times {
		g.nodes.version = fmt.Sprint(version + 2*i)
		if last = g.stepWith(Request{Node: schedulable("n", fmt.Sprint(version+2*i+1))}); last.Event != nil {
			g.events++
		}
		if last.Done {
			return last, i
		}
		g.clock.Step(every)
	}
	return last, times
}

func TestUncordoned(t *testing.T) {
	cordons := func(g *rig) int {
		g.nodes.mu.Lock()
		defer g.nodes.mu.Unlock()
		return len(slices.DeleteFunc(slices.Clone(g.nodes.patches), func(p string) bool { return !strings.Contains(p, "unschedulable") }))
	}
	settling := func(c *Config) { c.Settle = 2 * time.Second }

	t.Run("the Node is cordoned ever more rarely, and a blocker says so", func(t *testing.T) {
		g := newRig(t, settling)
		g.on("n", "a")
		last, _ := g.resets(100, 100, 100*time.Millisecond)
		require.Equal(t, 5+3, cordons(g), "a burst, and one after 1 s, 2 s and 4 s")
		b, found := uncordoned(last)
		require.True(t, found)
		require.Equal(t, g.clock.Now().Add(-9900*time.Millisecond), b.Since, "the second Step was shown the first uncordon")
		require.Equal(t, "the Node was made schedulable again during its drain, several times; "+
			"it is cordoned again, later each time: stop the other writer", b.Message)
		require.Contains(t, last.Message, "* "+b.Message+"\n* Pod default/a")
		require.LessOrEqual(t, last.RequeueAfter, 8*time.Second)
		require.Equal(t, 1, g.events)
	})
	t.Run("the drain ends when no Pod is left", func(t *testing.T) {
		g := newRig(t, settling)
		g.on("n", "a")
		last, _ := g.resets(100, 30, 100*time.Millisecond)
		require.False(t, last.Done)
		g.gone("n", "a")
		last, took := g.resets(1000, 100, 100*time.Millisecond)
		require.True(t, last.Done)
		require.Zero(t, took, "the last Pod was bound long ago")
		require.Empty(t, last.Message)
	})
	t.Run("a Pod that is bound meanwhile begins the settle time anew", func(t *testing.T) {
		g := newRig(t, settling)
		g.resets(100, 30, 100*time.Millisecond)
		g.on("n", "late")
		g.resets(200, 1, 100*time.Millisecond)
		g.gone("n", "late")
		last, took := g.resets(300, 100, 100*time.Millisecond)
		require.True(t, last.Done)
		require.Equal(t, 19, took)
	})
	t.Run("once is reported for two minutes, and settles anew", func(t *testing.T) {
		g := newRig(t, settling)
		g.on("n", "a")
		g.step("n")
		g.resets(300, 1, time.Second)
		got := g.step("n")
		b, found := uncordoned(got)
		require.True(t, found)
		require.Contains(t, b.Message, "was made schedulable again during its drain; it is cordoned again")
		g.gone("n", "a")
		require.False(t, g.step("n").Done)
		g.on("n", "a")
		g.clock.Step(2 * time.Minute)
		got = g.step("n")
		_, found = uncordoned(got)
		require.False(t, found)
	})
	t.Run("a pause that is over wakes nothing", func(t *testing.T) {
		g := newRig(t, settling)
		g.on("n", "a")
		g.resets(100, 7, 100*time.Millisecond)
		_, found := uncordoned(g.step("n"))
		require.True(t, found)
		g.clock.Step(time.Minute)
		require.Greater(t, g.step("n").RequeueAfter, time.Second)
	})
}
