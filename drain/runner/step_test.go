package runner

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/machinist-dev/machinist/drain"
)

func TestNew_NamesEverythingThatIsMissing(t *testing.T) {
	_, err := New(Config{})
	require.ErrorContains(t, err, "Nodes, Pods and Evictor are required")
}

func TestStep_AnUnsyncedSourceIsNeverDone(t *testing.T) {
	g := newRig(t, nil)
	g.pods.lost = true
	if got := g.step("n"); got.Done || got.Message == "" || got.RequeueAfter == 0 {
		t.Errorf("want not done, with a message and a time to look again, got %+v", got)
	}
	g.pods.lost = false
	if got := g.step("n"); !got.Done || got.Message != "" || got.RequeueAfter != 0 {
		t.Errorf("want done, got %+v", got)
	}
	g.pods.err = errors.New("watch refused")
	got, err := g.runner.Step(t.Context(), Request{Node: cordoned("n")})
	require.ErrorContains(t, err, "watch refused")
	if got.Done {
		t.Error("want not done while the source fails")
	}
}

func TestStep_RefusesANodeThatCannotBeIdentified(t *testing.T) {
	g := newRig(t, nil)
	for _, node := range []*corev1.Node{nil, {}, {ObjectMeta: metav1.ObjectMeta{Name: "n"}}} {
		_, err := g.runner.Step(t.Context(), Request{Node: node})
		require.Error(t, err)
	}
}

func TestStep_CordonsUntilTheCordonIsObserved(t *testing.T) {
	g := newRig(t, func(c *Config) { c.Settle = 5 * time.Second })
	step := func(node *corev1.Node) Result {
		before := node.DeepCopy()
		result, err := g.runner.Step(t.Context(), Request{Node: node})
		require.NoError(t, err)
		if diff := cmp.Diff(before, node); diff != "" {
			t.Fatalf("the Node was changed (-before +after):\n%s", diff)
		}
		return result
	}
	want := slices.Repeat([]string{`n application/json-patch+json [{"op":"test","path":"/metadata/uid","value":"uid-n"},` +
		`{"op":"add","path":"/spec/unschedulable","value":true}]`}, 3)

	for _, version := range []string{"99", "99", "98"} { // stale looks
		if got := step(schedulable("n", version)); got.Done {
			t.Fatal("want not done before the cordon is observed")
		}
	}
	if diff := cmp.Diff(want, g.nodes.patches); diff != "" {
		t.Fatalf("(-want +got):\n%s", diff)
	}
	if got := step(cordoned("n")); got.Done || got.RequeueAfter != 5*time.Second {
		t.Fatalf("want to settle for 5s first, got %+v", got)
	}
	g.clock.Step(5 * time.Second)
	if got := step(cordoned("n")); !got.Done {
		t.Fatalf("want done, got %+v", got)
	}
	if got := step(schedulable("n", "300")); got.Done || len(g.nodes.patches) != 4 {
		t.Fatalf("want another cordon after the first was undone, got %+v and %v", got, g.nodes.patches)
	}
}

// An API server answers 422 to a patch whose test fails, to a patch that makes a Node invalid, and where it says nothing itself a
// proxy may.
func TestStep_ANodeReplacedUnderTheSameNameIsDistinguishedFromARefusedOne(t *testing.T) {
	nodes := schema.GroupResource{Resource: "nodes"}
	for name, tc := range map[string]struct {
		answer   *apierrors.StatusError
		replaced bool
	}{
		"the test of the UID fails": {
			apierrors.NewGenericServerResponse(422, "", schema.GroupResource{}, "", "testing value /metadata/uid failed", 0, false), true},
		"without details": {&apierrors.StatusError{ErrStatus: metav1.Status{Code: 422, Reason: metav1.StatusReasonInvalid}}, true},
		"the Node is invalid": {apierrors.NewInvalid(schema.GroupKind{Kind: "Node"}, "n", field.ErrorList{
			field.Forbidden(field.NewPath("spec", "podCIDRs"), "node updates may not change podCIDR except from \"\" to valid"),
		}), false},
		"a proxy answers": {apierrors.NewGenericServerResponse(422, "PATCH", nodes, "n", "<html>", 0, true), false},
	} {
		t.Run(name, func(t *testing.T) {
			g := newRig(t, nil)
			g.nodes.err = tc.answer
			_, stepped := g.runner.Step(t.Context(), Request{Node: schedulable("n", "1")})
			for _, err := range []error{stepped, g.runner.Cancel(t.Context(), schedulable("n", "1"), true)} {
				require.Equal(t, tc.replaced, errors.Is(err, errNodeReplaced), "%v", err)
				require.True(t, apierrors.IsInvalid(err), "the API server's own answer is in it")
			}
		})
	}
}

func TestCancel_ForgetsTheQueueAndUncordonsOnlyWhenAsked(t *testing.T) {
	g := newRig(t, nil)
	g.pods.put(pod("n", "a"))
	g.step("n")
	require.NoError(t, g.runner.Cancel(t.Context(), cordoned("n"), false))
	require.Empty(t, g.nodes.patches)
	require.Empty(t, g.runner.nodes)
	require.NoError(t, g.runner.Cancel(t.Context(), cordoned("n"), true))
	require.Len(t, g.nodes.patches, 1)
	require.Contains(t, g.nodes.patches[0], `"value":false`)
	g.start()
	defer g.stop()
	g.runner.Release("unknown")
	g.wantRequests()
}

func TestStep_ReturnsWhileTheEvictorHangs(t *testing.T) {
	g := newRig(t, nil)
	g.runner.SetWorkers(2)
	g.evictor.answerWith(func(ctx context.Context, _ PodRef) error { <-ctx.Done(); return ctx.Err() })
	for _, name := range []string{"a", "b", "c", "d"} {
		g.pods.put(pod("n", name))
	}
	g.start()
	for range 5 {
		if got := g.step("n"); got.Done || got.Counts.Evictable != 4 {
			t.Fatalf("want four pods on their way, got %+v", got)
		}
	}
	g.eventually("two requests hang", func() bool { return len(g.evictor.names()) == 2 })
	g.step("n")
	g.stop() // ends although both hang in the API server
	if got := len(g.evictor.names()); got != 2 {
		t.Errorf("want no request after the end, got %d in all", got)
	}
	_, err := g.runner.Step(t.Context(), Request{Node: cordoned("n")})
	require.ErrorIs(t, err, ErrStopped)
}

func TestStep_DrainsAndForgets(t *testing.T) {
	g := newRig(t, nil)
	g.pods.put(pod("n", "a"), pod("n", "b"))
	g.start()
	defer g.stop()
	g.step("n")
	g.settled(2)
	if got := g.step("n"); got.Done || got.Counts.Terminating != 2 {
		t.Fatalf("want two accepted pods, got %+v", got)
	}
	g.settled(2) // accepted is not asked for again
	terminating := pod("n", "a")
	terminating.DeletionTimestamp = &metav1.Time{Time: g.clock.Now()}
	g.pods.put(terminating)
	g.pods.remove("n", "uid-b")
	if got := g.step("n"); got.Message != "* Pod default/a: deletionTimestamp set, but still not removed from the Node" {
		t.Fatalf("unexpected message %q", got.Message)
	}
	g.pods.remove("n", "uid-a")
	if got := g.step("n"); !got.Done {
		t.Fatalf("want done, got %+v", got)
	}
	require.Empty(t, g.runner.nodes["n"].attempts)
	g.wantRequests("a", "b")
}

func TestStep_APodRecreatedUnderTheSameNameGetsItsOwnRequest(t *testing.T) {
	g := newRig(t, nil)
	g.pods.put(pod("n", "a"))
	g.step("n") // queued, not sent: nothing runs yet
	again := pod("n", "a")
	again.UID = "another"
	g.pods.remove("n", "uid-a")
	g.pods.put(again)
	g.step("n")
	g.start()
	defer g.stop()
	g.settled(1)
	if got := g.evictor.refs[0].UID; got != "another" {
		t.Errorf("want the new incarnation, got %s", got)
	}
}

func TestStep_ANodeWithAnotherUIDStartsAnew(t *testing.T) {
	g := newRig(t, nil)
	g.pods.put(pod("n", "a"))
	g.step("n")
	other := schedulable("n", "5")
	other.UID = "other"
	_, err := g.runner.Step(t.Context(), Request{Node: other})
	require.NoError(t, err)
	require.Len(t, g.nodes.patches, 1)
	require.Equal(t, types.UID("other"), g.runner.nodes["n"].uid)
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
		result, err := g.runner.Step(g.t.Context(), Request{Node: schedulable("n", fmt.Sprint(version+2*i+1))})
		require.NoError(g.t, err)
		if result.Event != nil {
			g.events++
		}
		if last = result; result.Done {
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
		g.pods.put(pod("n", "a"))
		last, _ := g.resets(100, 100, 100*time.Millisecond)
		require.Equal(t, 5+3, cordons(g), "a burst, and one after 1 s, 2 s and 4 s")
		b, found := uncordoned(last)
		require.True(t, found)
		require.Equal(t, g.clock.Now().Add(-9900*time.Millisecond), b.Since, "the second Step was shown the first uncordon")
		require.Equal(t, "the Node was made schedulable again during its drain, 8 times since 2026-01-01T00:00:00Z; "+
			"it is cordoned again, later each time: let the other one leave the Node alone", b.Message)
		require.Contains(t, last.Message, "* "+b.Message+"\n* Pod default/a")
		require.LessOrEqual(t, last.RequeueAfter, 8*time.Second)
		require.Equal(t, 1, g.events)
	})
	t.Run("the drain ends when no Pod is left", func(t *testing.T) {
		g := newRig(t, settling)
		g.pods.put(pod("n", "a"))
		last, _ := g.resets(100, 30, 100*time.Millisecond)
		require.False(t, last.Done)
		g.pods.remove("n", "uid-a")
		last, took := g.resets(1000, 100, 100*time.Millisecond)
		require.True(t, last.Done)
		require.Zero(t, took, "the last Pod was bound long ago")
		require.Empty(t, last.Message)
	})
	t.Run("a Pod that is bound meanwhile begins the settle time anew", func(t *testing.T) {
		g := newRig(t, settling)
		g.resets(100, 30, 100*time.Millisecond)
		g.pods.put(pod("n", "late"))
		g.resets(200, 1, 100*time.Millisecond)
		g.pods.remove("n", "uid-late")
		last, took := g.resets(300, 100, 100*time.Millisecond)
		require.True(t, last.Done)
		require.Equal(t, 19, took)
	})
	t.Run("once is reported for two minutes, and settles anew", func(t *testing.T) {
		g := newRig(t, settling)
		g.pods.put(pod("n", "a"))
		g.step("n")
		g.resets(300, 1, time.Second)
		got := g.step("n")
		b, found := uncordoned(got)
		require.True(t, found)
		require.Contains(t, b.Message, "once since")
		g.pods.remove("n", "uid-a")
		require.False(t, g.step("n").Done)
		g.pods.put(pod("n", "a"))
		g.clock.Step(2 * time.Minute)
		got = g.step("n")
		_, found = uncordoned(got)
		require.False(t, found)
	})
}
