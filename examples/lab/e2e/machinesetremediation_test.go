//go:build e2e

package e2e_test

import (
	"strings"
	"testing"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/fake"
	"github.com/machinist-dev/machinist/internal/apitest/testenv"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// mark says what a health check says of a Machine that it wants to be replaced.
func (w *world) mark(m *unstructured.Unstructured) {
	w.t.Helper()
	kind := contract.Unstructured(fake.MachineGVK(), contract.LayoutsOf(contract.V1Beta2).Machine)
	w.eventually("mark "+m.GetName(), func() string {
		fresh := w.get(m)
		base := fresh.DeepCopy()
		u := contract.MachineUpdate{}
		for _, condition := range []string{contract.ConditionHealthCheckSucceeded, contract.ConditionOwnerRemediated} {
			u.Conditions = append(u.Conditions, metav1.Condition{Type: condition, Status: metav1.ConditionFalse,
				Reason: contract.ReasonWaitingForRemediation, LastTransitionTime: metav1.Now(), ObservedGeneration: fresh.GetGeneration()})
		}
		require.NoError(w.t, kind.Adapter.Write(fresh, u))
		patch := client.MergeFromWithOptions(base, client.MergeFromWithOptimisticLock{})
		if err := w.client.Status().Patch(w.t.Context(), fresh, patch); err != nil {
			return err.Error()
		}
		return ""
	})
}

// A Machine that a health check has marked is replaced, with its instance and its Node. The one in its place waits for the back-off.
func TestE2EASetReplacesTheMachineThatAHealthCheckHasMarked(t *testing.T) {
	takesTurns(t)
	w := newSetWorld(t)
	w.startProviders(worldOptions{})
	m := w.setManager(managerBinary(t))
	t.Cleanup(func() {
		m.stop()
		if t.Failed() {
			t.Log(m.log.String())
		}
	})
	set := w.apply(setDocument("chaos", 2))[2]
	w.setHas(set, 2)
	before := w.listed(fake.MachineGVK())
	w.mark(&before[0])
	w.eventually("the Machine to be replaced", func() string {
		if fresh := w.get(&before[0]); fresh != nil {
			return describe(fresh)
		}
		return ""
	})
	w.setHas(set, 2)
	require.NotNil(t, w.get(&before[1]), "the other one stays")

	now := w.listed(fake.MachineGVK())
	next := &now[0]
	if next.GetName() == before[1].GetName() {
		next = &now[1]
	}
	w.mark(next)
	w.eventually("the next one to wait", func() string {
		c := testenv.Condition(w.get(next), contract.ConditionOwnerRemediated)
		if c.Reason != contract.ReasonRemediationDeferred {
			return describe(w.get(next))
		}
		return ""
	})
	w.eventually("the set to say so", func() string {
		c := testenv.Condition(w.get(set), contract.ConditionRemediating)
		if c.Status != metav1.ConditionTrue || !strings.Contains(c.Message, "Waiting until ") {
			return describe(w.get(set))
		}
		return ""
	})
	require.Nil(t, w.get(next).GetDeletionTimestamp())
	require.NoError(t, w.client.Delete(t.Context(), set))
	w.gone(set)
	w.nothingLeft()
}
