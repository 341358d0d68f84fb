package machine_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/fake"
	"github.com/machinist-dev/machinist/internal/external"
	"github.com/machinist-dev/machinist/machine"
)

func TestADeletionWaitsForWhatItCannotRead(t *testing.T) {
	t.Parallel()
	w := newWorld(t, worldOptions{})
	m := w.machineWith("m1")
	w.conditionIs(m, contract.ConditionReady, contract.ReasonReady)
	crd := w.get(fake.CRD(fake.InfraMachineGVK(contract.V1Beta2)))
	labels := crd.GetLabels()
	crd.SetLabels(nil)
	require.NoError(t, w.client.Update(t.Context(), crd))
	w.conditionIs(m, contract.ConditionInfrastructureReady, external.ReasonContractLabelMissing)
	require.NoError(t, w.client.Delete(t.Context(), m))
	w.conditionIs(m, contract.ConditionDeleting, contract.ReasonWaitingForInfrastructureDeletion)
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
	t.Parallel()
	w := newWorld(t, worldOptions{})
	m := w.machineWith("m1")
	w.conditionIs(m, contract.ConditionReady, contract.ReasonReady)
	old := w.node("m1")
	require.NoError(t, w.client.Delete(t.Context(), old))
	w.conditionIs(m, contract.ConditionNodeReady, machine.ReasonNodeDeleted)
	again := fake.Node("m1", old.Spec.ProviderID)
	w.create(again)
	w.conditionIs(m, contract.ConditionReady, contract.ReasonReady)
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
	t.Parallel()
	w := newWorld(t, worldOptions{})
	m := w.machineWith("m1")
	w.conditionIs(m, contract.ConditionReady, contract.ReasonReady)
	require.NoError(t, w.client.Delete(t.Context(), w.node("m1")))
	w.conditionIs(m, contract.ConditionNodeReady, machine.ReasonNodeDeleted)
	w.create(fake.Node("m1", "fake://default/another"))
	require.NoError(t, w.client.Delete(t.Context(), m))
	w.goes(m)
	if node := w.node("m1"); node == nil || node.Spec.Unschedulable {
		t.Error("another machine's Node was touched")
	}
}

// The host name of the instance was changed, and it has registered again.
func TestTheNodesOfOneInstance(t *testing.T) {
	t.Parallel()
	t.Run("the recorded one is drained, and all are deleted", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, worldOptions{})
		m := w.machineWith("m1")
		w.conditionIs(m, contract.ConditionReady, contract.ReasonReady)
		id := w.node("m1").Spec.ProviderID
		w.create(fake.Node("m1-renamed", id))
		w.create(fake.Node("m1-again", id))
		w.conditionIs(m, contract.ConditionNodeReady, contract.ReasonAmbiguousNode)
		require.NoError(t, w.client.Delete(t.Context(), m))
		w.goes(m)
		w.told(machine.EventNodeDrained)
		for _, name := range []string{"m1", "m1-renamed", "m1-again"} {
			require.Nil(t, w.node(name), name)
		}
	})
	t.Run("while none is recorded and the instance runs, they are left alone until the limit of the drain", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, worldOptions{infrastructure: fake.Infrastructure{NoNode: true}})
		infra, m := fake.InfraMachine(contract.V1Beta2, "m1"), fake.Machine("m1")
		w.create(infra, fake.BootstrapConfig(contract.V1Beta2, "m1"))
		for _, name := range []string{"m1", "m1-renamed"} {
			w.create(fake.Node(name, fake.ProviderID(infra)))
		}
		w.create(m)
		w.conditionIs(m, contract.ConditionNodeReady, contract.ReasonAmbiguousNode)
		require.NoError(t, w.client.Delete(t.Context(), m))
		w.conditionIs(m, contract.ConditionDeleting, contract.ReasonDrainingNode)
		w.eventually("record when the drain began: its limit counts from there", func() string {
			if startOf(w.get(m), "nodeDrainStartTime") == "" {
				return "it does not"
			}
			return ""
		})
		for _, name := range []string{"m1", "m1-renamed"} {
			if node := w.node(name); node == nil || node.Spec.Unschedulable {
				t.Errorf("Node %s was touched while it was not clear whose it is", name)
			}
		}
		w.change(m, func(u *unstructured.Unstructured) {
			require.NoError(t, unstructured.SetNestedField(u.Object, int64(1), "spec", "deletion", "nodeDrainTimeoutSeconds"))
		})
		w.goes(m)
		for _, name := range []string{"m1", "m1-renamed"} {
			require.Nil(t, w.node(name), name)
		}
	})
}

// An API server that does not serve a version at the moment answers 404 to all that is asked of it.
func TestADeletionThatTheServerDidNotUnderstandIsRequestedAgain(t *testing.T) {
	t.Parallel()
	w := byHandWorld(t, machine.Options{})
	m := w.provisioned("m", "fake://x/1")
	w.create(fake.Node("n", "fake://x/1"))
	w.conditionIs(m, contract.ConditionNodeReady, machine.ReasonNodeReady)
	kind := fake.InfraMachineGVK(contract.V1Beta2).Kind
	w.store.FailNext(func(r fake.Request) bool { return r.Verb == "delete" && r.GVK.Kind == kind },
		apierrors.NewGenericServerResponse(404, "delete", schema.GroupResource{Resource: kind}, "m", "404 page not found", 0, true))
	require.NoError(t, w.client.Delete(t.Context(), m))
	w.goes(m)
	require.Nil(t, w.get(fake.InfraMachine(contract.V1Beta2, "m")))
}

// New refuses a kind that never keeps a provider ID, so this one loses it only in a deletion.
func TestAKindThatCannotStoreAProviderIDIsReportedInADeletion(t *testing.T) {
	t.Parallel()
	kind := contract.Unstructured(fake.MachineGVK(), contract.LayoutsOf(contract.V1Beta2).Machine)
	kind.Adapter = forgetful{kind.Adapter, func(s *contract.MachineState) {
		if !s.Deleting.IsZero() && s.Key.Name == "m1" {
			s.ProviderID = ""
		}
	}}
	w := newWorld(t, worldOptions{kind: kind})
	m := w.machineWith("m1")
	w.conditionIs(m, contract.ConditionReady, contract.ReasonReady)
	require.NoError(t, w.client.Delete(t.Context(), m))
	w.conditionSays(m, contract.ConditionDeleting, contract.ReasonInternalError, "Machine default/m1 does not keep the provider ID",
		"contract.Kind of Machine")
	require.Nil(t, w.get(fake.InfraMachine(contract.V1Beta2, "m1")).GetDeletionTimestamp(), "its provider ID would be lost")
}

func TestAMachineThatLivesForgetsTheDeletionThatItsBackupWasMadeIn(t *testing.T) {
	t.Parallel()
	w := newWorld(t, worldOptions{machine: atOnce})
	m := w.running([]string{"m"}, 1, 0)[0]
	node, hour := string(w.node("m").UID), time.Now().Add(-time.Hour).UTC().Format(time.RFC3339)
	w.mergeStatus(m, map[string]any{"deletion": map[string]any{"nodeDrainStartTime": hour, "waitForNodeVolumeDetachStartTime": hour}})
	records := map[string]any{
		contract.DeletionAnnotation: `{"deletion":"` + hour + `","node":"` + node + `","stages":{"drain":{"end":"` + hour + `"}}}`,
	}
	w.annotate(m, records)
	w.eventually("the records to go", func() string {
		fresh := w.get(m)
		for key := range records {
			if _, found := fresh.GetAnnotations()[key]; found {
				return "there still is " + key
			}
		}
		if startOf(fresh, "nodeDrainStartTime")+startOf(fresh, "waitForNodeVolumeDetachStartTime") != "" {
			return "there still are starts in the status"
		}
		return ""
	})
	w.isQuiet()
	require.NoError(t, w.client.Delete(t.Context(), m))
	w.goes(m)
	w.recorded(machine.EventNodeDrained, 1)
	require.Empty(t, w.events(machine.EventDrainFailed))
}
