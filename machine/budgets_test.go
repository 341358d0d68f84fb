package machine_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/fake"
)

func TestBudgetsThatMayNotBeListedHoldADrainAndNothingElse(t *testing.T) {
	t.Parallel()
	kind := policyv1.SchemeGroupVersion.WithKind("PodDisruptionBudget").GroupKind()
	var allow func()
	w := newWorld(t, worldOptions{before: func(w *world) {
		allow = w.store.Inject(fake.Fault{Times: -1, Match: fake.Match("", kind, ""), Err: apierrors.NewForbidden(
			schema.GroupResource{Group: kind.Group, Resource: "poddisruptionbudgets"}, "", errors.New("no such right"))})
	}})
	m := w.machineWith("m1")
	w.conditionIs(m, contract.ConditionReady, contract.ReasonReady)
	require.Zero(t, w.store.CountRequests(fake.Match("list", kind, "")), "nothing is drained")
	require.NoError(t, w.client.Create(t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "app", Namespace: "default"},
		Spec:       corev1.PodSpec{NodeName: "m1", Containers: []corev1.Container{{Name: "c", Image: "i"}}},
	}))
	require.NoError(t, w.client.Delete(t.Context(), m))
	w.conditionSays(m, contract.ConditionDeleting, contract.ReasonDrainingNode, "waiting for the list of PodDisruptionBudgets",
		"no such right")
	allow()
	w.goes(m)
}
