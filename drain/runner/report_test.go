package runner

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientevents "k8s.io/client-go/tools/events"

	"github.com/machinist-dev/machinist/drain"
)

var _ Events = clientevents.EventRecorder(nil)

// memoryEvents records events as "type reason object: note".
type memoryEvents struct {
	mu   sync.Mutex
	list []string
}

func (e *memoryEvents) Eventf(regarding, _ runtime.Object, kind, reason, action, note string, args ...any) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.list = append(e.list, fmt.Sprintf("%s %s %s %s: %s", kind, reason, action, regarding.(*corev1.Node).Name, fmt.Sprintf(note, args...)))
}

func (e *memoryEvents) take() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	list := e.list
	e.list = nil
	return list
}

func TestResult_ConditionIsStableAndBounded(t *testing.T) {
	long := strings.Repeat("* Pods a, b, c: eviction requested\n", 500)
	cases := map[string]struct {
		result Result
		want   metav1.Condition
	}{
		"on its way": {Result{Message: "* Pod a: eviction requested", RequeueAfter: 3},
			metav1.Condition{Status: metav1.ConditionFalse, Reason: ConditionDraining, Message: "* Pod a: eviction requested"}},
		"blocked": {Result{Message: "m", Blockers: []drain.Blocker{{Since: time.Now()}}},
			metav1.Condition{Status: metav1.ConditionFalse, Reason: ConditionDrainBlocked, Message: "m"}},
		"done": {Result{Done: true, Message: "stray"}, metav1.Condition{Status: metav1.ConditionTrue, Reason: ConditionDrained}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			tc.want.Type = "Drained"
			if diff := cmp.Diff(tc.want, tc.result.Condition("Drained")); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
	got := Result{Message: long}.Condition("Drained").Message
	if len(got) > 4096 || len(got) < 4000 || !strings.HasSuffix(got, "eviction requested\n...") {
		t.Errorf("want it cut after a line, got %d bytes ending in %q", len(got), got[len(got)-40:])
	}
	got = (Result{Message: strings.Repeat("ä", 4000)}).Condition("Drained").Message
	if len(got) > 4096 || !strings.HasSuffix(got, "ä\n...") {
		t.Errorf("want it cut between characters, got %q", got[len(got)-10:])
	}
}

func TestVolumesResult_ConditionTellsDetachedFromLeft(t *testing.T) {
	cases := map[string]struct {
		result VolumesResult
		want   metav1.Condition
	}{
		"waiting": {VolumesResult{Message: "m"},
			metav1.Condition{Status: metav1.ConditionFalse, Reason: ConditionVolumesAttached, Message: "m"}},
		"detached": {VolumesResult{Done: true}, metav1.Condition{Status: metav1.ConditionTrue, Reason: ConditionVolumesDetached}},
		"left": {VolumesResult{Done: true, Stopped: drain.VolumesTimedOut, Message: "m"},
			metav1.Condition{Status: metav1.ConditionTrue, Reason: ConditionVolumesLeft, Message: "m"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			tc.want.Type = "Detached"
			if diff := cmp.Diff(tc.want, tc.result.Condition("Detached")); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestEvents_OnlyWhenSomethingIsNew(t *testing.T) {
	events := &memoryEvents{}
	g := newRig(t, func(c *Config) { c.Events = events })
	stuck := true
	rule := func(*corev1.Pod, drain.Verdict) (drain.Verdict, error) {
		if stuck {
			return drain.Verdict{Action: drain.Deny, Reason: "Mine", Message: "its owner says no"}, nil
		}
		return drain.Verdict{Action: drain.Wait, Reason: "Completing"}, nil
	}
	step := func(node *corev1.Node, lines ...string) {
		t.Helper()
		_, err := g.runner.Step(t.Context(), Request{Node: node, Rules: []drain.Rule{rule}})
		require.NoError(t, err)
		if diff := cmp.Diff(lines, events.take()); diff != "" {
			t.Fatalf("(-want +got):\n%s", diff)
		}
	}
	const (
		started = "Normal DrainStarted Drain n: Draining the Node: 1 of 1 Pods have to go"
		blocked = "Warning DrainBlocked Drain n: default/a: its owner says no"
		drained = "Normal Drained Drain n: Every Pod that had to go has left the Node"
	)
	g.pods.put(pod("n", "a"))
	step(cordoned("n"), started, blocked)
	step(cordoned("n"))
	stuck = false
	step(cordoned("n"))
	g.clock.Step(9 * time.Minute)
	stuck = true
	step(cordoned("n")) // the trouble is back, but was told of a short while ago
	stuck = false
	step(cordoned("n"))
	g.clock.Step(time.Minute)
	stuck = true
	step(cordoned("n"), blocked)
	g.clock.Step(time.Hour)
	step(cordoned("n")) // it never went
	g.pods.remove("n", "uid-a")
	step(cordoned("n"), drained)
	step(cordoned("n"))
	step(schedulable("n", "300")) // it was uncordoned for a moment
	step(cordoned("n"))
	stuck = false
	g.pods.put(pod("n", "late"))
	step(cordoned("n"), started)
}

func TestStep_AnErrorThatHasOtherWordsEachTimeIsOneTroubleSinceItBegan(t *testing.T) {
	for name, answer := range map[string]func(try int) error{
		"a local port": func(try int) error {
			return fmt.Errorf("read tcp 10.0.0.1:%d->10.0.0.2:6443: connection reset by peer", 41000+try)
		},
		"the number of a request": func(try int) error {
			return apierrors.NewInternalError(fmt.Errorf("request %d failed", try))
		},
	} {
		t.Run(name, func(t *testing.T) {
			events := &memoryEvents{}
			g := newRig(t, func(c *Config) { c.Events = events })
			g.evictor.answerWith(func(context.Context, PodRef) error { return answer(len(g.evictor.names())) })
			g.pods.put(pod("n", "a"))
			g.start()
			defer g.stop()
			began := g.clock.Now()
			messages := map[string]bool{}
			g.step("n")
			for try := 1; try <= 4; try++ {
				g.settled(try)
				got := g.step("n")
				require.Len(t, got.Blockers, 1)
				require.Equal(t, began, got.Blockers[0].Since)
				messages[got.Message] = true
				g.clock.Step(time.Minute)
				again := g.step("n") // it is asked for again, and as blocked as before
				require.Equal(t, got.Message, again.Message)
				require.Equal(t, got.Blockers, again.Blockers)
			}
			if name == "a local port" {
				require.Len(t, messages, 1, "each one would be a write")
			}
			require.Len(t, events.take(), 2, "one of the start, one of the trouble")
		})
	}
}

func TestEvents_ManyTroublesAreAFewEvents(t *testing.T) {
	events := &memoryEvents{}
	g := newRig(t, func(c *Config) { c.Events = events })
	deny := func(p *corev1.Pod, _ drain.Verdict) (drain.Verdict, error) {
		return drain.Verdict{Action: drain.Deny, Reason: "Mine", Message: p.Name + strings.Repeat("x", 2000)}, nil
	}
	for i := range 30 {
		g.pods.put(pod("n", fmt.Sprintf("p%02d", i)))
	}
	for range 3 {
		_, err := g.runner.Step(t.Context(), Request{Node: cordoned("n"), Rules: []drain.Rule{deny}})
		require.NoError(t, err)
	}
	got := events.take()
	if len(got) != 1+eventsPerNode {
		t.Fatalf("want a start and %d troubles, got %d", eventsPerNode, len(got))
	}
	for _, line := range got {
		if _, note, _ := strings.Cut(line, "n: "); len(note) > 1024 {
			t.Errorf("want a note that the API takes, got %d bytes", len(note))
		}
	}
}

// scrape returns the value, or the count, of every series.
func scrape(t *testing.T, m *Metrics) map[string]float64 {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	require.NoError(t, registry.Register(m))
	families, err := registry.Gather()
	require.NoError(t, err)
	out := map[string]float64{}
	for _, f := range families {
		for _, series := range f.GetMetric() {
			name := f.GetName()
			for _, label := range series.GetLabel() {
				name += "{" + label.GetName() + "=" + label.GetValue() + "}"
			}
			out[name] = series.GetCounter().GetValue() + series.GetGauge().GetValue() + float64(series.GetHistogram().GetSampleCount())
		}
	}
	return out
}

func TestMetrics_CountWithoutNamesOfObjects(t *testing.T) {
	m := NewMetrics()
	g := newRig(t, func(c *Config) { c.Metrics, c.Workers = m, 1 })
	g.pods.put(pod("n", "a"), pod("n", "b"), pod("n", "c"))
	hold := make(chan struct{})
	g.evictor.answerWith(func(_ context.Context, ref PodRef) error {
		<-hold
		if ref.Name == "a" {
			return apierrors.NewInternalError(errors.New("failed calling webhook"))
		}
		return nil
	})
	g.start()
	g.step("n")
	g.eventually("one request hangs", func() bool { return len(g.evictor.names()) == 1 })
	want := map[string]float64{"machinist_drain_inflight": 1, "machinist_drain_queue_depth": 2}
	if diff := cmp.Diff(want, scrape(t, m)); diff != "" {
		t.Fatalf("(-want +got):\n%s", diff)
	}
	close(hold)
	g.settled(3)
	own := func(*corev1.Pod, drain.Verdict) (drain.Verdict, error) {
		return drain.Verdict{Action: drain.Deny, Reason: "OfARule"}, nil
	}
	g.pods.put(pod("m", "d"))
	_, err := g.runner.Step(t.Context(), Request{Node: cordoned("m"), Rules: []drain.Rule{own}})
	require.NoError(t, err)
	g.step("n")
	want = map[string]float64{
		"machinist_drain_inflight": 0, "machinist_drain_queue_depth": 0,
		"machinist_drain_evictions_total{class=Accepted}": 2, "machinist_drain_evictions_total{class=ServerError}": 1,
		"machinist_drain_blocked_pods{reason=Other}": 1, "machinist_drain_blocked_pods{reason=ServerError}": 1,
	}
	if diff := cmp.Diff(want, scrape(t, m)); diff != "" {
		t.Fatalf("(-want +got):\n%s", diff)
	}
	for _, name := range []string{"a", "b", "c"} {
		g.pods.remove("n", pod("n", name).UID)
	}
	g.step("n")
	g.step("n")
	g.runner.Release("n")
	g.runner.Release("m")
	g.stop()
	want = map[string]float64{
		"machinist_drain_inflight": 0, "machinist_drain_queue_depth": 0,
		"machinist_drain_evictions_total{class=Accepted}": 2, "machinist_drain_evictions_total{class=ServerError}": 1,
		"machinist_drain_duration_seconds{result=drained}": 1, "machinist_drain_duration_seconds{result=released}": 1,
	}
	if diff := cmp.Diff(want, scrape(t, m)); diff != "" {
		t.Fatalf("(-want +got):\n%s", diff)
	}
	require.Empty(t, m.runners, "a Runner that has ended is forgotten")
}

func TestMetrics_SeveralRunnersAddUp(t *testing.T) {
	m := NewMetrics()
	for range 2 {
		g := newRig(t, func(c *Config) { c.Metrics = m })
		g.budgets.set(0, 10)
		g.pods.put(pod("n", "a"), pod("n", "b"))
		g.start()
		t.Cleanup(func() { g.stop() })
		g.step("n")
		g.step("n")
	}
	if got := scrape(t, m)["machinist_drain_blocked_pods{reason=BudgetExhausted}"]; got != 4 {
		t.Errorf("want 4 pods over both, got %v", got)
	}
}

func TestMetrics_EveryReasonThatBlocksIsKnown(t *testing.T) {
	reasons := map[drain.Reason]bool{drain.ReasonUnsupported: true, drain.ReasonRuleFailed: true, drain.ReasonNoVerdict: true,
		drain.ReasonBudgetNeverAllows: true, drain.ReasonRespawned: true}
	for class := drain.UnknownOutcome; class <= drain.AdmissionDenied; class++ {
		if reason := drain.HoldFor(drain.Outcome{Class: class}).Reason; reason != drain.ReasonEvictionAccepted {
			reasons[reason] = true
		}
	}
	got := map[drain.Reason]bool{}
	for _, reason := range knownReasons() {
		got[reason] = true
	}
	want, have := slices.Sorted(maps.Keys(reasons)), slices.Sorted(maps.Keys(got))
	if diff := cmp.Diff(want, have); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
