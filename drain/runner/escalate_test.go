package runner

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/machinist-dev/machinist/drain"
)

// memoryDeleter records deletions as "name grace" and answers them with err. Evictions are those of the rig.
type memoryDeleter struct {
	Evictor
	mu   sync.Mutex
	got  []string
	uids []types.UID
	err  error
}

func (d *memoryDeleter) Delete(_ context.Context, ref PodRef, seconds *int64) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	grace := "own"
	if seconds != nil {
		grace = (time.Duration(*seconds) * time.Second).String()
	}
	d.got, d.uids = append(d.got, ref.Name+" "+grace), append(d.uids, ref.UID)
	return d.err
}

func (d *memoryDeleter) deletions() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.got)
}

func (d *memoryDeleter) answerWith(err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.err = err
}

func newDeletingRig(t *testing.T, change func(*Config)) (*rig, *memoryDeleter) {
	t.Helper()
	d := &memoryDeleter{}
	return newRig(t, func(c *Config) {
		d.Evictor, c.Evictor = c.Evictor, d
		if change != nil {
			change(c)
		}
	}), d
}

func (g *rig) stepWith(req Request) Result {
	g.t.Helper()
	if req.Node == nil {
		req.Node = cordoned("n")
	}
	result, err := g.runner.Step(g.t.Context(), req)
	require.NoError(g.t, err)
	return result
}

// deleted waits until exactly these deletions were sent and answered.
func (g *rig) deleted(d *memoryDeleter, want ...string) {
	g.t.Helper()
	g.eventually(fmt.Sprintf("%d deletions have ended", len(want)), func() bool {
		g.runner.mu.Lock()
		defer g.runner.mu.Unlock()
		return g.runner.inFlight == 0 && len(d.deletions()) >= len(want)
	})
	if diff := cmp.Diff(want, d.deletions()); diff != "" {
		g.t.Fatalf("deletions (-want +got):\n%s", diff)
	}
}

func TestStep_DeletionsBeginAtTheirTimeFromTheStartOfTheDrain(t *testing.T) {
	g, d := newDeletingRig(t, nil)
	g.budgets.set(0, 10)
	g.evictor.answerWith(exhausted)
	g.pods.put(pod("n", "a"))
	policy := &drain.Policy{GracePeriod: new(int64(20)), DeleteAfter: 10 * time.Minute}
	req := Request{Policy: policy, StartedAt: g.clock.Now().Add(-10*time.Minute + 5*time.Second)}
	g.start()
	defer g.stop()
	if got := g.stepWith(req); got.RequeueAfter != 5*time.Second {
		t.Fatalf("want another look when deletions begin, got %s", got.RequeueAfter)
	}
	g.deleted(d)
	g.clock.Step(5 * time.Second)
	g.stepWith(req)
	g.deleted(d, "a 20s")
	require.Equal(t, types.UID("uid-a"), d.uids[0])
	if got := g.stepWith(req); got.Counts.Terminating != 1 {
		t.Fatalf("want the pod to count as terminating, got %+v", got)
	}
	g.pods.remove("n", "uid-a")
	if got := g.stepWith(req); !got.Done {
		t.Fatalf("want done when the pod is gone, got %+v", got)
	}
}

func TestStep_DeletionsTakeOverWhatWaitsRestsOrIsQueued(t *testing.T) {
	g, d := newDeletingRig(t, nil)
	g.budgets.set(1, 10)
	g.evictor.answerWith(func(context.Context, PodRef) error { return apierrors.NewForbidden(podsResource, "a", nil) })
	g.pods.put(pod("n", "rests"), pod("n", "waits"))
	req := Request{StartedAt: g.clock.Now(), Policy: &drain.Policy{DeleteAfter: time.Second}}
	g.start()
	defer g.stop()
	g.stepWith(req)
	g.settled(1)
	g.stepWith(req)
	g.settled(2) // the token of the refused pod serves the other one
	g.runner.mu.Lock()
	g.runner.workers = 0 // hold the queue
	g.runner.mu.Unlock()
	g.pods.put(pod("n", "queued"))
	g.stepWith(req)
	g.clock.Step(time.Second)
	g.stepWith(req)
	g.runner.mu.Lock()
	require.Len(t, g.runner.nodes["n"].queue, 3)
	for _, b := range g.runner.budgets {
		require.Empty(t, b.tokens, "deletions take no tokens")
	}
	g.runner.workers = 8
	g.runner.mu.Unlock()
	g.stepWith(req)
	g.eventually("all are deleted", func() bool { return len(d.deletions()) == 3 })
	g.settled(2)
}

func TestStep_ARefusedDeletionRests(t *testing.T) {
	g, d := newDeletingRig(t, nil)
	d.answerWith(apierrors.NewForbidden(podsResource, "a", nil))
	g.pods.put(pod("n", "a"))
	req := Request{StartedAt: g.clock.Now().Add(-1), Policy: &drain.Policy{DeleteAfter: 1}}
	g.start()
	defer g.stop()
	g.stepWith(req)
	g.deleted(d, "a own")
	for range 3 {
		if got := g.stepWith(req); len(got.Blockers) != 1 || got.Blockers[0].Reason != drain.ReasonForbidden {
			t.Fatalf("want the refusal reported, got %+v", got.Blockers)
		}
	}
	g.deleted(d, "a own")
	g.clock.Step(15 * time.Second)
	d.answerWith(nil)
	g.stepWith(req)
	g.deleted(d, "a own", "a own")
}

func TestStep_AQueuedPodThatIsHeldNowLeavesTheQueue(t *testing.T) {
	g, _ := newDeletingRig(t, nil)
	g.budgets.set(1, 10)
	g.pods.put(pod("n", "a"))
	g.stepWith(Request{}) // queued, not sent: nothing runs yet
	denies := func(_ *corev1.Pod, prev drain.Verdict) (drain.Verdict, error) { return prev, errors.New("not now") }
	if got := g.stepWith(Request{Rules: []drain.Rule{denies}}); len(got.Blockers) != 1 {
		t.Fatalf("want the Pod held by the rule, got %+v", got)
	}
	require.Empty(t, g.runner.nodes["n"].queue)
	for _, b := range g.runner.budgets {
		require.Empty(t, b.tokens)
	}
	g.start()
	defer g.stop()
	g.settled(0)
}

func TestStep_TheGracePeriodOfThePolicyIsPassedOn(t *testing.T) {
	var got *int64
	g := newRig(t, func(c *Config) {
		c.Evictor = EvictorFunc(func(_ context.Context, _ PodRef, grace *int64) error { got = grace; return nil })
	})
	g.pods.put(pod("n", "a"))
	g.start()
	defer g.stop()
	g.stepWith(Request{Policy: &drain.Policy{GracePeriod: new(int64(7))}})
	g.eventually("the pod is accepted", func() bool {
		g.runner.mu.Lock()
		defer g.runner.mu.Unlock()
		return g.runner.inFlight == 0 && g.runner.nodes["n"].attempts["uid-a"].state == accepted
	})
	require.Equal(t, int64(7), *got)
}

func TestStep_AnInvalidPolicyIsRefusedBeforeTheCordon(t *testing.T) {
	g := newRig(t, nil)
	_, err := g.runner.Step(t.Context(), Request{Node: schedulable("n", "1"), Policy: &drain.Policy{GracePeriod: new(int64(0))}})
	require.ErrorContains(t, err, "GracePeriod must be at least 1")
	require.Empty(t, g.nodes.patches)
}
