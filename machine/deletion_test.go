package machine_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/contract/external"
	"github.com/machinist-dev/machinist/fake"
	"github.com/machinist-dev/machinist/machine"
)

func TestADeletionWaitsForWhatItCannotRead(t *testing.T) {
	w := newWorld(t, worldOptions{})
	m := w.machineWith("m1")
	w.conditionIs(m, machine.ConditionReady, machine.ReasonReady)
	crd := w.get(fake.CRD(fake.InfraMachineGVK(contract.V1Beta2)))
	labels := crd.GetLabels()
	crd.SetLabels(nil)
	require.NoError(t, w.client.Update(t.Context(), crd))
	w.conditionIs(m, machine.ConditionInfrastructureReady, external.ReasonContractLabelMissing)
	require.NoError(t, w.client.Delete(t.Context(), m))
	w.conditionIs(m, machine.ConditionDeleting, machine.ReasonWaitingForInfrastructureDeletion)
	if infra := w.get(fake.InfraMachine(contract.V1Beta2, "m1")); infra == nil || infra.GetDeletionTimestamp() != nil {
		t.Error("the infrastructure went although it could not be read")
	}
	if node := w.node("m1"); node == nil || !node.Spec.Unschedulable {
		t.Error("the Node must be drained, and stay while its machine does")
	}
	crd = w.get(crd)
	crd.SetLabels(labels)
	require.NoError(t, w.client.Update(t.Context(), crd))
	w.goes(m, fake.InfraMachine(contract.V1Beta2, "m1"))
}

func TestANodeThatRegistersAgainIsAdoptedAndCleanedUp(t *testing.T) {
	w := newWorld(t, worldOptions{})
	m := w.machineWith("m1")
	w.conditionIs(m, machine.ConditionReady, machine.ReasonReady)
	old := w.node("m1")
	require.NoError(t, w.client.Delete(t.Context(), old))
	w.conditionIs(m, machine.ConditionNodeReady, machine.ReasonNodeDeleted)
	again := fake.Node("m1", old.Spec.ProviderID)
	w.create(again)
	w.conditionIs(m, machine.ConditionReady, machine.ReasonReady)
	w.eventually("the new UID", func() string {
		if got := w.get(m).GetAnnotations()[contract.NodeUIDAnnotation]; got != string(again.UID) {
			return got
		}
		return ""
	})
	require.NoError(t, w.client.Delete(t.Context(), m))
	w.goes(m)
	if w.node("m1") != nil {
		t.Error("the Node is still there")
	}
}

func TestANodeWhoseNameWasTakenOverIsLeftAlone(t *testing.T) {
	w := newWorld(t, worldOptions{})
	m := w.machineWith("m1")
	w.conditionIs(m, machine.ConditionReady, machine.ReasonReady)
	require.NoError(t, w.client.Delete(t.Context(), w.node("m1")))
	w.conditionIs(m, machine.ConditionNodeReady, machine.ReasonNodeDeleted)
	w.create(fake.Node("m1", "fake://default/another"))
	require.NoError(t, w.client.Delete(t.Context(), m))
	w.goes(m)
	if node := w.node("m1"); node == nil || node.Spec.Unschedulable {
		t.Error("another machine's Node was touched")
	}
}

func TestTwoNodesOfOneMachineStopItsDrainUntilOneIsGone(t *testing.T) {
	w := newWorld(t, worldOptions{})
	m := w.machineWith("m1")
	w.conditionIs(m, machine.ConditionReady, machine.ReasonReady)
	double := fake.Node("double", w.node("m1").Spec.ProviderID)
	w.create(double)
	w.conditionIs(m, machine.ConditionNodeReady, machine.ReasonAmbiguousNode)
	require.NoError(t, w.client.Delete(t.Context(), m))
	w.conditionIs(m, machine.ConditionDeleting, machine.ReasonDrainingNode)
	w.eventually("record when the drain began: its limit counts from there", func() string {
		if startOf(w.get(m), "nodeDrainStartTime") == "" {
			return "it does not"
		}
		return ""
	})
	for _, name := range []string{"m1", "double"} {
		if node := w.node(name); node == nil || node.Spec.Unschedulable {
			t.Errorf("Node %s was touched while it was not clear whose it is", name)
		}
	}
	require.NoError(t, client.IgnoreNotFound(w.client.Delete(t.Context(), &corev1.Node{ObjectMeta: double.ObjectMeta})))
	w.goes(m)
}
