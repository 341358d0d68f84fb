package runner

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/machinist-dev/machinist/drain"
)

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
			g := newRig(t, nil)
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
		})
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
			out[name] = series.GetCounter().GetValue() + series.GetGauge().GetValue()
		}
	}
	return out
}

func TestMetrics_CountWithoutNamesOfObjects(t *testing.T) {
	m := NewMetrics()
	g := newRig(t, func(c *Config) { c.Metrics = m })
	g.runner.SetWorkers(1)
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
	close(hold)
	g.settled(3)
	own := func(*corev1.Pod, drain.Verdict) (drain.Verdict, error) {
		return drain.Verdict{Action: drain.Deny, Reason: "OfARule"}, nil
	}
	g.pods.put(pod("m", "d"))
	_, err := g.runner.Step(t.Context(), Request{Node: cordoned("m"), Rules: []drain.Rule{own}})
	require.NoError(t, err)
	g.step("n")
	want := map[string]float64{
		"machinist_drain_evictions_total{class=EvictionAccepted}": 2, "machinist_drain_evictions_total{class=ServerError}": 1,
	}
	if diff := cmp.Diff(want, scrape(t, m)); diff != "" {
		t.Fatalf("(-want +got):\n%s", diff)
	}
	g.stop()
}
