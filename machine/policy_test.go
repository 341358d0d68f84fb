package machine_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/contract/pass"
	"github.com/machinist-dev/machinist/fake"
	"github.com/machinist-dev/machinist/internal/external"
	"github.com/machinist-dev/machinist/machine"
	"github.com/machinist-dev/machinist/noderef/cluster"
)

// views are Clusters that say what a test has them say, by name. They wake their Machines when that changes.
type views struct {
	mu     sync.Mutex
	of     map[string]external.ClusterView
	mapper cluster.Mapper
	queue  workqueue.TypedRateLimitingInterface[reconcile.Request]
}

// runningCluster is a Cluster with a control plane of three Machines.
func runningCluster() external.ClusterView {
	return external.ClusterView{
		Presence:                   external.Present,
		State:                      contract.ClusterState{InfrastructureProvisioned: true, ControlPlaneInitialized: true},
		ActiveControlPlaneMachines: contract.Some(3),
	}
}

// ports is for worldOptions. All Machines have their Nodes in the manager's cluster, unless their Cluster is named in
// unreachable.
func (v *views) ports(unreachable ...string) func(ctrl.Manager, *machine.Ports) {
	return func(_ ctrl.Manager, p *machine.Ports) {
		p.ClusterOf = func(_ context.Context, key types.NamespacedName) (external.ClusterView, error) {
			v.mu.Lock()
			defer v.mu.Unlock()
			if view, found := v.of[key.Name]; found {
				return view, nil
			}
			return runningCluster(), nil
		}
		p.ClusterEvents = func(mapper external.ClusterMapper) source.Source { v.mapper = cluster.Mapper(mapper); return v }
		if len(unreachable) == 0 {
			return
		}
		here := machine.Workload{Nodes: p.Workload.Nodes, Client: p.Client, Drainer: p.Workload.Drainer, Volumes: p.Workload.Volumes}
		p.NodesOf = func(key types.NamespacedName) (machine.Workload, error) {
			v.mu.Lock()
			defer v.mu.Unlock()
			for _, name := range unreachable {
				if _, changed := v.of[key.Name]; changed && key.Name == name {
					return machine.Workload{}, errors.New("for an unknown reason")
				}
			}
			return here, nil
		}
		p.WorkloadEvents = func(cluster.Mapper) source.Source {
			return source.Func(func(context.Context, workqueue.TypedRateLimitingInterface[reconcile.Request]) error { return nil })
		}
	}
}

// Start implements controller-runtime's Source.
func (v *views) Start(_ context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.queue = queue
	return nil
}

func (v *views) set(name string, change func(*external.ClusterView)) {
	v.mu.Lock()
	defer v.mu.Unlock()
	view := runningCluster()
	change(&view)
	if v.of == nil {
		v.of = map[string]external.ClusterView{}
	}
	v.of[name] = view
	for _, request := range v.mapper(types.NamespacedName{Namespace: "default", Name: name}) {
		v.queue.Add(request)
	}
}

func inCluster(name string) fake.Option { return fake.WithField(name, "spec", "clusterName") }

// annotate sets annotations of a Machine, and takes those off that are nil.
func (w *world) annotate(m *unstructured.Unstructured, annotations map[string]any) {
	w.t.Helper()
	w.merge(m, map[string]any{"metadata": map[string]any{"annotations": annotations}})
}

// The kubeconfig of the Cluster never existed, so whether the host has a Node is not known.
func TestADeletionWithoutAKubeconfig(t *testing.T) {
	w := newWorld(t, worldOptions{ports: func(mgr ctrl.Manager, p *machine.Ports) {
		(&views{}).ports("none")(mgr, p)
		p.NodesOf = func(types.NamespacedName) (machine.Workload, error) {
			return machine.Workload{}, fmt.Errorf("%w: there is no kubeconfig", cluster.ErrNoCluster)
		}
	}})
	m := w.machineWith("m1", inCluster("lost"))
	w.conditionIs(m, contract.ConditionInfrastructureReady, contract.ReasonReady)
	w.Delete(m)
	w.conditionIs(m, contract.ConditionDeleting, contract.ReasonDrainingNode,
		"there is no kubeconfig; to continue without, set the annotation "+contract.ExcludeDrain+" or a timeout of the drain, "+
			"or delete the Cluster")
	w.Change(m, fake.WithField(int64(1), "spec", "deletion", "nodeDrainTimeoutSeconds"))
	w.Gone(m)
}

func TestANodeIsLeftAsItIsWhereItGoesWithItsCluster(t *testing.T) {
	gone := "gone"
	var v views
	w := newWorld(t, worldOptions{machine: atOnce, ports: v.ports(gone)})
	plane := external.Object{
		Ref: contract.Ref{Group: "g", Kind: "Plane", Name: "p"}, Presence: external.Present,
		Object: &unstructured.Unstructured{Object: map[string]any{}},
	}
	cases := map[string]struct {
		change func(*external.ClusterView)
		cared  bool
	}{
		"cluster-deleting": {change: func(v *external.ClusterView) { v.State.Deleting = time.Unix(1, 0) }},
		// The Cluster object was removed by force, and how its Nodes were reached is unknown.
		gone:          {change: func(v *external.ClusterView) { *v = external.ClusterView{Presence: external.Absent} }},
		"last-member": {change: func(v *external.ClusterView) { v.ActiveControlPlaneMachines = contract.Some(0) }},
		"plane-deleting": {change: func(v *external.ClusterView) {
			v.ControlPlane, v.ControlPlaneState.Deleting = plane, time.Unix(1, 0)
		}},
		"plane-missing": {cared: true, change: func(v *external.ClusterView) { v.ControlPlane = external.Object{Presence: external.Absent} }},
		// It was not known at first what the control plane says; the deletion waited until it was.
		"unknown": {cared: true, change: func(*external.ClusterView) {}},
		"plane-elsewhere": {cared: true, change: func(v *external.ClusterView) {
			v.ControlPlane, v.ControlPlaneState.ExternalManagedControlPlane = plane, true
			v.ActiveControlPlaneMachines = contract.Some(0)
		}},
	}
	machines := map[string]*unstructured.Unstructured{}
	preDrain, preTerminate := contract.PreDrainHook+"/x", contract.PreTerminateHook+"/x"
	for name, tc := range cases {
		hooks := map[string]string{preTerminate: ""}
		if !tc.cared {
			hooks[preDrain] = ""
		}
		machines[name] = w.machineWith(name, inCluster(name), fake.WithAnnotations(hooks))
	}
	for _, m := range machines {
		w.conditionIs(m, contract.ConditionReady, contract.ReasonReady)
	}
	v.set("unknown", func(v *external.ClusterView) {
		v.ControlPlane = external.Object{Ref: plane.Ref, Presence: external.Unread}
	})
	w.Delete(machines["unknown"])
	message := w.conditionIs(machines["unknown"], contract.ConditionDeleting, contract.ReasonDeleting)
	require.Contains(t, message, "the control plane Plane p could not be read")
	require.False(t, w.node("unknown").Spec.Unschedulable)
	for name, m := range machines {
		v.set(name, cases[name].change)
		require.NoError(t, client.IgnoreNotFound(w.client.Delete(t.Context(), m)))
	}
	for name, m := range machines {
		w.conditionIs(m, contract.ConditionDeleting, machine.ReasonWaitingForPreTerminateHook)
		require.Equal(t, cases[name].cared, w.node(name).Spec.Unschedulable, "%s: cordoned", name)
		w.annotate(m, map[string]any{preTerminate: nil})
	}
	for name, m := range machines {
		w.Gone(m, fake.InfraMachine(contract.V1Beta2, name), fake.BootstrapConfig(contract.V1Beta2, name))
		if left := w.node(name) != nil; left == cases[name].cared {
			t.Errorf("%s: the Node is left: %v", name, left)
		}
	}
}

// isDrainedBeforeItGoes deletes a Machine that a pre-terminate hook holds, and looks at its Node.
func (w *world) isDrainedBeforeItGoes(m *unstructured.Unstructured) {
	w.t.Helper()
	w.conditionIs(m, contract.ConditionReady, contract.ReasonReady)
	w.annotate(m, map[string]any{contract.PreTerminateHook + "/look": ""})
	w.Delete(m)
	w.conditionIs(m, contract.ConditionDeleting, machine.ReasonWaitingForPreTerminateHook)
	require.True(w.t, w.node(m.GetName()).Spec.Unschedulable, "its Node was drained")
	w.annotate(m, map[string]any{contract.PreTerminateHook + "/look": nil})
	w.Gone(m)
	require.Nil(w.t, w.node(m.GetName()))
}

func TestAWorkerOfAnEmbeddersKindIsDrainedInAClusterOfClusterAPI(t *testing.T) {
	kind := contract.Unstructured(schema.GroupVersionKind{Group: "edge.example.com", Version: "v1", Kind: "EdgeMachine"},
		contract.LayoutsOf(contract.V1Beta2).Machine)
	w := newWorld(t, worldOptions{kind: kind, clusters: true, machine: atOnce})
	w.cluster("demo")
	m := fake.Machine("m1")
	m.SetGroupVersionKind(kind.GVK)
	w.Create(fake.BootstrapConfig(contract.V1Beta2, "m1"), fake.InfraMachine(contract.V1Beta2, "m1"), m)
	w.isDrainedBeforeItGoes(m) // the control plane's Machines are of Cluster API's kind, and in no cache here
}

func TestThatAClusterHasNoControlPlaneMachinesIsAskedOnceForEachMachine(t *testing.T) {
	w := newWorld(t, worldOptions{clusters: true, machine: atOnce})
	w.cluster("demo")
	m := w.ready("m1", fake.WithAnnotations(map[string]string{contract.PreTerminateHook + "/look": ""}))
	lists := func() (n int) {
		for _, r := range w.store.Requests() {
			if r.UserAgent == userAgent && r.Verb == "list" && r.GVK.Kind == "Machine" {
				n++
			}
		}
		return n
	}
	before := lists()
	w.Delete(m)
	w.conditionIs(m, contract.ConditionDeleting, machine.ReasonWaitingForPreTerminateHook)
	w.annotate(m, map[string]any{contract.PreTerminateHook + "/look": nil, contract.PreTerminateHook + "/again": ""})
	w.conditionIs(m, contract.ConditionDeleting, machine.ReasonWaitingForPreTerminateHook, "again")
	w.annotate(m, map[string]any{contract.PreTerminateHook + "/again": nil})
	w.Gone(m)
	require.Equal(t, 1, lists()-before)
}

// narrowed is a cache that leaves the Machines of control planes out.
type narrowed struct{ cache.Cache }

func (n narrowed) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	var o client.ListOptions
	o.ApplyOptions(options)
	if o.FieldSelector != nil && strings.Contains(o.FieldSelector.String(), "=controlplane:") {
		return nil
	}
	return n.Cache.List(ctx, list, options...)
}

func TestAControlPlaneThatTheCacheLeavesOutIsNotNone(t *testing.T) {
	w := newWorld(t, worldOptions{clusters: true, machine: atOnce,
		ports: func(_ ctrl.Manager, p *machine.Ports) { p.Cache = narrowed{p.Cache} }})
	w.cluster("demo")
	w.ready("cp1", fake.WithLabels(map[string]string{contract.ControlPlaneLabel: ""}))
	w.isDrainedBeforeItGoes(w.machineWith("m1"))
}

func TestAMachineWhoseClusterCannotBeReachedWaitsOrGoesAsItsLimitsSay(t *testing.T) {
	server := newFar(1)
	server.up()
	f := newFarWorld(t, machine.Options{Options: pass.Options{StatusDelay: -1}, ConnectionGrace: -1}, map[string]*far{"a": server})
	patient, hasty := f.provisionedIn("a", "patient", "fake://x/1"), f.provisionedIn("a", "hasty", "fake://x/2")
	f.joins(server, "n1", "fake://x/1")
	f.joins(server, "n2", "fake://x/2")
	f.conditionIs(patient, contract.ConditionReady, contract.ReasonReady)
	f.conditionIs(hasty, contract.ConditionReady, contract.ReasonReady)
	server.down()
	f.conditionIs(patient, contract.ConditionNodeReady, contract.ReasonConnectionDown)
	f.conditionIs(hasty, contract.ConditionNodeReady, contract.ReasonConnectionDown)
	limits := map[string]any{"spec": map[string]any{"deletion": map[string]any{
		"nodeDrainTimeoutSeconds": 1, "nodeVolumeDetachTimeoutSeconds": 1, "nodeDeletionTimeoutSeconds": 1}}}
	f.merge(hasty, limits)
	f.Delete(patient)
	f.Delete(hasty)
	f.conditionIs(patient, contract.ConditionDeleting, contract.ReasonDrainingNode, "cluster default/a is not connected")

	t.Log("with limits it goes, and one after another: no stage is left out before its time")
	f.Gone(hasty, fake.InfraMachine(contract.V1Beta2, "hasty"))

	t.Log("without, it waits; a limit that is set later counts from the recorded start")
	fresh := f.Get(patient)
	require.Equal(t, contract.ReasonDrainingNode, conditionOf(fresh, contract.ConditionDeleting).Reason)
	require.NotEmpty(t, startOf(fresh, "nodeDrainStartTime"))
	require.Nil(t, f.Get(fake.InfraMachine(contract.V1Beta2, "patient")).GetDeletionTimestamp())
	f.mergeStatus(patient, map[string]any{
		"deletion": map[string]any{"nodeDrainStartTime": time.Now().Add(-time.Hour).UTC().Format(time.RFC3339)}})
	f.merge(patient, limits)
	f.Gone(patient)
	require.NotNil(t, f.nodeIn(server, "n1"))
	require.NotNil(t, f.nodeIn(server, "n2"))
}

// reads lets Nodes be listed and watched, or not.
func (f *far) reads(nodes bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.unread = !nodes
}

// The server is back before anybody has heard of the Node that joined, and took pods, while it was lost.
func TestAMachineWhoseNodeJoinedDuringAnOutageIsDrainedAllTheSame(t *testing.T) {
	server := newFar(1)
	server.up()
	f := newFarWorld(t, machine.Options{ConnectionGrace: -1}, map[string]*far{"a": server})
	m := f.provisionedIn("a", "m", "fake://x/1")
	f.joins(server, "another", "fake://x/2")
	f.conditionIs(m, contract.ConditionNodeReady, contract.ReasonInspectionFailed, "Waiting for a Node with spec.providerID fake://x/1")
	server.down()
	f.conditionIs(m, contract.ConditionNodeReady, contract.ReasonConnectionDown)
	f.joins(server, "n", "fake://x/1")
	f.Delete(m)
	f.conditionIs(m, contract.ConditionDeleting, contract.ReasonDrainingNode, "cluster default/a is not connected")

	server.reads(false)
	server.up()
	f.conditionIs(m, contract.ConditionDeleting, contract.ReasonDrainingNode, "Nodes of cluster default/a cannot be listed")
	f.isLeftAlone("m")
	require.Nil(t, f.Get(fake.InfraMachine(contract.V1Beta2, "m")).GetDeletionTimestamp())

	server.reads(true)
	f.Gone(m)
	require.Nil(t, f.nodeIn(server, "n"), "it was found")
	require.NotZero(t, server.CountRequests(func(r fake.Request) bool { return r.IsWrite() && r.Name == "n" }))
}
