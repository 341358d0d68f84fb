//go:build e2e

package e2e_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/fake"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/examples/lab/cluster"
)

// TestWritesPerMachineAreBounded counts at the API server. Cluster API v1.13.6 needs 12.5 writes to the Machine and 17.7 in
// all with a provider that answers at once.
func TestWritesPerMachineAreBounded(t *testing.T) {
	live, err := client.New(shared(t).Config(), client.Options{})
	require.NoError(t, err)
	slow := func(shown string) fake.ProviderOptions { return fake.ProviderOptions{Delay: lasts(t, live, shown)} }
	for _, tc := range []struct {
		name             string
		options          worldOptions
		machines         int
		toMachine, inAll int
		phases           []string
	}{
		{
			name: "a provider that answers at once", machines: 10, toMachine: 6, inAll: 10,
			// However busy the machine is, no stage lasts for as long as it would have to, to be worth a status.
			options: worldOptions{managerFlags: []string{"--status-delay=1m"}},
		},
		{
			name: "stages of three seconds", machines: 4, toMachine: 11, inAll: 15,
			options: worldOptions{
				infrastructure: fake.Infrastructure{ProviderOptions: slow("Provisioning"), NodeDelay: lasts(t, live, "Provisioned")},
				bootstrap:      fake.Bootstrap{ProviderOptions: slow("Pending")},
			},
			phases: phasesToRunning(),
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := newWorld(t, tc.options)
			seen := w.watchPhases()
			mark, err := w.plane.Audit().Mark()
			require.NoError(t, err)
			var machines []*unstructured.Unstructured
			for i := range tc.machines {
				machines = append(machines, w.apply(document(fmt.Sprintf("cost-%d-%d", tc.toMachine, i), contract.V1Beta2))[2])
			}
			for _, m := range machines {
				w.ready(m)
			}
			time.Sleep(3 * time.Second) // whatever is still to be written is counted too
			events, err := w.plane.Audit().Since(mark)
			require.NoError(t, err)
			w.bounded(events.From(managerAgent).Writes(), tc.machines, tc.toMachine, tc.inAll)
			for _, m := range machines {
				if tc.phases != nil {
					w.eventually("phases of "+m.GetName(), func() string { return cmp.Diff(tc.phases, seen.of(m.GetName())) })
				}
				require.NoError(t, w.client.Delete(t.Context(), m))
			}
			for _, m := range machines {
				w.gone(m)
			}
		})
	}
}

func phasesToRunning() []string {
	return []string{"", "Pending", "Provisioning", "Provisioned", "Running"}
}

// lasts is a stage of a provider of three seconds, and longer if its Machine has not shown a phase by then: a manager that is late shows
// each.
func lasts(t *testing.T, live client.Client, shown string) func(*unstructured.Unstructured) time.Duration {
	t.Helper()
	ctx := t.Context()
	return func(obj *unstructured.Unstructured) time.Duration {
		m := fake.Machine(obj.GetName())
		err := live.Get(ctx, client.ObjectKeyFromObject(m), m)
		phase, _, _ := unstructured.NestedString(m.Object, "status", "phase")
		at := slices.Index(phasesToRunning(), phase)
		if err == nil && at >= 0 && at < slices.Index(phasesToRunning(), shown) {
			return time.Hour // the provider looks again when its Machine changes
		}
		return 3 * time.Second
	}
}

func (w *world) bounded(writes cluster.AuditEvents, machines, toMachine, inAll int) {
	w.t.Helper()
	writes = writes.Where(func(e cluster.AuditEvent) bool {
		ofLeaderElection := e.Resource == "leases" || e.Resource == "events" && e.Group == "" // ours are of events.k8s.io
		return !ofLeaderElection
	})
	per := func(n int) float64 { return float64(n) / float64(machines) }
	own := writes.To("cluster.x-k8s.io", "machines")
	w.t.Logf("writes per Machine: %.1f to the Machine, %.1f in all\n%s", per(len(own)), per(len(writes)), writes)
	if per(len(own)) > float64(toMachine) || per(len(writes)) > float64(inAll) {
		w.t.Errorf("want at most %d writes to the Machine and %d in all", toMachine, inAll)
	}
}

// phasesSeen are the phases that a watcher saw, by Machine.
type phasesSeen struct {
	mu  sync.Mutex
	all map[string][]string
}

func (p *phasesSeen) of(name string) []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.all[name])
}

func (p *phasesSeen) keep(events watch.Interface) {
	for e := range events.ResultChan() {
		obj, ok := e.Object.(*unstructured.Unstructured)
		if !ok || obj.GetDeletionTimestamp() != nil {
			continue
		}
		phase, _, _ := unstructured.NestedString(obj.Object, "status", "phase")
		p.mu.Lock()
		if seen := p.all[obj.GetName()]; len(seen) == 0 || seen[len(seen)-1] != phase {
			p.all[obj.GetName()] = append(seen, phase)
		}
		p.mu.Unlock()
	}
}

func (w *world) watchPhases() *phasesSeen {
	w.t.Helper()
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(fake.MachineGVK())
	events, err := w.client.Watch(w.t.Context(), list, client.InNamespace("default"))
	require.NoError(w.t, err)
	seen := &phasesSeen{all: map[string][]string{}}
	go seen.keep(events)
	return seen
}
