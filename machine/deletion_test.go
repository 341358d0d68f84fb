package machine_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/fake"
	"github.com/machinist-dev/machinist/internal/external"
	"github.com/machinist-dev/machinist/machine"
	"github.com/machinist-dev/machinist/noderef/cluster"
)

func TestADeletionWaitsForWhatItCannotRead(t *testing.T) {
	w := newWorld(t, worldOptions{})
	m := w.ready("m1")
	crd := w.Get(fake.CRD(fake.InfraMachineGVK(contract.V1Beta2)))
	labels := crd.GetLabels()
	crd.SetLabels(nil)
	require.NoError(t, w.client.Update(t.Context(), crd))
	w.conditionIs(m, contract.ConditionInfrastructureReady, external.ReasonContractLabelMissing)
	w.Delete(m)
	w.conditionIs(m, contract.ConditionDeleting, contract.ReasonWaitingForInfrastructureDeletion)
	if infra := w.Get(fake.InfraMachine(contract.V1Beta2, "m1")); infra == nil || infra.GetDeletionTimestamp() != nil {
		t.Error("the infrastructure went although it could not be read")
	}
	if node := w.node("m1"); node == nil || !node.Spec.Unschedulable {
		t.Error("the Node must be drained, and stay while its machine does")
	}
	crd = w.Get(crd)
	crd.SetLabels(labels)
	require.NoError(t, w.client.Update(t.Context(), crd))
	w.Gone(m, fake.InfraMachine(contract.V1Beta2, "m1"))
}

func TestANodeInPlaceOfOneThatWasDeleted(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		node, id string
		mine     bool
	}{
		"has registered again":                    {"m", "fake://x/1", true},
		"has registered again under another name": {"other", "fake://x/1", true},
		"is another machine's":                    {"m", "fake://x/2", false},
	} {
		t.Run(name, func(t *testing.T) {
			w := byHandWorld(t, machine.Options{})
			m := w.runningByHand("m", "fake://x/1")
			w.Delete(w.node("m"))
			w.conditionIs(m, contract.ConditionNodeReady, machine.ReasonNodeDeleted)
			again := fake.Node(tc.node, tc.id)
			w.Create(again)
			if tc.mine {
				w.conditionIs(m, contract.ConditionReady, contract.ReasonReady)
				w.Until("the new UID", func() bool { return w.Get(m).GetAnnotations()[contract.NodeUIDAnnotation] == string(again.UID) })
				w.Until("the new name", func() bool { return nodeNameOf(w.Get(m)) == tc.node })
			}
			w.Remove(m)
			left := w.node(tc.node)
			require.Equal(t, tc.mine, left == nil)
			require.True(t, tc.mine || !left.Spec.Unschedulable, "another machine's Node was touched")
		})
	}
}

// The host name of the instance was changed, and it has registered again.
func TestTheNodesOfOneInstance(t *testing.T) {
	t.Parallel()
	t.Run("the recorded one is drained, and all are deleted", func(t *testing.T) {
		w := newWorld(t, worldOptions{})
		m := w.ready("m1")
		id := w.node("m1").Spec.ProviderID
		w.Create(fake.Node("m1-renamed", id))
		w.Create(fake.Node("m1-again", id))
		w.conditionIs(m, contract.ConditionNodeReady, contract.ReasonAmbiguousNode)
		w.Remove(m)
		w.told(machine.EventNodeDrained)
		for _, name := range []string{"m1", "m1-renamed", "m1-again"} {
			require.Nil(t, w.node(name), name)
		}
	})
	t.Run("while none is recorded and the instance runs, they are left alone until the limit of the drain", func(t *testing.T) {
		w := newWorld(t, worldOptions{infrastructure: fake.Infrastructure{NoNode: true}})
		infra, m := fake.InfraMachine(contract.V1Beta2, "m1"), fake.Machine("m1")
		w.Create(infra, fake.BootstrapConfig(contract.V1Beta2, "m1"))
		for _, name := range []string{"m1", "m1-renamed"} {
			w.Create(fake.Node(name, fake.ProviderID(infra)))
		}
		w.Create(m)
		w.conditionIs(m, contract.ConditionNodeReady, contract.ReasonAmbiguousNode)
		w.Delete(m)
		w.conditionIs(m, contract.ConditionDeleting, contract.ReasonDrainingNode)
		w.Until("record when the drain began: its limit counts from there", func() bool { return startOf(w.Get(m), "nodeDrainStartTime") != "" })
		for _, name := range []string{"m1", "m1-renamed"} {
			if node := w.node(name); node == nil || node.Spec.Unschedulable {
				t.Errorf("Node %s was touched while it was not clear whose it is", name)
			}
		}
		w.Change(m, fake.WithField(int64(1), "spec", "deletion", "nodeDrainTimeoutSeconds"))
		w.Gone(m)
		for _, name := range []string{"m1", "m1-renamed"} {
			require.Nil(t, w.node(name), name)
		}
	})
}

// An API server that does not serve a version at the moment answers 404 to all that is asked of it.
func TestADeletionThatTheServerDidNotUnderstandIsRequestedAgain(t *testing.T) {
	w := byHandWorld(t, machine.Options{})
	m := w.provisioned("m", "fake://x/1")
	w.Create(fake.Node("n", "fake://x/1"))
	w.conditionIs(m, contract.ConditionNodeReady, machine.ReasonNodeReady)
	kind := fake.InfraMachineGVK(contract.V1Beta2).Kind
	w.store.FailNext(func(r fake.Request) bool { return r.Verb == "delete" && r.GVK.Kind == kind },
		apierrors.NewGenericServerResponse(404, "delete", schema.GroupResource{Resource: kind}, "m", "404 page not found", 0, true))
	w.Remove(m)
	require.Nil(t, w.Get(fake.InfraMachine(contract.V1Beta2, "m")))
}

// New refuses a kind that never keeps a provider ID, so this one loses it only in a deletion.
func TestAKindThatCannotStoreAProviderIDIsReportedInADeletion(t *testing.T) {
	kind := contract.Unstructured(fake.MachineGVK(), contract.LayoutsOf(contract.V1Beta2).Machine)
	kind.Adapter = forgetful{kind.Adapter, func(s *contract.MachineState) {
		if !s.Deleting.IsZero() && s.Key.Name == "m1" {
			s.ProviderID = ""
		}
	}}
	w := newWorld(t, worldOptions{kind: kind})
	m := w.ready("m1")
	w.Delete(m)
	w.conditionIs(m, contract.ConditionDeleting, contract.ReasonInternalError, "Machine default/m1 does not keep the provider ID",
		"contract.Kind of Machine")
	require.Nil(t, w.Get(fake.InfraMachine(contract.V1Beta2, "m1")).GetDeletionTimestamp(), "its provider ID would be lost")
}

// A backup is restored while the controllers are paused, and the Machine is deleted before they run again.
func TestAMachineIsDrainedWhoseBackupWasMadeInAnotherDeletion(t *testing.T) {
	w := newWorld(t, worldOptions{machine: atOnce})
	m := w.running([]string{"m"}, 1, 0)[0]
	w.annotate(m, map[string]any{contract.PausedAnnotation: ""})
	w.conditionIs(m, contract.ConditionPaused, contract.ReasonPaused)
	node, hour := string(w.node("m").UID), time.Now().Add(-time.Hour).UTC().Format(time.RFC3339)
	w.mergeStatus(m, map[string]any{"deletion": map[string]any{"nodeDrainStartTime": hour, "waitForNodeVolumeDetachStartTime": hour}})
	w.annotate(m, map[string]any{
		contract.DeletionAnnotation: `{"deletion":"` + hour + `","node":"` + node + `","stages":{"drain":{"end":"` + hour + `"}}}`,
	})
	w.merge(m, map[string]any{"spec": map[string]any{"deletion": map[string]any{"nodeDrainTimeoutSeconds": 1800}}})
	w.Delete(m)
	w.annotate(m, map[string]any{contract.PausedAnnotation: nil})
	w.Gone(m)
	w.recorded(machine.EventNodeDrained, 1)
	require.Empty(t, w.Events(machine.EventDrainFailed), "the limit counts from this deletion")
}

// behindIndex is an index of Nodes that has yet to hear of what is there.
type behindIndex struct {
	*cluster.NodeIndex

	behind atomic.Bool
}

func (b *behindIndex) ByProviderID(id string) []*corev1.Node {
	if b.behind.Load() {
		return nil
	}
	return b.NodeIndex.ByProviderID(id)
}

func (b *behindIndex) ByName(name string) *corev1.Node {
	if b.behind.Load() {
		return nil
	}
	return b.NodeIndex.ByName(name)
}

// missedWorld has a ready Machine whose Node the index does not have any more.
func missedWorld(t *testing.T, options ...fake.Option) (*world, *behindIndex, *unstructured.Unstructured) {
	t.Helper()
	nodes := &behindIndex{}
	w := newWorld(t, worldOptions{machine: atOnce, ports: func(_ ctrl.Manager, p *machine.Ports) {
		nodes.NodeIndex, _ = p.Workload.Nodes.(*cluster.NodeIndex)
		p.Workload.Nodes = nodes
	}})
	m := w.ready("m1", append(options, fake.WithAnnotations(map[string]string{contract.PreTerminateHook + "/look": ""}))...)
	nodes.behind.Store(true)
	return w, nodes, m
}

// askedForNodes counts the requests for one Node.
func (w *world) askedForNodes() (n int) {
	for _, r := range w.store.Requests() {
		if r.UserAgent == userAgent && r.Verb == "get" && r.GVK.Kind == "Node" {
			n++
		}
	}
	return n
}

func TestANodeThatTheIndexHasYetToHearOfIsDrainedAllTheSame(t *testing.T) {
	w, nodes, m := missedWorld(t)
	w.Delete(m)
	w.conditionIs(m, contract.ConditionDeleting, contract.ReasonDrainingNode, "Node m1 exists, and its event has not come yet")
	nodes.behind.Store(false)
	w.conditionIs(m, contract.ConditionDeleting, machine.ReasonWaitingForPreTerminateHook)
	require.True(t, w.node("m1").Spec.Unschedulable, "it was drained")
	w.annotate(m, map[string]any{contract.PreTerminateHook + "/look": nil})
	w.Gone(m)
	require.Nil(t, w.node("m1"))
}

func TestANodeThatIsGoneIsAskedForOnce(t *testing.T) {
	w, nodes, m := missedWorld(t)
	nodes.behind.Store(false)
	w.Delete(w.node("m1"))
	w.conditionIs(m, contract.ConditionNodeReady, machine.ReasonNodeDeleted)
	require.Zero(t, w.askedForNodes(), "while the Machine lives, nothing is destroyed")
	w.Delete(m)
	w.conditionIs(m, contract.ConditionDeleting, machine.ReasonWaitingForPreTerminateHook)
	w.annotate(m, map[string]any{contract.PreTerminateHook + "/look": nil})
	w.Gone(m)
	require.Equal(t, 1, w.askedForNodes())
}

func TestANodeThatIsThereIsNotAskedFor(t *testing.T) {
	w, nodes, m := missedWorld(t)
	nodes.behind.Store(false)
	w.Delete(m)
	w.annotate(m, map[string]any{contract.PreTerminateHook + "/look": nil})
	w.Gone(m)
	require.Nil(t, w.node("m1"))
	require.Zero(t, w.askedForNodes())
}

func TestANodeThatCannotBeReadIsWaitedForWithinTheLimits(t *testing.T) {
	w, _, m := missedWorld(t)
	w.store.Inject(fake.Fault{Times: -1, Err: apierrors.NewServiceUnavailable("not now"), Match: func(r fake.Request) bool {
		return r.UserAgent == userAgent && r.GVK.Kind == "Node" && r.Verb == "get"
	}})
	w.Delete(m)
	w.conditionIs(m, contract.ConditionDeleting, contract.ReasonDrainingNode, "make sure that Node m1 is gone", "not now")
	require.Nil(t, w.Get(fake.InfraMachine(contract.V1Beta2, "m1")).GetDeletionTimestamp())
	w.Change(m, fake.WithField(int64(1), "spec", "deletion", "nodeDrainTimeoutSeconds"))
	w.Change(m, fake.WithField(int64(1), "spec", "deletion", "nodeVolumeDetachTimeoutSeconds"))
	w.conditionIs(m, contract.ConditionDeleting, machine.ReasonWaitingForPreTerminateHook)
	require.False(t, w.node("m1").Spec.Unschedulable)
}
