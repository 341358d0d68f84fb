package machine

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/contract/pass"
)

func testKind() contract.Kind {
	return contract.Unstructured(schema.GroupVersionKind{Group: "cluster.x-k8s.io", Version: "v1beta2", Kind: "Machine"},
		contract.MachineV1Beta2())
}

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

func observerOf(m *Metrics, steps ...Step) *observer {
	return newObserver(Options{Metrics: m, Steps: steps, Clock: clocktesting.NewFakePassiveClock(noon)}.withDefaults(testKind()))
}

func TestStepsAreCountedByHowTheyEnd(t *testing.T) {
	now := clocktesting.NewFakePassiveClock(noon)
	conflict := apierrors.NewConflict(schema.GroupResource{Resource: "machines"}, "m1", errors.New("it has changed"))
	step := func(name string, result Result, err error) Step {
		return Step{Name: name, On: pass.InBoth, Closing: true, Run: func(context.Context, *Scope) (Result, error) {
			now.SetTime(now.Now().Add(20 * time.Millisecond))
			return result, err
		}}
	}
	steps := []Step{
		step("quiet", Result{RequeueAfter: time.Second}, nil), step("stops", Result{Stop: true}, nil),
		step("asks", Result{Stop: true, Checkpoint: true}, nil), step("late", Result{Stop: true}, fmt.Errorf("write: %w", conflict)),
		step("broken", Result{}, errors.New("boom")),
	}
	m := NewMetrics(MetricsOptions{})
	o := newObserver(Options{Metrics: m, Steps: steps, Clock: now}.withDefaults(testKind()))
	s := attached(&Scope{Scope: base{Now: now.Now(), Object: testKind().New()}, observer: o})
	s.SetLabel("changed", "") // what there is a checkpoint for
	_, err := run(t.Context(), steps, s)
	require.Error(t, err)
	o.passed(s, 0, errors.New("boom"))
	o.passed(s, time.Second, nil)
	o.passed(s, 0, nil)
	o.passed(s, 0, conflict)
	o.wrote(&Scope{env: &Reconciler{}}, conflict)
	o.wrote(&Scope{env: &Reconciler{}}, errors.New("no connection"))
	o.unread()
	got := Scrape(t, m)
	want := map[string]float64{"machine_controller_errors_total{controller=machine}{operation=broken}": 1,
		"machine_controller_errors_total{controller=machine}{operation=write}":   1,
		"machine_controller_errors_total{controller=machine}{operation=read}":    1,
		"machinist_machine_conflicts_total{controller=machine}{operation=late}":  1,
		"machinist_machine_conflicts_total{controller=machine}{operation=write}": 1,
	}
	for name, result := range map[string]string{
		"quiet": "done", "stops": "stopped", "asks": "checkpoint", "late": "conflict", "broken": "failed",
	} {
		want["machinist_machine_step_results_total{controller=machine}{result="+result+"}{step="+name+"}"] = 1
		want["machinist_machine_step_duration_seconds{controller=machine}{step="+name+"}"] = 1
		want["machinist_machine_step_duration_seconds_sum{controller=machine}{step="+name+"}"] = .02
	}
	for _, result := range []string{"done", "requeued", "conflict", "failed"} {
		want["machinist_machine_pass_duration_seconds{controller=machine}{result="+result+"}"] = 1
		want["machinist_machine_pass_duration_seconds_sum{controller=machine}{result="+result+"}"] = .1
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestTimeInPhasesIsCountedWhenItIsStoredAndOnce(t *testing.T) {
	at := func(seconds int) time.Time { return noon.Add(time.Duration(seconds) * time.Second) }
	// pass is one pass: what is read, what is decided, and whether that is stored or ends the Machine.
	type pass struct {
		at           int
		read, decide string
		since        int // when the object says that its phase changed; -1 when it does not
		stores, ends bool
		restart      bool // the process is a new one
		uid          types.UID
	}
	for name, tc := range map[string]struct {
		passes []pass
		want   string
	}{
		"every phase is stored": {[]pass{
			{at: 0, read: "", since: -1, decide: "Pending", stores: true}, {at: 5, read: "Pending", since: 0, decide: "Pending"},
			{at: 9, read: "Pending", since: 0, decide: "Running", stores: true}, {at: 20, read: "Running", since: 9, decide: "Deleting", ends: true},
		}, "Pending 9s, Running 11s, Deleting 0s"},
		"phases that were never stored alone count too": {[]pass{
			{at: 0, read: "", since: -1, decide: "Pending"}, {at: 1, read: "", since: -1, decide: "Provisioning"},
			{at: 3, read: "", since: -1, decide: "Running", stores: true}, {at: 7, read: "Running", since: 3, decide: "Deleting"},
			{at: 9, read: "Running", since: 3, decide: "Deleting", ends: true},
		}, "Pending 1s, Provisioning 2s, Running 4s, Deleting 2s"},
		"a new process goes by what is stored": {[]pass{
			{at: 0, read: "", since: -1, decide: "Pending", stores: true},
			{at: 9, read: "Pending", since: 0, decide: "Provisioning", stores: true, restart: true},
		}, "Pending 9s"},
		"what was not stored dies with the process, and nothing is counted twice": {[]pass{
			{at: 0, read: "", since: -1, decide: "Pending", stores: true}, {at: 5, read: "Pending", since: 0, decide: "Provisioning"},
			{at: 9, read: "Pending", since: 0, decide: "Provisioned", stores: true, restart: true},
		}, "Pending 9s"},
		"a begin that nobody knows makes no time": {[]pass{
			{at: 0, read: "Pending", since: -1, decide: "Pending"}, {at: 9, read: "Pending", since: -1, decide: "Running", stores: true},
			{at: 10, read: "Running", since: -1, decide: "Failed", stores: true},
		}, "Running 1s"},
		"a write that failed is no news": {[]pass{
			{at: 0, read: "Pending", since: 0, decide: "Running"}, {at: 1, read: "Pending", since: 0, decide: "Running"},
			{at: 2, read: "Pending", since: 0, decide: "Running", stores: true}, {at: 3, read: "Running", since: 2, decide: "Running", stores: true},
		}, "Pending 0s"},
		"a detour that nobody was told of is none": {[]pass{
			{at: 0, read: "Running", since: 0, decide: "Updating"}, {at: 1, read: "Running", since: 0, decide: "Running", stores: true},
			{at: 2, read: "Running", since: 0, decide: "Updating"}, {at: 3, read: "Running", since: 0, decide: "Failed"},
			{at: 5, read: "Running", since: 0, decide: "Updating", stores: true},
			{at: 9, read: "Updating", since: 5, decide: "Running", stores: true},
		}, "Running 2s, Updating 7s"},
		"another process wrote": {[]pass{
			{at: 0, read: "Running", since: 0, decide: "Running"}, {at: 9, read: "Running", since: 8, decide: "Failed", stores: true},
			{at: 10, read: "Running", since: 10, decide: "Failed", stores: true},
		}, "Running 1s, Running 0s"},
		"another Machine of the same name": {[]pass{
			{at: 0, read: "Running", since: 0, decide: "Running"}, {at: 9, read: "", since: -1, decide: "Pending", stores: true, uid: "2"},
			{at: 10, read: "Pending", since: 9, decide: "Running", stores: true, uid: "2"},
		}, "Pending 1s"},
		"clocks that differ": {[]pass{{at: 0, read: "Running", since: 5, decide: "Failed", stores: true}}, "Running 0s"},
		"a shape without a place for the phase": {[]pass{
			{at: 0, read: "", since: -1, decide: "Running", stores: true}, {at: 5, read: "", since: -1, decide: "Running", stores: true},
			{at: 9, read: "", since: -1, decide: "Failed", stores: true},
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			var track phaseTrack
			var got []string
			for _, p := range tc.passes {
				if p.restart {
					track = phaseTrack{}
				}
				read := phaseAt{phase: p.read}
				if p.since >= 0 {
					read.at = at(p.since)
				}
				track = track.decided(p.uid, read, p.decide, at(p.at))
				var left []phaseTime
				if p.ends {
					left = track.left(at(p.at))
				} else if p.stores {
					track, left = track.told(at(p.at))
				}
				for _, l := range left {
					if l.took >= 0 {
						got = append(got, l.phase+" "+l.took.String())
					}
				}
			}
			if diff := cmp.Diff(tc.want, strings.Join(got, ", ")); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestAWayThroughPhasesIsBounded(t *testing.T) {
	var track phaseTrack
	for i := range 1000 {
		track = track.decided("1", phaseAt{"Pending", noon}, fmt.Sprint("Phase", i), noon)
	}
	require.Len(t, track.path, maxPath)
}

func TestLabelsThatObjectsFillAreBounded(t *testing.T) {
	var values labelValues
	long := strings.Repeat("x", maxLabelLength+1)
	for value, want := range map[string]string{"": "none", "Running": "Running", long: "other", "\xff": "other"} {
		require.Equal(t, want, values.admit(value))
	}
	counts := map[string]int{"Running": 2, "": 3, long: 1, "\xff": 1}
	for i := range 100 {
		counts[fmt.Sprintf("Phase%03d", i)] = 1
	}
	sums := values.sum(counts)
	total := 0
	for _, n := range sums {
		total += n
	}
	require.Equal(t, 107, total, "nothing is lost")
	require.Len(t, sums, maxLabelValues+1)
	require.Equal(t, 2, sums["Running"])
	require.Equal(t, 1, sums["Phase000"], "those that find room are the first by name")
	require.Equal(t, 102-maxLabelValues+2, sums["other"])
	require.Equal(t, 0, values.sum(nil)["Running"], "what was seen once stays, at zero")
}

func TestTheProviderIsTheInfrastructureOrTheSchemeOfTheProviderID(t *testing.T) {
	infrastructure := contract.MachineState{
		MachineSpec: contract.MachineSpec{Infrastructure: contract.Ref{Kind: "AWSMachine", Name: "m1"}, ProviderID: "aws:///eu-1/i-1"}}
	require.Equal(t, "AWSMachine", providerOf(&infrastructure))
	class := contract.MachineState{
		MachineSpec: contract.MachineSpec{Provider: contract.ProviderSpec{Class: contract.Ref{Kind: "MachineClass", Name: "c1"}},
			ProviderID: "aws:///eu-1/i-1"}}
	require.Equal(t, "aws", providerOf(&class))
	oracle := contract.MachineState{MachineSpec: contract.MachineSpec{ProviderID: "ocid1.instance.oc1.phx.abc"}}
	require.Empty(t, providerOf(&oracle), "it would name an object")
}

func TestWithoutMetricsObservingCostsNothing(t *testing.T) {
	s, ctx, r := &Scope{}, t.Context(), &Reconciler{}
	require.Zero(t, testing.AllocsPerRun(100, func() { observe(ctx, nil, s, r) }))
}

func TestASteadyPassIsObservedWithoutAllocations(t *testing.T) {
	o := observerOf(NewMetrics(MetricsOptions{}), Steps()...)
	s, ctx, r := &Scope{env: &Reconciler{}, observer: o, before: phaseAt{"Running", noon}}, t.Context(), &Reconciler{}
	s.State.Phase = "Running"
	require.Zero(t, testing.AllocsPerRun(100, func() { observe(ctx, o, s, r) }))
}

// observe is what happens in one pass.
func observe(ctx context.Context, o *observer, s *Scope, r *Reconciler) {
	o.begin(ctx, r)
	for _, step := range []string{StepBootstrap, StepInfrastructure, StepNode, StepPropagate, StepConditions, StepPhase} {
		o.ran(step, o.now(), Result{}, nil)
	}
	o.wrote(s, nil)
	o.passed(s, 0, nil)
	o.end()
}

func BenchmarkObserve(b *testing.B) {
	for name, o := range map[string]*observer{"nil": nil, "metrics": observerOf(NewMetrics(MetricsOptions{}), Steps()...)} {
		b.Run(name, func(b *testing.B) {
			s, ctx, r := &Scope{env: &Reconciler{}, observer: o, before: phaseAt{"Running", noon}}, b.Context(), &Reconciler{}
			s.State.Phase = "Running"
			b.ReportAllocs()
			for b.Loop() {
				observe(ctx, o, s, r)
			}
		})
	}
}
