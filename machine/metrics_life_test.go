package machine_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/contract/pass"
	"github.com/machinist-dev/machinist/fake"
	"github.com/machinist-dev/machinist/internal/apitest/testenv"
	"github.com/machinist-dev/machinist/machine"
)

// scraped waits until the series whose names begin with a prefix are as wanted; those that are zero are left out.
func (w *world) scraped(m *machine.Metrics, prefix string, want map[string]float64) {
	w.t.Helper()
	w.Eventually("metrics "+prefix, func() string {
		got := machine.Scrape(w.t, m)
		for name := range got {
			if !strings.HasPrefix(name, prefix) {
				delete(got, name)
			}
		}
		return cmp.Diff(want, got)
	})
}

// providersByHand are CRDs, of whose objects the test is the provider.
func providersByHand(w *world) {
	w.Create(fake.CRD(fake.InfraMachineGVK(contract.V1Beta2), contract.V1Beta2))
	w.Create(fake.CRD(fake.BootstrapConfigGVK(contract.V1Beta2), contract.V1Beta2))
}

func TestMachinesAreCountedByTheirPhase(t *testing.T) {
	m := machine.NewMetrics(machine.MetricsOptions{})
	w := newWorld(t, worldOptions{noCRDs: true, before: providersByHand, machine: machine.Options{
		Metrics: m, Options: pass.Options{StatusDelay: -1},
	}})
	infra := fake.InfraMachine(contract.V1Beta2, "m1")
	infra.SetFinalizers([]string{hold})
	obj := fake.Machine("m1")
	w.Create(fake.BootstrapConfig(contract.V1Beta2, "m1"), infra, obj)
	w.reaches(obj, "Pending")
	w.scraped(m, "machinist_machines", map[string]float64{"machinist_machines{controller=machine}{phase=Pending}": 1})
	w.scraped(m, "machine_controller_machines", map[string]float64{
		"machine_controller_machines_total{controller=machine}{provider=" + infra.GetKind() + "}": 1})
	w.Delete(obj)
	w.reaches(obj, "Deleting")
	w.conditionIs(obj, contract.ConditionDeleting, contract.ReasonWaitingForInfrastructureDeletion)
	w.scraped(m, "machinist_machines", map[string]float64{"machinist_machines{controller=machine}{phase=Deleting}": 1})
	going := w.Get(infra)
	going.SetFinalizers(nil)
	require.NoError(t, w.client.Update(t.Context(), going))
	w.Gone(obj)
	w.scraped(m, "machinist_machines", map[string]float64{})
	w.scraped(m, "machine_controller_machines", map[string]float64{})
	w.scraped(m, "machine_controller_workers", map[string]float64{})
	w.scraped(m, "machine_controller_errors", map[string]float64{})
}

func TestConflictsAreNoErrors(t *testing.T) {
	m := machine.NewMetrics(machine.MetricsOptions{})
	w := newWorld(t, worldOptions{machine: machine.Options{Metrics: m}, before: func(w *world) {
		w.store.Inject(fake.Fault{Err: apierrors.NewConflict(schema.GroupResource{Resource: "machines"}, "m1", errors.New("it has changed")),
			Times: 3, Match: func(r fake.Request) bool {
				return r.UserAgent == userAgent && r.GVK.Kind == "Machine" && r.IsWrite()
			}})
	}})
	obj := w.machineWith("m1")
	w.reaches(obj, "Running")
	w.scraped(m, "machine_controller_errors", map[string]float64{})
}

func TestAReplicaThatDoesNotActReportsNoMachines(t *testing.T) {
	t.Parallel()
	kind := contract.Unstructured(fake.MachineGVK(), contract.LayoutsOf(contract.V1Beta2).Machine)
	store := fake.NewStore(fake.Options{Kinds: []fake.ServedKind{{GVK: kind.GVK, Status: true}}})
	w := worldIn(t, testenv.Over(t, store))
	w.Create(fake.Machine("m1"))
	m := machine.NewMetrics(machine.MetricsOptions{})
	mgr := w.manager(userAgent)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	_, err := machine.SetupWithManager(ctx, mgr, kind, machine.Options{Metrics: m})
	require.NoError(t, err)
	caches := make(chan error, 1)
	cacheCtx, stop := context.WithCancel(ctx)
	defer stop()
	go func() { caches <- mgr.GetCache().Start(cacheCtx) }()
	require.True(t, mgr.GetCache().WaitForCacheSync(ctx))
	require.Empty(t, machine.Scrape(t, m), "its caches are warm, but another one acts")
	stop()
	require.NoError(t, <-caches)
}

// Without a C compiler for the race detector this only shows that scrapes and passes do not wait for each other.
func TestMetricsAreScrapedWhileMachinesAreWorkedOn(t *testing.T) {
	const machines = 20
	m := machine.NewMetrics(machine.MetricsOptions{})
	w := newWorld(t, worldOptions{machine: machine.Options{Metrics: m, Options: pass.Options{StatusDelay: 20 * time.Millisecond}}})
	registry := prometheus.NewPedanticRegistry()
	require.NoError(t, registry.Register(m))
	ctx, cancel := context.WithCancel(t.Context())
	var scrapes sync.WaitGroup
	for range 2 {
		scrapes.Go(func() {
			wait.UntilWithContext(ctx, func(context.Context) { // not without a pause, or nothing else would get a processor
				if _, err := registry.Gather(); err != nil {
					t.Errorf("scrape: %v", err)
				}
			}, 20*time.Millisecond)
		})
	}
	var all []*unstructured.Unstructured
	for i := range machines {
		all = append(all, w.machineWith(fmt.Sprint("m", i)))
	}
	for _, obj := range all {
		w.reaches(obj, "Running")
		w.Delete(obj)
	}
	w.Gone(all...)
	cancel()
	scrapes.Wait()
}
