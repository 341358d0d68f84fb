package machinepool_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/fake"
	"github.com/machinist-dev/machinist/internal/external"
)

// Old providers report conditions without a reason.
func TestAProvidersConditionWithoutAReasonGetsOne(t *testing.T) {
	t.Parallel()
	w := newWorld(t, worldOptions{})
	pool, infra := w.poolOf("p://1")
	for _, tc := range []struct{ status, reason string }{{"False", contract.ReasonNotReported}, {"True", contract.ReasonReady}} {
		w.change(infra, set([]any{map[string]any{
			"type": "Ready", "status": tc.status, "message": "it is " + tc.status, "lastTransitionTime": "2026-01-01T00:00:00Z",
		}}, "status", "conditions"))
		require.Equal(t, "it is "+tc.status, w.conditionIs(pool, contract.ConditionInfrastructureReady, tc.reason))
		require.Equal(t, metav1.ConditionStatus(tc.status), conditionOf(w.get(pool), contract.ConditionInfrastructureReady).Status)
	}
}

func TestAnErrorAboutWhatAPoolRefersToIsUnknownAndNotTheEnd(t *testing.T) {
	t.Parallel()
	for condition, obj := range map[string]*unstructured.Unstructured{
		contract.ConditionInfrastructureReady:  fake.InfraMachinePool(contract.V1Beta2, "pool"),
		contract.ConditionBootstrapConfigReady: fake.BootstrapConfig(contract.V1Beta2, "pool"),
	} {
		t.Run(condition, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, worldOptions{provider: &fake.PoolInfrastructure{}})
			mend := refuse(w, "patch", obj.GetKind(), "") // the pool cannot own it
			pool := w.poolWith(1)
			w.conditionIs(pool, condition, contract.ReasonInternalError)
			require.Equal(t, metav1.ConditionUnknown, conditionOf(w.get(pool), condition).Status)
			mend()
			w.reports(pool, "Running", 1, 1)
		})
	}
}

// There is no event for a kind that is not served yet.
func TestAKindOfInfraMachinesThatIsServedLaterIsFound(t *testing.T) {
	t.Parallel()
	w := newWorld(t, worldOptions{})
	pool, infra := w.poolOf("p://1")
	w.change(infra, set("LateMachine", "status", "infrastructureMachineKind"))
	message := w.conditionIs(pool, contract.ConditionInfrastructureReady, external.ReasonVersionNotServed)
	require.Contains(t, message, "LateMachine")
	w.settles()
	late := fake.InfraMachineGVK(contract.V1Beta2)
	late.Kind = "LateMachine"
	w.create(fake.CRD(late, contract.V1Beta2))
	w.eventually("the kind is found", func() string {
		c := conditionOf(w.get(pool), contract.ConditionInfrastructureReady)
		return map[bool]string{true: c.Message}[strings.Contains(c.Message, "LateMachine")]
	})
}
