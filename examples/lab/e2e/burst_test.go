//go:build e2e

package e2e_test

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/fake"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/machinist-dev/machinist/examples/lab/cluster"
)

const (
	burst = 500
	// joining is how many Nodes register at the same time.
	joining = 20
)

// TestE2ENodesThatJoinInABurst lets 500 Nodes join at once and looks at all Machines a second time. Requests are counted at
// the API server. Times are printed, not judged.
//
// It has a control plane of its own, because it fills it.
func TestE2ENodesThatJoinInABurst(t *testing.T) {
	plane, err := cluster.Start(t.Context(), cluster.Options{Log: os.Stderr, Without: []cluster.Component{cluster.Scheduler}})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, plane.Stop()) })
	b := &bursts{world: newBareWorld(t, plane), metrics: freeAddress(t)}
	b.startProviders(worldOptions{infrastructure: fake.Infrastructure{NoNode: true}})
	// A manager that loses its Lease ends, and this test does not restart it.
	b.manager = b.startManager([]string{"--leader-elect=false", "--metrics-bind-address", b.metrics, "--metrics-secure=false"})
	b.provision(burst)

	t.Run("each is patched once", b.eachIsPatchedOnce)
	t.Run("a second look writes nothing", b.secondLookWritesNothing)
}

// bursts are Machines with infrastructure, whose Nodes the test lets join.
type bursts struct {
	*world
	manager *managerProcess
	metrics string // where the manager serves its metrics
	ids     []string
}

func nodeName(i int) string { return fmt.Sprintf("burst-%03d", i) }

func (b *bursts) provision(n int) {
	b.t.Helper()
	start := time.Now()
	for i := range n {
		b.apply(document(nodeName(i), contract.V1Beta2))
	}
	b.settled("provisioned", func() string {
		b.ids = nil
		for _, state := range b.machines() {
			if state.Phase != "Provisioned" || state.ProviderID == "" {
				return fmt.Sprintf("%s is %s", state.Key, state.Phase)
			}
			b.ids = append(b.ids, state.ProviderID)
		}
		return ""
	})
	b.t.Logf("%d Machines without Nodes after %s", n, time.Since(start).Round(time.Second))
}

// machines are all Machines, by name.
func (b *bursts) machines() []contract.MachineState {
	b.t.Helper()
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(fake.MachineGVK())
	require.NoError(b.t, b.client.List(b.t.Context(), list))
	states := make([]contract.MachineState, len(list.Items))
	for i := range list.Items {
		require.NoError(b.t, machineKind().Adapter.Read(&list.Items[i], &states[i]))
	}
	return states
}

// settled is eventually for questions that read a whole fleet.
func (b *bursts) settled(what string, check func() string) {
	b.t.Helper()
	b.eventually(what, func() string {
		said := check()
		if said != "" {
			time.Sleep(time.Second)
		}
		return said
	})
}

// join lets Nodes register at the same time. A kubelet tries again until it is registered.
func (b *bursts) join(from, to int) {
	numbers := make(chan int)
	var kubelets sync.WaitGroup
	for range joining {
		kubelets.Go(func() {
			for i := range numbers {
				b.register(fake.Node(nodeName(i), b.ids[i]))
			}
		})
	}
	for i := from; i < to; i++ {
		numbers <- i
	}
	close(numbers)
	kubelets.Wait()
}

func (b *bursts) register(node *corev1.Node) {
	err := wait.PollUntilContextCancel(b.t.Context(), time.Second, true, func(ctx context.Context) (bool, error) {
		err := b.client.Create(ctx, node.DeepCopy())
		return err == nil || apierrors.IsAlreadyExists(err), nil
	})
	if err != nil {
		b.t.Errorf("register %s: %v", node.Name, err)
	}
}

// joined waits until Machines and Nodes have found each other and the Machines say that all is well.
func (b *bursts) joined(from, to int) {
	b.t.Helper()
	b.settled("all Nodes to be referenced, labelled and untainted", func() string {
		var list corev1.NodeList
		require.NoError(b.t, b.client.List(b.t.Context(), &list))
		nodes := map[string]*corev1.Node{}
		for i := range list.Items {
			nodes[list.Items[i].Name] = &list.Items[i]
		}
		states := b.machines()
		for i := from; i < to; i++ {
			if said := apart(&states[i], nodes[nodeName(i)]); said != "" {
				return said
			}
		}
		return ""
	})
}

// apart says what a Machine and its Node lack.
func apart(m *contract.MachineState, node *corev1.Node) string {
	if node == nil {
		return m.Key.String() + ": no Node"
	}
	want := contract.NodeRef{Name: node.Name, UID: node.UID}
	_, worker := node.Labels[workerLabel]
	if m.Key.Name != node.Name || m.Node != want || m.Phase != "Running" {
		return fmt.Sprintf("%s: %s, references %v, want %v", m.Key, m.Phase, m.Node, want)
	}
	if !worker || node.Labels["gpu.node.cluster.x-k8s.io/model"] != "a100" || isUninitialized(node) {
		return fmt.Sprintf("Node %s: labels %v, taints %v", node.Name, node.Labels, node.Spec.Taints)
	}
	for _, c := range m.Conditions {
		if c.Type == "Ready" && c.Status == "True" {
			return ""
		}
	}
	return m.Key.String() + ": not Ready"
}

func (b *bursts) eachIsPatchedOnce(t *testing.T) {
	defer b.on(t)()
	mark, err := b.plane.Audit().Mark()
	require.NoError(t, err)
	start := time.Now()
	b.join(0, burst)
	registered := time.Since(start)
	b.joined(0, burst)
	t.Logf("%d Nodes: registered in %s, all known, labelled and Ready after %s", burst,
		registered.Round(100*time.Millisecond), time.Since(start).Round(time.Second))
	b.quiet()
	events, err := b.plane.Audit().Since(mark)
	require.NoError(t, err)
	patches := patchesOf(events)
	for i := range burst {
		if n := patches.good[nodeName(i)]; n != 1 {
			t.Errorf("%s was patched %d times, want exactly once", nodeName(i), n)
		}
	}
	t.Logf("patches of %d Nodes: %d successful, %d rejected", burst, len(patches.good), len(patches.rejected))
	if len(patches.rejected)*100 > 2*burst {
		t.Errorf("want at most 2%% rejected, got %s", patches.rejected)
	}
	if len(patches.strange) > 0 {
		t.Errorf("want no write to Nodes but patches: %s", patches.strange)
	}
	// An overloaded API server closes watches of all clients, so several watches of Nodes are allowed.
	t.Logf("the manager in all: %s", events.From(managerAgent))
	if n := notYetAllowed(events.From(managerAgent)); n > 0 {
		t.Errorf("the manager lacks a right that it needs")
	}
	if len(patches.good) != burst {
		t.Errorf("want patches of %d Nodes, got %d", burst, len(patches.good))
	}
}

// nodePatches are the manager's writes to Nodes.
type nodePatches struct {
	good     map[string]int
	rejected cluster.AuditEvents // decided on something that had changed meanwhile, or wrong
	strange  cluster.AuditEvents
}

func patchesOf(events cluster.AuditEvents) nodePatches { return patchesBy(events.From(managerAgent)) }

// patchesBy sorts the writes to Nodes among the requests of one client.
func patchesBy(events cluster.AuditEvents) nodePatches {
	p := nodePatches{good: map[string]int{}}
	for _, e := range events.To("", "nodes").Writes() {
		switch {
		case e.Verb != "patch" || e.Subresource != "":
			p.strange = append(p.strange, e)
		case e.Code < 300:
			p.good[e.Name]++
		case e.Code == http.StatusForbidden: // see notYetAllowed
		default:
			p.rejected = append(p.rejected, e)
		}
	}
	return p
}

// notYetAllowed are the answers of an API server that has just started and has not read the RBAC rules yet.
func notYetAllowed(events cluster.AuditEvents) int {
	return len(events.Where(func(e cluster.AuditEvent) bool { return e.Code == http.StatusForbidden }))
}

func (b *bursts) secondLookWritesNothing(t *testing.T) {
	defer b.on(t)()
	b.manager.stop()
	mark, err := b.plane.Audit().Mark()
	require.NoError(t, err)
	start := time.Now()
	b.manager.start()
	b.settled("a look at every Machine", func() string {
		if n := b.metric("controller_runtime_reconcile_total"); n < burst {
			return fmt.Sprintf("%.0f looks", n)
		}
		return ""
	})
	b.quiet()
	looks := b.metric("controller_runtime_reconcile_total")
	t.Logf("%d Machines looked at %.0f times, quiet after %s", burst, looks, time.Since(start).Round(time.Second))
	events, err := b.plane.Audit().Since(mark)
	require.NoError(t, err)
	requests := events.From(managerAgent)
	t.Logf("the manager in all: %s", requests)
	if writes := requests.Writes(); len(writes) > 0 {
		t.Errorf("want no write: %s", writes)
	}
	if reads := requests.Where(func(e cluster.AuditEvent) bool { return e.Verb == "get" && e.Resource != "" }); len(reads) > 0 {
		t.Errorf("want no read of a single object: %s", reads)
	}
	// One list or watch list and a watch per kind: Machines, Nodes, CRDs, both providers' kinds, budgets.
	if len(requests) > 60 {
		t.Errorf("want a number of requests that does not depend on the number of Machines: %s", requests)
	}
}

// on makes a part of the test the one that is talked to, until the returned function is called.
func (b *bursts) on(t *testing.T) func() {
	t.Helper()
	outer := b.t
	b.t = t
	return func() { b.t = outer }
}
