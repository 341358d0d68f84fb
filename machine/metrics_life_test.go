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
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/fake"
	"github.com/machinist-dev/machinist/fake/testenv"
	"github.com/machinist-dev/machinist/internal/engine"
	"github.com/machinist-dev/machinist/machine"
)

// scraped waits until the series whose names begin with a prefix are as wanted; those that are zero are left out.
func (w *world) scraped(m *machine.Metrics, prefix string, want map[string]float64) {
	w.t.Helper()
	w.eventually("metrics "+prefix, func() string {
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
	w.create(fake.CRD(fake.InfraMachineGVK(contract.V1Beta2), contract.V1Beta2))
	w.create(fake.CRD(fake.BootstrapConfigGVK(contract.V1Beta2), contract.V1Beta2))
}

// steppedClock is a clock that stands still until a test moves it. The passes of a Machine follow one another: when one has begun at the
// new time, none is left that would see what happens from then on and date it back.
type steppedClock struct {
	*clocktesting.FakePassiveClock
	w *world

	mu    sync.Mutex
	begun time.Time // the time of the last pass
}

// steps are the default ones, and one that writes down when a pass began.
func (c *steppedClock) steps(t *testing.T) []machine.Step {
	t.Helper()
	steps, err := engine.InsertBefore(machine.Steps(), machine.StepFinalizer, machine.Step{
		Name: "begun", On: engine.InBoth, Run: func(_ context.Context, s *machine.Scope) (machine.Result, error) {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.begun = s.Now
			return machine.Result{}, nil
		},
	})
	require.NoError(t, err)
	return steps
}

// pass moves the clock, and waits until the Machine has been looked at since.
func (c *steppedClock) pass(m *unstructured.Unstructured, seconds int) {
	c.w.t.Helper()
	now := c.Now().Add(time.Duration(seconds) * time.Second)
	c.SetTime(now)
	c.w.annotate(m, map[string]any{"example.com/wake": now.String()})
	c.w.eventually("a pass at "+now.String(), func() string {
		c.mu.Lock()
		defer c.mu.Unlock()
		return cmp.Diff(now, c.begun)
	})
}

func TestALifeYieldsTheTimesOfItsPhases(t *testing.T) {
	t.Parallel()
	clock := &steppedClock{FakePassiveClock: clocktesting.NewFakePassiveClock(time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC))}
	m := machine.NewMetrics(machine.MetricsOptions{})
	w := newWorld(t, worldOptions{noCRDs: true, before: providersByHand, machine: machine.Options{
		Metrics: m, Clock: clock, StatusDelay: -1, Steps: clock.steps(t)}})
	clock.w = w
	infra := fake.InfraMachine(contract.V1Beta2, "m1")
	infra.SetFinalizers([]string{hold})
	obj := fake.Machine("m1")
	w.create(fake.BootstrapConfig(contract.V1Beta2, "m1"), infra, obj)

	w.reaches(obj, "Pending")
	w.scraped(m, "machinist_machines", map[string]float64{"machinist_machines{controller=machine}{phase=Pending}": 1})
	w.scraped(m, "machine_controller_machines", map[string]float64{
		"machine_controller_machines_total{controller=machine}{provider=" + infra.GetKind() + "}": 1})
	clock.pass(obj, 10)
	w.change(fake.BootstrapConfig(contract.V1Beta2, "m1"), func(u *unstructured.Unstructured) {
		layout := contract.BootstrapConfig(contract.V1Beta2)
		require.NoError(t, contract.Set(layout.DataSecretName, u.Object, "m1"))
		require.NoError(t, contract.Set(layout.DataSecretCreated, u.Object, true))
	})
	w.reaches(obj, "Provisioning")
	clock.pass(obj, 60)
	id := fake.ProviderID(w.get(infra))
	w.change(infra, func(u *unstructured.Unstructured) {
		layout := contract.InfraMachine(contract.V1Beta2)
		require.NoError(t, contract.Set(layout.ProviderID, u.Object, id))
		require.NoError(t, contract.Set(layout.Provisioned, u.Object, true))
	})
	w.reaches(obj, "Provisioned")
	clock.pass(obj, 30)
	w.create(fake.Node("m1", id))
	w.reaches(obj, "Running")
	clock.pass(obj, 3600)
	require.NoError(t, w.client.Delete(t.Context(), obj))
	w.reaches(obj, "Deleting")
	w.conditionIs(obj, contract.ConditionDeleting, contract.ReasonWaitingForInfrastructureDeletion)
	w.scraped(m, "machinist_machines", map[string]float64{"machinist_machines{controller=machine}{phase=Deleting}": 1})
	clock.pass(obj, 20)
	going := w.get(infra)
	going.SetFinalizers(nil)
	require.NoError(t, w.client.Update(t.Context(), going))
	w.goes(obj)

	want := map[string]float64{}
	for phase, seconds := range map[string]float64{"Pending": 10, "Provisioning": 60, "Provisioned": 30, "Running": 3600, "Deleting": 20} {
		want["machinist_machine_phase_duration_seconds{controller=machine}{phase="+phase+"}"] = 1
		want["machinist_machine_phase_duration_seconds_sum{controller=machine}{phase="+phase+"}"] = seconds
	}
	w.scraped(m, "machinist_machine_phase", want)
	w.scraped(m, "machinist_machines", map[string]float64{})
	w.scraped(m, "machine_controller_machines", map[string]float64{})
	w.scraped(m, "machine_controller_workers", map[string]float64{})
	w.scraped(m, "machine_controller_errors", map[string]float64{})
}

func TestConflictsAreCounted(t *testing.T) {
	t.Parallel()
	m := machine.NewMetrics(machine.MetricsOptions{})
	w := newWorld(t, worldOptions{machine: machine.Options{Metrics: m}, before: func(w *world) {
		w.store.Inject(fake.Fault{Err: apierrors.NewConflict(schema.GroupResource{Resource: "machines"}, "m1", errors.New("it has changed")),
			Times: 3, Match: func(r fake.Request) bool {
				return r.UserAgent == userAgent && r.GVK.Kind == "Machine" && r.IsWrite()
			}})
	}})
	obj := w.machineWith("m1")
	w.reaches(obj, "Running")
	w.scraped(m, "machinist_machine_conflicts",
		map[string]float64{"machinist_machine_conflicts_total{controller=machine}{operation=write}": 3})
	w.scraped(m, "machine_controller_errors", map[string]float64{})
	got := machine.Scrape(t, m)
	require.InDelta(t, 3, got["machinist_machine_pass_duration_seconds{controller=machine}{result=conflict}"], 0)
}

func TestAReplicaThatDoesNotActReportsNoMachines(t *testing.T) {
	t.Parallel()
	kind := contract.Unstructured(fake.MachineGVK(), contract.MachineV1Beta2())
	store := fake.NewStore(fake.Options{Kinds: []fake.ServedKind{{GVK: kind.GVK, Status: true}}})
	w := worldIn(t, testenv.Over(t, store))
	w.create(fake.Machine("m1"))
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
	t.Parallel()
	const machines = 20
	m := machine.NewMetrics(machine.MetricsOptions{})
	w := newWorld(t, worldOptions{machine: machine.Options{Metrics: m, StatusDelay: 20 * time.Millisecond}})
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
		require.NoError(t, w.client.Delete(t.Context(), obj))
	}
	w.goes(all...)
	cancel()
	scrapes.Wait()
	w.eventually("every Machine to have been Running and Deleting once", func() string {
		got := machine.Scrape(t, m)
		for _, phase := range []string{"Running", "Deleting"} {
			if n := got["machinist_machine_phase_duration_seconds{controller=machine}{phase="+phase+"}"]; n != machines {
				return fmt.Sprintf("%v were %s", n, phase)
			}
		}
		return ""
	})
}

// TestNoTimeIsCountedTwiceHoweverOftenTheProcessDies kills the process right before and right after each write of a Machine's whole
// life. Both processes tell the same Metrics, as if their counters were added up.
func TestNoTimeIsCountedTwiceHoweverOftenTheProcessDies(t *testing.T) {
	t.Parallel()
	phases := []string{"Pending", "Provisioning", "Provisioned", "Running", "Deleting"}
	times := func(m *machine.Metrics) map[string]float64 {
		counts, got := map[string]float64{}, machine.Scrape(t, m)
		for _, phase := range phases {
			counts[phase] = got["machinist_machine_phase_duration_seconds{controller=machine}{phase="+phase+"}"]
		}
		return counts
	}
	life := func(t *testing.T, kill int, applied bool) (*machine.Metrics, int) {
		m := newMortal(t, "m1")
		metrics := machine.NewMetrics(machine.MetricsOptions{})
		m.options.machine.Metrics = metrics
		p := m.start("first")
		p.dieAt(kill, applied)
		m.create()
		until := func(end func() string) {
			m.eventually("an end", func() string {
				select {
				case <-p.dead:
					p.stop()
					p = m.start("second")
				default:
				}
				return end()
			})
		}
		until(m.settled)
		require.NoError(t, m.client.Delete(t.Context(), m.machine))
		until(m.isGone)
		m.leavesNothing()
		if kill == 0 { // a process that is stopped before it has heard that its Machine is gone does not count it
			m.eventually("the end to be counted", func() string { return diffOf("1", fmt.Sprint(times(metrics)["Deleting"])) })
		}
		m.eventually("the last pass to end", m.atRest)
		p.stop() // no pass is under way
		return metrics, p.writes()
	}
	undisturbed, writes := life(t, 0, false)
	for phase, n := range times(undisturbed) {
		require.LessOrEqual(t, n, 1.0, phase)
	}
	require.InDelta(t, 1, times(undisturbed)["Running"], 0)
	require.InDelta(t, 1, times(undisturbed)["Deleting"], 0)
	require.Greater(t, writes, 5, "too few writes to be true: are they counted?")
	places := make(chan struct{}, killedAtATime)
	var runs sync.WaitGroup
	for _, applied := range []bool{false, true} {
		for k := 1; k <= writes; k++ {
			runs.Go(func() {
				places <- struct{}{}
				defer func() { <-places }()
				t.Run(fmt.Sprintf("applied %v write %d", applied, k), func(t *testing.T) {
					metrics, _ := life(t, k, applied)
					for phase, n := range times(metrics) {
						if n > 1 {
							t.Errorf("%s was counted %v times", phase, n)
						}
					}
				})
			})
		}
	}
	runs.Wait()
}
