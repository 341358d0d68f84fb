package runner

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/machinist-dev/machinist/drain"
)

var (
	podsResource    = schema.GroupResource{Resource: "pods"}
	budgetsResource = schema.GroupResource{Group: "policy", Resource: "poddisruptionbudgets"}
)

func answerOf(code, retryAfter int) error {
	return apierrors.NewGenericServerResponse(code, "POST", podsResource, "a", "text of the server", retryAfter, true)
}

func staleBudget() error {
	err := apierrors.NewTooManyRequests("Cannot evict pod as it would violate the pod's disruption budget.", 10)
	err.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: policyv1.DisruptionBudgetCause, Message: "still being processed"}}
	return err
}

func terminatingNamespace() error {
	err := apierrors.NewForbidden(podsResource, "a", errors.New("being terminated"))
	err.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: "NamespaceTerminating"}}
	return err
}

func twoBudgets() error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: 500,
		Message: "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.",
	}}
}

// evacuates is what KubeVirt's webhook says of the pod of a virtual machine that it migrates, word for word (see drain.TestClassify).
func evacuates(ref PodRef) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: 429,
		Message: fmt.Sprintf(`admission webhook "virt-launcher-eviction-interceptor.kubevirt.io" denied the request: `+
			`Eviction triggered evacuation of VMI "%s/%s"`, ref.Namespace, ref.Name),
	}}
}

// The rows of drain-noderef 3.2: what the owner reads, and when the pod is asked for again while nothing else happens.
func TestAnswers_EveryOneIsHandledAsItsMeaningAsks(t *testing.T) {
	conflict := func() error { return apierrors.NewConflict(podsResource, "a", errors.New("modified")) }
	fought := apierrors.NewConflict(budgetsResource, "pdb", errors.New("the object has been modified"))
	internal := func() error { return apierrors.NewInternalError(errors.New("failed calling webhook")) }
	cases := map[string]struct {
		answer func() error
		reason drain.Reason  // of the only blocker; empty when the pod counts as terminating
		rests  time.Duration // before the second request
		then   time.Duration // before the third one
	}{
		"201 accepted": {func() error { return nil }, "", 30 * time.Second, 30 * time.Second},
		"404 while the cache shows the pod": {func() error { return apierrors.NewNotFound(podsResource, "a") }, "", 15 * time.Second,
			15 * time.Second},
		"404 without the endpoint": {func() error { return answerOf(404, 0) }, drain.ReasonEndpointMissing, time.Minute,
			2 * time.Minute},
		"409 while the cache shows the pod": {conflict, drain.ReasonConflict, time.Second, 2 * time.Second},
		"403 namespace is terminating":      {terminatingNamespace, drain.ReasonNamespaceTerminating, 30 * time.Second, 30 * time.Second},
		"403 too many unconfirmed evictions": {func() error { return apierrors.NewForbidden(budgetsResource, "pdb", errors.New("too big")) },
			drain.ReasonBudgetExhausted, 15 * time.Second, 15 * time.Second},
		"403 by RBAC or admission": {func() error { return apierrors.NewForbidden(podsResource, "a", errors.New("no")) },
			drain.ReasonForbidden, 15 * time.Second, 30 * time.Second},
		"429 budget is exhausted": {func() error { return exhausted(t.Context(), PodRef{}) }, drain.ReasonBudgetExhausted,
			15 * time.Second, 15 * time.Second},
		"429 budget is stale":          {staleBudget, drain.ReasonBudgetStale, 15 * time.Second, 15 * time.Second},
		"429 of priority and fairness": {func() error { return answerOf(429, 7) }, drain.ReasonThrottled, 7 * time.Second, 7 * time.Second},
		"429 of KubeVirt's webhook": {func() error { return evacuates(PodRef{}) }, drain.ReasonAdmissionDenied, 15 * time.Second,
			30 * time.Second},
		"429 with a hint of an hour": {func() error { return answerOf(429, 3600) }, drain.ReasonThrottled, time.Minute, time.Minute},
		"500 more than one budget":   {twoBudgets, drain.ReasonMultipleBudgets, time.Minute, 2 * time.Minute},
		"500 of a webhook":           {internal, drain.ReasonServerError, time.Second, 2 * time.Second},
		"504 our evictions fought": {func() error { return apierrors.NewTimeoutError("couldn't update PodDisruptionBudget", 10) },
			drain.ReasonUnknownOutcome, 10 * time.Second, 20 * time.Second},
		"409 our evictions fought": {func() error { return fought }, drain.ReasonConflict, time.Second, 2 * time.Second},
		"503 of a proxy": {func() error { return answerOf(503, 0) }, drain.ReasonUnknownOutcome, time.Second,
			2 * time.Second},
		"503 with a hint": {func() error { return answerOf(503, 5) }, drain.ReasonUnknownOutcome, 5 * time.Second,
			10 * time.Second},
		"connection reset": {func() error { return fmt.Errorf("read: %w", syscall.ECONNRESET) }, drain.ReasonUnknownOutcome,
			time.Second, 2 * time.Second},
		"400": {func() error { return apierrors.NewBadRequest("name in URL does not match") }, drain.ReasonInvalid,
			time.Minute, 2 * time.Minute},
		"422": {func() error { return answerOf(422, 0) }, drain.ReasonInvalid, time.Minute, 2 * time.Minute},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			g := newRig(t, nil)
			g.budgets.set(5, 10)
			g.evictor.answerWith(func(context.Context, PodRef) error { return tc.answer() })
			g.pods.put(pod("n", "a"))
			g.start()
			defer g.stop()
			g.step("n")
			for sent, rest := range []time.Duration{tc.rests, tc.then} {
				g.settled(sent + 1)
				got := g.step("n")
				switch {
				case got.Done || got.RequeueAfter <= 0 || got.RequeueAfter > max(15*time.Second, rest):
					t.Fatalf("want a look within the rest of %s, got %+v", rest, got)
				case tc.reason == "" && (got.Counts.Terminating != 1 || len(got.Blockers) != 0):
					t.Fatalf("want the pod to count as terminating, got %+v", got)
				case tc.reason != "" && (len(got.Blockers) != 1 || got.Blockers[0].Reason != tc.reason):
					t.Fatalf("want one blocker %s, got %+v", tc.reason, got.Blockers)
				}
				g.clock.Step(rest - time.Millisecond)
				g.step("n")
				g.settled(sent + 1)
				g.tick(time.Millisecond)
				g.step("n")
				g.settled(sent + 2)
			}
		})
	}
}

// tick moves the clock if there may be waiters.
func (g *rig) tick(d time.Duration) {
	g.clock.Step(d)
	g.runner.kickDispatcher()
}

func TestAnswers_GoneIsGoneWhenTheCacheSaysSoToo(t *testing.T) {
	for name, answer := range map[string]error{
		"404 of the pod":          apierrors.NewNotFound(podsResource, "a"),
		"404 of the namespace":    apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, "default"),
		"409 of another pod's ID": apierrors.NewConflict(podsResource, "a", errors.New("the UID does not match")),
	} {
		t.Run(name, func(t *testing.T) {
			g := newRig(t, nil)
			g.pods.put(pod("n", "a"))
			g.evictor.answerWith(func(_ context.Context, ref PodRef) error {
				g.pods.remove("n", ref.UID)
				return answer
			})
			g.start()
			defer g.stop()
			g.step("n")
			g.settled(1)
			if got := g.step("n"); !got.Done {
				t.Errorf("want done, got %+v", got)
			}
		})
	}
}

func TestAnswers_RefusedCredentialsStopAllNodes(t *testing.T) {
	g := newRig(t, nil)
	g.runner.SetWorkers(2)
	refuse := make(chan struct{})
	g.evictor.answerWith(func(context.Context, PodRef) error { <-refuse; return apierrors.NewUnauthorized("expired") })
	for _, name := range []string{"a", "b", "c"} {
		g.pods.put(pod("n1", name), pod("n2", name+"2"))
	}
	g.start()
	defer g.stop()
	g.step("n1")
	g.step("n2")
	g.eventually("two requests are under way", func() bool { return len(g.evictor.names()) == 2 })
	close(refuse)
	g.settled(2)
	for _, node := range []string{"n1", "n2"} {
		_, err := g.runner.Step(t.Context(), Request{Node: cordoned(node)})
		require.True(t, apierrors.IsUnauthorized(err), "got %v", err)
	}
	g.clock.Step(14 * time.Second)
	g.runner.kickDispatcher()
	g.settled(2)
	g.tick(time.Second)
	g.settled(4)
	g.evictor.answerWith(nil)
	g.tick(15 * time.Second)
	g.eventually("everything goes on", func() bool { return len(g.evictor.names()) == 10 })
	g.step("n1")
}

func TestAnswers_AThrottleDelaysAllNodes(t *testing.T) {
	g := newRig(t, func(c *Config) { c.Budgets = nil })
	g.runner.SetWorkers(8)
	busy := make(chan struct{})
	g.evictor.answerWith(func(context.Context, PodRef) error { <-busy; return answerOf(429, 2) })
	for i := range 30 {
		g.pods.put(pod(fmt.Sprintf("n%d", i%3), fmt.Sprintf("p%02d", i)))
	}
	g.start()
	defer g.stop()
	for i := range 3 {
		g.step(fmt.Sprintf("n%d", i))
	}
	g.eventually("eight requests are under way", func() bool { return len(g.evictor.names()) == 8 })
	close(busy)
	g.settled(8)
	g.clock.Step(1999 * time.Millisecond)
	g.runner.kickDispatcher()
	g.settled(8)
	for i := range 3 {
		got := g.step(fmt.Sprintf("n%d", i))
		require.Len(t, got.Blockers, 1)
		require.Equal(t, drain.ReasonThrottled, got.Blockers[0].Reason, "all requests wait")
	}
	g.evictor.answerWith(nil)
	g.tick(time.Millisecond)
	g.settled(38)
}

func TestAnswers_AWebhookThatDeniesOnePodHoldsNoOther(t *testing.T) {
	g := newRig(t, func(c *Config) { c.Budgets = nil })
	g.runner.SetWorkers(1)
	g.evictor.answerWith(func(_ context.Context, ref PodRef) error {
		if strings.HasPrefix(ref.Name, "vm") {
			return evacuates(ref)
		}
		return nil
	})
	for i := range 5 {
		g.pods.put(pod("n1", fmt.Sprintf("vm-%d", i)))
	}
	g.pods.put(pod("n1", "web-1"), pod("n2", "web-2"), pod("n2", "web-3"))
	g.start()
	defer g.stop()
	g.step("n1")
	g.step("n2")
	g.settled(8) // the clock stands still: nothing waits for anything
	g.wantRequests("vm-0", "vm-1", "vm-2", "vm-3", "vm-4", "web-1", "web-2", "web-3")
	got := g.step("n1")
	require.Equal(t, 1, got.Counts.Terminating)
	require.Equal(t, 5, got.Counts.Blocked)
	for _, b := range got.Blockers {
		require.Equal(t, drain.ReasonAdmissionDenied, b.Reason)
		require.Contains(t, b.Message, "Eviction triggered evacuation of VMI")
	}
	require.Empty(t, g.step("n2").Blockers)
}

func TestAnswers_AThrottledPodGoesToTheEndOfItsNodesQueue(t *testing.T) {
	g := newRig(t, func(c *Config) { c.Budgets = nil })
	g.runner.SetWorkers(1)
	g.evictor.answerWith(func(ctx context.Context, ref PodRef) error {
		if ref.Name == "a" { // for a reason that is not known to be its own
			return throttled(ctx, ref)
		}
		return nil
	})
	g.pods.put(pod("n", "a"), pod("n", "b"), pod("n", "c"))
	g.start()
	defer g.stop()
	g.step("n")
	g.settled(1)
	g.tick(7 * time.Second)
	g.eventually("a is asked for again", func() bool { return len(g.evictor.names()) == 4 })
	require.Equal(t, []string{"a", "b", "c", "a"}, g.evictor.names())
}
