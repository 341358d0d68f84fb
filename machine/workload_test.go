package machine_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/fake"
	"github.com/machinist-dev/machinist/internal/apitest/testenv"
	"github.com/machinist-dev/machinist/internal/engine"
	"github.com/machinist-dev/machinist/machine"
	"github.com/machinist-dev/machinist/noderef/cluster"
	"github.com/machinist-dev/machinist/noderef/propagate"
)

func TestAMachineWaitsForItsClusterAndGoesOnWhenItIsConnected(t *testing.T) {
	server := newFar(1)
	server.up()
	f := newFarWorld(t, machine.Options{}, map[string]*far{})
	m := f.provisionedIn("prod", "m", "fake://x/1")

	t.Log("what concerns no Node goes on")
	for _, kind := range []string{contract.ConditionNodeReady, machine.ConditionNodeHealthy} {
		f.conditionIs(m, kind, contract.ReasonConnectionDown, "cluster default/prod is not connected",
			"Secret default/prod-kubeconfig does not exist")
	}
	f.conditionIs(m, contract.ConditionInfrastructureReady, contract.ReasonReady)
	require.Equal(t, "fake://x/1", providerIDOf(f.Get(m)))
	f.isLeftAlone("m")

	t.Log("a connection wakes it, and so does its Node")
	f.mu.Lock()
	f.far["prod"] = server
	f.mu.Unlock()
	f.conditionIs(m, contract.ConditionNodeReady, contract.ReasonInspectionFailed, "Waiting for a Node with spec.providerID fake://x/1")
	f.joins(server, "n", "fake://x/1")
	f.conditionIs(m, contract.ConditionReady, contract.ReasonReady)
	require.Equal(t, "m", f.nodeIn(server, "n").Annotations[propagate.MachineAnnotation])
	f.isLeftAlone("m")

	t.Log("a new connection is listened to in place of the old one")
	server.mu.Lock()
	server.version = "2"
	server.mu.Unlock()
	server.down()
	server.up()
	second := f.provisionedIn("prod", "second", "fake://x/2")
	f.conditionIs(second, contract.ConditionNodeReady, contract.ReasonInspectionFailed)
	f.joins(server, "n2", "fake://x/2")
	f.conditionIs(second, contract.ConditionReady, contract.ReasonReady)
	require.Zero(t, f.writes()["Node"], "Nodes of the manager's own cluster are none of its business")

	f.Delete(m)
	f.Delete(second)
	f.Gone(m, second)
	require.Nil(t, f.nodeIn(server, "n"))
	require.Nil(t, f.nodeIn(server, "n2"))
}

func TestEqualNodesOfTwoClustersAreNeverMixedUp(t *testing.T) {
	a, b := newFar(1), newFar(2)
	a.up()
	b.up()
	f := newFarWorld(t, machine.Options{}, map[string]*far{"a": a, "b": b})
	ma, mb := f.provisionedIn("a", "ma", "fake://x/1"), f.provisionedIn("b", "mb", "fake://x/1")
	own := f.provisionedIn("", "own", "fake://x/1")
	f.conditionIs(ma, contract.ConditionNodeReady, contract.ReasonInspectionFailed)
	f.conditionIs(mb, contract.ConditionNodeReady, contract.ReasonInspectionFailed)
	f.isQuiet()

	t.Log("a Node wakes the Machine of its own cluster")
	before := f.passesOf("mb")
	f.joins(a, "n", "fake://x/1")
	f.conditionIs(ma, contract.ConditionReady, contract.ReasonReady)
	f.wakesAgainAndAgain(a, "n", "ma")
	require.Less(t, f.passesOf("mb")-before, 10, "safety nets wake it too, and not each of the ten changes does")
	f.joins(b, "n", "fake://x/1")
	f.conditionIs(mb, contract.ConditionReady, contract.ReasonReady)
	t.Log("a Machine that names no cluster has its Node where it is itself")
	f.conditionIs(own, contract.ConditionNodeReady, contract.ReasonInspectionFailed)
	f.Create(fake.Node("n", "fake://x/1"))
	f.conditionIs(own, contract.ConditionReady, contract.ReasonReady)
	require.Equal(t, "own", f.node("n").Annotations[propagate.MachineAnnotation])
	require.Equal(t, "ma", f.nodeIn(a, "n").Annotations[propagate.MachineAnnotation])
	require.Equal(t, "mb", f.nodeIn(b, "n").Annotations[propagate.MachineAnnotation])

	t.Log("and goes with it")
	f.isQuiet()
	b.ResetRequests()
	before = f.passesOf("mb")
	f.Remove(ma)
	require.Nil(t, f.nodeIn(a, "n"))
	require.False(t, f.nodeIn(b, "n").Spec.Unschedulable)
	require.Zero(t, b.CountRequests(fake.Request.IsWrite))
	require.LessOrEqual(t, f.passesOf("mb")-before, late)
	require.False(t, f.node("n").Spec.Unschedulable)
}

func TestAClusterThatDiesHoldsItsOwnMachinesOnly(t *testing.T) {
	a, b := newFar(1), newFar(2)
	a.up()
	b.up()
	f := newFarWorld(t, machine.Options{ConnectionGrace: -1}, map[string]*far{"a": a, "b": b})
	ma := f.provisionedIn("a", "ma", "fake://x/1")
	f.joins(a, "na", "fake://x/1")
	f.conditionIs(ma, contract.ConditionReady, contract.ReasonReady)
	a.ResetRequests()

	a.down()
	message := f.conditionIs(ma, machine.ConditionNodeHealthy, contract.ReasonConnectionDown,
		"cluster default/a is not connected", "connection refused", "last seen", "check the API server")
	f.isLeftAlone("ma")
	require.Equal(t, message, conditionOf(f.Get(ma), machine.ConditionNodeHealthy).Message, "it says the same while it is the same")

	t.Log("Machines of other clusters do not notice")
	mb := f.provisionedIn("b", "mb", "fake://x/2")
	f.joins(b, "nb", "fake://x/2")
	f.conditionIs(mb, contract.ConditionReady, contract.ReasonReady)

	t.Log("a deletion waits, and says for what")
	f.Delete(ma)
	f.conditionIs(ma, contract.ConditionDeleting, contract.ReasonDrainingNode, "cluster default/a is not connected")
	f.isLeftAlone("ma")
	require.Nil(t, f.Get(fake.InfraMachine(contract.V1Beta2, "ma")).GetDeletionTimestamp())
	t.Logf("the dead server was asked %d times", a.attempts())
	require.Empty(t, a.Requests())

	t.Log("also when the drain is excluded, and then the volumes are and the machine has gone")
	f.Change(ma, fake.WithAnnotations(map[string]string{contract.ExcludeDrain: ""}))
	f.conditionIs(ma, contract.ConditionDeleting, machine.ReasonWaitingForVolumeDetach, "cluster default/a is not connected")
	require.Nil(t, f.Get(fake.InfraMachine(contract.V1Beta2, "ma")).GetDeletionTimestamp())
	f.Change(ma, fake.WithAnnotations(map[string]string{contract.ExcludeVolumeDetach: ""}))
	f.conditionIs(ma, contract.ConditionDeleting, contract.ReasonDeletingNode, "cluster default/a is not connected")
	f.isLeftAlone("ma")

	a.up()
	f.Gone(ma)
	require.Nil(t, f.nodeIn(a, "na"))
}

func TestAKubeconfigThatLeadsToAnotherCluster(t *testing.T) {
	a, b := newFar(1), newFar(2)
	a.up()
	b.up()
	f := newFarWorld(t, machine.Options{ConnectionGrace: -1}, map[string]*far{"a": a})
	m, stays := f.provisionedIn("a", "m", "fake://x/1"), f.provisionedIn("a", "stays", "fake://x/2")
	f.joins(a, "n", "fake://x/1")
	f.joins(a, "n2", "fake://x/2")
	f.conditionIs(m, contract.ConditionReady, contract.ReasonReady)
	f.conditionIs(stays, contract.ConditionReady, contract.ReasonReady)
	require.NotEmpty(t, f.Get(m).GetAnnotations()[cluster.UIDAnnotation])
	leadTo := func(now, before *far) {
		f.mu.Lock()
		f.far["a"] = now
		f.mu.Unlock()
		now.up()
		before.down()
	}

	t.Log("Nodes that are not found there are not gone")
	f.joins(b, "n", "fake://y/1") // as in each cluster whose Nodes are numbered
	b.ResetRequests()
	leadTo(b, a)
	f.conditionIs(stays, machine.ConditionNodeHealthy, contract.ReasonInspectionFailed, "leads to another cluster", cluster.UIDAnnotation,
		"correct the kubeconfig")
	f.Delete(m)
	f.conditionIs(m, contract.ConditionDeleting, contract.ReasonDrainingNode, "leads to another cluster")
	f.isLeftAlone("m")
	require.Nil(t, f.Get(fake.InfraMachine(contract.V1Beta2, "m")).GetDeletionTimestamp())
	require.Zero(t, b.CountRequests(fake.Request.IsWrite))

	t.Log("the kubeconfig is corrected")
	leadTo(a, b)
	f.Gone(m)
	require.Nil(t, f.nodeIn(a, "n"))
	f.conditionIs(stays, contract.ConditionReady, contract.ReasonReady)

	t.Log("a person says that the other cluster takes the place of the first one")
	leadTo(b, a)
	f.conditionIs(stays, machine.ConditionNodeHealthy, contract.ReasonInspectionFailed, "leads to another cluster")
	f.Change(stays, func(u *unstructured.Unstructured) {
		annotations := u.GetAnnotations()
		delete(annotations, cluster.UIDAnnotation)
		u.SetAnnotations(annotations)
	})
	f.conditionIs(stays, contract.ConditionNodeReady, machine.ReasonNodeDeleted)
	f.Remove(stays)
}

func TestReadinessOutlivesAConnectionForAWhile(t *testing.T) {
	a := newFar(1)
	a.up()
	clock := clocktesting.NewFakePassiveClock(time.Now()) // the while is over when the test says so, and not before
	f := newFarWorld(t, machine.Options{
		ConnectionGrace: 2 * time.Second, Options: engine.Options{StatusDelay: -1, Clock: clock},
	}, map[string]*far{"a": a})
	m := f.provisionedIn("a", "m", "fake://x/1")
	f.joins(a, "n", "fake://x/1")
	f.conditionIs(m, contract.ConditionReady, contract.ReasonReady)
	f.isQuiet()

	before := f.passesOf("m")
	clock.SetTime(time.Now())
	a.down()
	f.Until("the Machine to be woken", func() bool { return f.passesOf("m") != before })
	f.isQuiet()
	require.Equal(t, contract.ReasonReady, conditionOf(f.Get(m), contract.ConditionReady).Reason)
	clock.SetTime(time.Now().Add(2 * time.Second))
	f.conditionIs(m, contract.ConditionNodeReady, contract.ReasonConnectionDown)
	f.conditionIs(m, contract.ConditionReady, contract.ReasonReadyUnknown)
	a.up()
	f.conditionIs(m, contract.ConditionReady, contract.ReasonReady)
}

func TestNodesOfNeedsWhatWakesMachines(t *testing.T) {
	mgr, err := fake.NewStore(fake.Options{}).NewManager(ctrl.Options{})
	require.NoError(t, err)
	ports := machine.Ports{Ports: engine.PortsFromManager(mgr)}
	kind := contract.Unstructured(fake.MachineGVK(), contract.LayoutsOf(contract.V1Beta2).Machine)
	_, err = machine.New(kind, ports, machine.Options{})
	require.ErrorContains(t, err, "neither Ports.Workload.Nodes nor Ports.NodesOf")
	ports.NodesOf = func(types.NamespacedName) (machine.Workload, error) {
		return machine.Workload{}, cluster.ErrNotConnected
	}
	r, err := machine.New(kind, ports, machine.Options{})
	require.NoError(t, err)
	require.ErrorContains(t, r.AddToManager(t.Context(), mgr), "Ports.WorkloadEvents is not set")
}

func providerIDOf(m *unstructured.Unstructured) string {
	id, _, _ := unstructured.NestedString(m.Object, "spec", "providerID")
	return id
}

func TestAClusterWithoutJSONPatchHasItsNodesLabelled(t *testing.T) {
	server := newFar(1)
	server.noJSONPatch = true
	server.up()
	f := newFarWorld(t, machine.Options{}, map[string]*far{"prod": server})
	m := f.provisionedIn("prod", "m", "fake://x/1")
	f.Change(m, func(m *unstructured.Unstructured) { m.SetLabels(map[string]string{"node.cluster.x-k8s.io/pool": "a"}) })
	f.joins(server, "n", "fake://x/1")
	f.conditionIs(m, contract.ConditionReady, contract.ReasonReady)
	f.Until("the label on the Node", func() bool { return f.nodeIn(server, "n").Labels["node.cluster.x-k8s.io/pool"] == "a" })
	f.Remove(m)
	server.mu.Lock()
	defer server.mu.Unlock()
	if server.jsonPatches == 0 {
		t.Error("want JSON patches, which are refused")
	}
}

func TestAClusterWithoutVolumesHasItsNodesFoundAndIsNotWaitedFor(t *testing.T) {
	t.Parallel()
	for name, unserved := range map[string][]string{
		"no PersistentVolumes":                       {"persistentvolumes"},
		"no VolumeAttachments":                       {"volumeattachments"},
		"neither, and no Namespaces that are listed": {"volumeattachments", "persistentvolumes", "namespaces"},
	} {
		t.Run(name, func(t *testing.T) {
			server := newFar(1)
			server.unserved = map[string]bool{}
			for _, resource := range unserved {
				server.unserved[resource] = true
			}
			server.up()
			f := newFarWorld(t, machine.Options{}, map[string]*far{"prod": server})
			m := f.provisionedIn("prod", "m", "fake://x/1")
			f.joins(server, "n", "fake://x/1")
			f.conditionIs(m, contract.ConditionReady, contract.ReasonReady)
			f.Remove(m)
		})
	}
}

func TestTheVolumesOfANodeThatCannotBeReadAreNamed(t *testing.T) {
	server := newFar(1)
	server.unserved = map[string]bool{"persistentvolumes": true}
	server.up()
	f := newFarWorld(t, machine.Options{}, map[string]*far{"prod": server})
	m := f.provisionedIn("prod", "m", "fake://x/1")
	f.joins(server, "n", "fake://x/1")
	f.conditionIs(m, contract.ConditionReady, contract.ReasonReady)
	f.Change(m, func(m *unstructured.Unstructured) { m.SetAnnotations(map[string]string{contract.ExcludeDrain: ""}) })
	there := worldIn(t, testenv.Over(t, server.Store))
	there.attach("data", "n")
	f.Delete(m)
	f.waitsForVolumes(m, "PersistentVolume", "could not find the requested resource")
}
