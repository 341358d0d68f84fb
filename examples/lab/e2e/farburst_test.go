//go:build e2e

package e2e_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/fake"
	"github.com/machinist-dev/machinist/machine"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/examples/lab/cluster"
)

const (
	farBurst = 250
	// farOutage is long enough for several attempts to connect, which are at most two seconds apart.
	farOutage = 10 * time.Second
	// workers is how many Machines a Reconciler works on at the same time by default.
	workers = 10
)

// TestE2EAWorkloadAPIServerDiesWhileNodesJoin lets 250 Nodes join a workload cluster whose API server is killed in the middle
// and started again. Times are printed, not judged.
func TestE2EAWorkloadAPIServerDiesWhileNodesJoin(t *testing.T) {
	f := newFleet(t, machine.Options{})
	ids := f.provisionFar(farBurst)
	far, home := f.mark(), f.markHome()
	start := time.Now()
	joined := f.joinFar(ids)
	f.eventually("the first patches", func() string {
		if n := len(patchesBy(f.requests(far, "fleet")).good); n < farBurst/4 {
			return fmt.Sprintf("%d patches", n)
		}
		return ""
	})
	require.NoError(t, f.workload.Kill(cluster.APIServer))
	f.takeSent()
	killed := time.Now()
	time.Sleep(farOutage)
	sent, atHome := f.takeSent(), f.atHome(home)
	require.NoError(t, f.workload.Restart(t.Context(), cluster.APIServer))
	back := time.Now()
	joined()
	f.farJoined(ids)
	t.Logf("%d Nodes: the API server was killed after %s and was down for %s, in which %d requests were sent to it; "+
		"all was well %s after it was ready",
		farBurst, killed.Sub(start).Round(100*time.Millisecond), back.Sub(killed).Round(100*time.Millisecond), len(sent),
		time.Since(back).Round(100*time.Millisecond))
	t.Logf("to the cluster of the Machines, until the server was back: %s", atHome)
	// What was under way when it died, and the attempts to connect: readiness and the lists of Nodes and of budgets.
	if limit := workers + 3*int(farOutage.Seconds()); len(sent) > limit {
		t.Errorf("want at most %d requests to a server that is down, got %d: %v", limit, len(sent), sent)
	}
	f.eachFarNodeIsPatchedOnce(far)
	f.farGone(ids)
}

// farGone deletes the Machines, because others use their control plane after this.
func (f *fleet) farGone(ids map[string]string) {
	f.t.Helper()
	start := time.Now()
	for _, name := range slices.Sorted(maps.Keys(ids)) {
		require.NoError(f.t, f.client.Delete(f.t.Context(), fake.Machine(name)))
	}
	f.eventuallySlow("all Machines to be gone", func() string {
		if left := len(f.farMachines()); left > 0 {
			return fmt.Sprintf("%d are there", left)
		}
		return ""
	})
	var nodes corev1.NodeList
	require.NoError(f.t, f.nodes.List(f.t.Context(), &nodes))
	require.Empty(f.t, nodes.Items)
	f.t.Logf("deleted again in %s", time.Since(start).Round(time.Second))
}

func farName(i int) string { return fmt.Sprintf("far-%03d", i) }

// provisionFar creates Machines of the far cluster and returns their provider IDs by name.
func (f *fleet) provisionFar(n int) map[string]string {
	f.t.Helper()
	for i := range n {
		name := farName(i)
		for _, obj := range []client.Object{fake.BootstrapConfig(contract.V1Beta2, name), fake.InfraMachine(contract.V1Beta2, name),
			fake.Machine(name, fake.WithField("far", "spec", "clusterName"), fake.WithLabels(map[string]string{workerLabel: ""}))} {
			require.NoError(f.t, f.client.Create(f.t.Context(), obj))
		}
	}
	ids := map[string]string{}
	f.eventuallySlow("all provider IDs", func() string {
		for name, m := range f.farMachines() {
			if m.ProviderID != "" {
				ids[name] = m.ProviderID
			}
		}
		if len(ids) < n {
			return fmt.Sprintf("%d of %d Machines have one", len(ids), n)
		}
		return ""
	})
	return ids
}

// farMachines are the Machines of the far cluster by name.
func (f *fleet) farMachines() map[string]contract.MachineState {
	f.t.Helper()
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(fake.MachineGVK())
	require.NoError(f.t, f.client.List(f.t.Context(), list, client.InNamespace("default")))
	states := map[string]contract.MachineState{}
	for i := range list.Items {
		var state contract.MachineState
		require.NoError(f.t, machineKind().Adapter.Read(&list.Items[i], &state))
		if state.ClusterName == "far" {
			states[state.Key.Name] = state
		}
	}
	return states
}

// joinFar starts kubelets that try until they are registered. The function that it returns waits for all of them.
func (f *fleet) joinFar(ids map[string]string) (wait func()) {
	names := make(chan string)
	var kubelets sync.WaitGroup
	for range joining {
		kubelets.Go(func() {
			for name := range names {
				f.registerFar(name, ids[name])
			}
		})
	}
	kubelets.Go(func() {
		defer close(names)
		for _, name := range slices.Sorted(maps.Keys(ids)) {
			names <- name
		}
	})
	return kubelets.Wait
}

func (f *fleet) registerFar(name, id string) {
	err := wait.PollUntilContextCancel(f.t.Context(), time.Second, true, func(ctx context.Context) (bool, error) {
		return f.register(ctx, name, id) == nil, nil
	})
	if err != nil {
		f.t.Errorf("register %s: %v", name, err)
	}
}

// farJoined waits until Machines and Nodes have found each other.
func (f *fleet) farJoined(ids map[string]string) {
	f.t.Helper()
	f.eventuallySlow("all Nodes to be referenced, labelled and untainted", func() string {
		var list corev1.NodeList
		require.NoError(f.t, f.nodes.List(f.t.Context(), &list))
		nodes := map[string]*corev1.Node{}
		for i := range list.Items {
			nodes[list.Items[i].Name] = &list.Items[i]
		}
		states := f.farMachines()
		for _, name := range slices.Sorted(maps.Keys(ids)) {
			m, node := states[name], nodes[name]
			if said := farApart(&m, node); said != "" {
				return name + ": " + said
			}
		}
		return ""
	})
}

// farApart says what a Machine and its Node lack.
func farApart(m *contract.MachineState, node *corev1.Node) string {
	if node == nil {
		return "no Node"
	}
	if want := (contract.NodeRef{Name: node.Name, UID: node.UID}); m.Node != want || m.Phase != "Running" {
		return fmt.Sprintf("%s, references %v, want %v", m.Phase, m.Node, want)
	}
	if _, worker := node.Labels[workerLabel]; !worker || isUninitialized(node) {
		return fmt.Sprintf("labels %v, taints %v", node.Labels, node.Spec.Taints)
	}
	for _, c := range m.Conditions {
		if c.Type == contract.ConditionReady && c.Status == "True" {
			return ""
		}
	}
	return "not Ready"
}

func (f *fleet) eventuallySlow(what string, check func() string) {
	f.t.Helper()
	f.eventually(what, func() string {
		said := check()
		if said != "" {
			time.Sleep(time.Second)
		}
		return said
	})
}

// markHome and atHome count what the manager sends to the cluster of the Machines.
func (f *fleet) markHome() cluster.AuditMark {
	f.t.Helper()
	mark, err := f.plane.Audit().Mark()
	require.NoError(f.t, err)
	return mark
}

func (f *fleet) atHome(mark cluster.AuditMark) cluster.AuditEvents {
	f.t.Helper()
	events, err := f.plane.Audit().Since(mark)
	require.NoError(f.t, err)
	return events.From(fleetAgent)
}

// eachFarNodeIsPatchedOnce allows for what a crash takes along: a patch may be stored and neither answered nor counted, and
// then be sent again and rejected. There are no more of those than workers; elsewhere 2% hold as ever.
func (f *fleet) eachFarNodeIsPatchedOnce(mark cluster.AuditMark) {
	f.t.Helper()
	patches := patchesBy(f.requests(mark, "fleet"))
	for name, n := range patches.good {
		if n != 1 {
			f.t.Errorf("%s was patched %d times, want exactly once", name, n)
		}
	}
	lost := farBurst - len(patches.good)
	f.t.Logf("patches of %d Nodes: %d successful, %d not counted, %d rejected", farBurst, len(patches.good), lost, len(patches.rejected))
	if lost > workers {
		f.t.Errorf("%d patches were not counted, want at most %d", lost, workers)
	}
	if limit := workers + farBurst*2/100; len(patches.rejected) > limit {
		f.t.Errorf("want at most %d rejected patches: %s", limit, patches.rejected)
	}
	if len(patches.strange) > 0 {
		f.t.Errorf("want no write to Nodes but patches: %s", patches.strange)
	}
}
