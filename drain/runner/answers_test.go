package runner

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/machinist-dev/machinist/drain"
)

var podsResource = schema.GroupResource{Resource: "pods"}

func answerOf(code, retryAfter int) error {
	return apierrors.NewGenericServerResponse(code, "POST", podsResource, "a", "text of the server", retryAfter, true)
}

func throttled() error { return answerOf(429, 7) }

func internal() error { return apierrors.NewInternalError(errors.New("failed calling webhook")) }

func forbidden() error { return apierrors.NewForbidden(podsResource, "a", errors.New("no")) }

func overloaded() error {
	return apierrors.NewForbidden(schema.GroupResource{Group: "policy", Resource: "poddisruptionbudget"}, "pdb",
		errors.New("too many evictions not confirmed"))
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

func statusOf(code int32, text string) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Code: code, Message: text}}
}

func twoBudgets() error {
	return statusOf(500, "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.")
}

// evacuates is the answer of KubeVirt's webhook about a virtual machine that it migrates, word for word (see drain.TestClassify).
func evacuates(name string) error {
	return statusOf(429, fmt.Sprintf(`admission webhook "virt-launcher-eviction-interceptor.kubevirt.io" denied the request: `+
		`Eviction triggered evacuation of VMI "default/%s"`, name))
}

// The rows of drain-noderef 3.2: what the owner reads, and when the Pod is requested again while nothing else happens.
func TestAnswers(t *testing.T) {
	conflict := apierrors.NewConflict(podsResource, "a", errors.New("modified"))
	for name, tc := range map[string]struct {
		answer error
		reason drain.Reason  // of the only blocker; empty when the Pod counts as terminating
		rests  time.Duration // before the second request
		then   time.Duration // before the third one
	}{
		"201":                               {nil, "", 30 * time.Second, 30 * time.Second},
		"404 while the cache shows the Pod": {apierrors.NewNotFound(podsResource, "a"), "", 15 * time.Second, 15 * time.Second},
		"404 without the endpoint":          {answerOf(404, 0), drain.ReasonEndpointMissing, time.Minute, 2 * time.Minute},
		"409 while the cache shows the Pod": {conflict, drain.ReasonConflict, time.Second, 2 * time.Second},
		"403 of a Namespace that ends":      {terminatingNamespace(), drain.ReasonNamespaceTerminating, 15 * time.Second, 30 * time.Second},
		"403 of an overloaded budget":       {overloaded(), drain.ReasonBudgetExhausted, 15 * time.Second, 15 * time.Second},
		"403":                               {forbidden(), drain.ReasonForbidden, 15 * time.Second, 30 * time.Second},
		"429 of a closed budget":            {exhausted(), drain.ReasonBudgetExhausted, 15 * time.Second, 15 * time.Second},
		"429 of a stale budget":             {staleBudget(), drain.ReasonBudgetStale, 15 * time.Second, 15 * time.Second},
		"429":                               {throttled(), drain.ReasonThrottled, 7 * time.Second, 7 * time.Second},
		"429 of a webhook":                  {evacuates("a"), drain.ReasonAdmissionDenied, 15 * time.Second, 30 * time.Second},
		"500 of two budgets":                {twoBudgets(), drain.ReasonMultipleBudgets, time.Minute, 2 * time.Minute},
		"500":                               {internal(), drain.ReasonServerError, time.Second, 2 * time.Second},
		"503 with a hint":                   {answerOf(503, 5), drain.ReasonUnknownOutcome, 5 * time.Second, 10 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			g := newRig(t)
			g.budgets.set(5, 10)
			g.answer(tc.answer)
			g.on("n", "a")
			g.step("n")
			for _, rest := range []time.Duration{tc.rests, tc.then} {
				require.Equal(t, 1, g.send())
				var got Result
				if tc.reason == "" {
					got = g.blocked("n")
					require.Equal(t, 1, got.Counts.Terminating)
				} else {
					got = g.blocked("n", tc.reason)
				}
				require.False(t, got.Done)
				require.Positive(t, got.RequeueAfter)
				require.LessOrEqual(t, got.RequeueAfter, max(15*time.Second, rest))
				g.clock.Step(rest - time.Millisecond)
				g.step("n")
				require.Zero(t, g.send())
				g.clock.Step(time.Millisecond)
				g.step("n")
			}
			require.Equal(t, 1, g.send())
		})
	}
}

func TestPause(t *testing.T) {
	for name, tc := range map[string]struct {
		answer error
		reason drain.Reason
		pause  time.Duration
	}{
		"credentials are refused":    {apierrors.NewUnauthorized("expired"), drain.ReasonUnauthorized, 15 * time.Second},
		"the API server is too busy": {throttled(), drain.ReasonThrottled, 7 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			g := newRig(t)
			g.on("n1", "a", "b")
			g.on("n2", "c")
			g.answer(tc.answer)
			g.step("n1")
			g.step("n2")
			require.Equal(t, 1, g.send(), "the answer delays the requests of all Nodes")
			for node, pods := range map[string]int{"n1": 2, "n2": 1} {
				got := g.step(node)
				require.Len(t, got.Blockers, 1)
				require.Equal(t, tc.reason, got.Blockers[0].Reason)
				require.Equal(t, pods, got.Blockers[0].Count)
			}
			g.clock.Step(tc.pause - time.Millisecond)
			require.Zero(t, g.send())
			g.answer(nil)
			g.clock.Step(time.Millisecond)
			require.Equal(t, 3, g.send())
			g.step("n1")
		})
	}
	t.Run("the longest one counts", func(t *testing.T) {
		g := newRig(t)
		g.on("n", "a", "b")
		g.step("n")
		for i, a := range g.picked() {
			g.runner.finish(a, answerOf(429, 20-i), false)
		}
		require.Equal(t, g.clock.Now().Add(20*time.Second), g.runner.paused.until)
	})
	t.Run("a Pod that was throttled goes to the end of the queue of its Node", func(t *testing.T) {
		g := newRig(t)
		g.evictor.answerWith(func(_ context.Context, ref PodRef) error {
			if ref.Name == "a" { // for a reason that is not known to be its own
				return throttled()
			}
			return nil
		})
		g.on("n", "a", "b", "c")
		g.step("n")
		g.send()
		g.clock.Step(7 * time.Second)
		g.send()
		require.Equal(t, []string{"a", "b", "c", "a"}, g.evictor.names())
	})
}

func TestErrorsOfOnePod(t *testing.T) {
	g := newRig(t)
	g.evictor.answerWith(func(_ context.Context, ref PodRef) error {
		if ref.Name == "a" {
			return internal()
		}
		return nil
	})
	g.on("n", "a", "b")
	g.step("n")
	require.Equal(t, 2, g.send(), "only that Pod rests")
	for _, rest := range []time.Duration{time.Second, 2 * time.Second, 4 * time.Second} {
		require.Equal(t, rest, g.blocked("n", drain.ReasonServerError).RequeueAfter)
		g.clock.Step(rest)
		g.step("n")
		require.Equal(t, 1, g.send())
	}
	g.wantRequests("a", "a", "a", "a", "b")
}

// An error has other words each time: the number of a local port, or of a request.
func TestErrorSince(t *testing.T) {
	for name, answer := range map[string]func(try int) error{
		"a local port": func(try int) error {
			return fmt.Errorf("read tcp 10.0.0.1:%d->10.0.0.2:6443: connection reset by peer", 41000+try)
		},
		"the number of a request": func(try int) error { return apierrors.NewInternalError(fmt.Errorf("request %d failed", try)) },
	} {
		t.Run(name, func(t *testing.T) {
			g := newRig(t)
			g.evictor.answerWith(func(context.Context, PodRef) error { return answer(len(g.evictor.names())) })
			g.on("n", "a")
			began := g.clock.Now()
			messages := map[string]bool{}
			g.step("n")
			for range 4 {
				require.Equal(t, 1, g.send())
				got := g.step("n")
				require.Len(t, got.Blockers, 1)
				require.Equal(t, began, got.Blockers[0].Since)
				messages[got.Message] = true
				g.clock.Step(time.Minute)
				again := g.step("n") // it is requested again, and as blocked as before
				require.Equal(t, got.Message, again.Message)
				require.Equal(t, got.Blockers, again.Blockers)
			}
			if name == "a local port" {
				require.Len(t, messages, 1, "each one would be a write")
			}
		})
	}
}

func TestRespawned(t *testing.T) {
	g := newRig(t)
	create := func(name, controller string) {
		p := pod("n", name)
		p.OwnerReferences = []metav1.OwnerReference{
			{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: controller, UID: types.UID(controller), Controller: new(true)},
		}
		g.pods.put(p)
	}
	create("first", "rs")
	create("second", "rs")
	g.step("n")
	require.Equal(t, 2, g.send())
	g.gone("n", "first", "second")
	for _, rest := range []time.Duration{5 * time.Second, 10 * time.Second, 20 * time.Second} {
		name := rest.String()
		create(name, "rs")
		require.Equal(t, 15*time.Second, g.blocked("n", drain.ReasonRespawned).RequeueAfter)
		g.clock.Step(rest - time.Millisecond)
		g.step("n")
		require.Zero(t, g.send())
		g.clock.Step(time.Millisecond)
		g.step("n")
		require.Equal(t, 1, g.send())
		g.gone("n", name)
	}
	create("late", "of which no Pod was evicted")
	g.step("n")
	require.Equal(t, 1, g.send())
}
