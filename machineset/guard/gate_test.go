package guard_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/machinist-dev/machinist/fake"
	"github.com/machinist-dev/machinist/internal/engine"
	"github.com/machinist-dev/machinist/machine/healthcheck"
	"github.com/machinist-dev/machinist/machineset/guard"
	"github.com/machinist-dev/machinist/noderef/cluster"
)

// servers are API servers that are up or down.
type servers struct {
	mu     sync.Mutex
	down   map[string]bool
	probes int
}

func (s *servers) set(name string, down bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.down[name] = down
}

func (s *servers) ask(name string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.probes++
	if s.down[name] {
		return errors.New("connection refused")
	}
	return nil
}

var demo = types.NamespacedName{Namespace: "default", Name: "demo"}

func newGate(t *testing.T, change func(*guard.GateOptions)) (*guard.Gate, *servers, *clocktesting.FakeClock) {
	t.Helper()
	clock := clocktesting.NewFakeClock(noon)
	s := &servers{down: map[string]bool{}}
	options := guard.GateOptions{
		Management: func(context.Context) error { return s.ask("") },
		Workload:   func(_ context.Context, cluster types.NamespacedName) error { return s.ask(cluster.Name) },
		Clock:      clock,
	}
	if change != nil {
		change(&options)
	}
	gate, err := guard.NewGate(options)
	require.NoError(t, err)
	return gate, s, clock
}

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// scope is what a step sees of an object.
type scope struct {
	cluster types.NamespacedName
	held    []string
	paused  bool
}

func (s *scope) ClusterKey() types.NamespacedName { return s.cluster }
func (s *scope) Hold(reason, message string)      { s.held = append(s.held, reason+": "+message) }
func (s *scope) Pause(metav1.ConditionStatus, string, string) engine.Result {
	s.paused = true
	return engine.Result{Stop: true}
}

// held runs both steps, and returns what they say.
func held(t *testing.T, gate *guard.Gate) string {
	t.Helper()
	s := &scope{cluster: demo}
	hold, freeze := guard.HoldStep[*scope](gate), guard.FreezeStep[*scope](gate)
	result, err := hold.Run(t.Context(), s)
	require.NoError(t, err)
	frozen, err := freeze.Run(t.Context(), s)
	require.NoError(t, err)
	require.Equal(t, s.paused, frozen.Stop)
	require.Equal(t, len(s.held) > 0, s.paused)
	require.Equal(t, s.paused, result.RequeueAfter > 0 && frozen.RequeueAfter > 0, "it looks again by itself")
	if len(s.held) == 0 {
		return ""
	}
	return s.held[0]
}

func TestASetWhoseWorkloadClusterIsDownCreatesNothingUntilItIsBack(t *testing.T) {
	t.Parallel()
	metrics := guard.NewMetrics()
	gate, s, clock := newGate(t, func(o *guard.GateOptions) { o.Metrics = metrics })
	require.Equal(t, "APIServerUnreachable: the API server of the Machines has not been probed yet", held(t, gate))
	gate.Probe(t.Context())
	require.Empty(t, held(t, gate))
	s.set("demo", true)
	clock.SetTime(noon.Add(time.Minute))
	gate.Probe(t.Context())
	require.Empty(t, held(t, gate), "not for the tolerance yet")
	before := s.probes
	clock.SetTime(noon.Add(65 * time.Second))
	gate.Probe(t.Context())
	require.Equal(t, before, s.probes)
	clock.SetTime(noon.Add(66 * time.Second))
	gate.Probe(t.Context())
	require.Equal(t, before+1, s.probes, "a server that does not answer is asked more often")
	for at := time.Minute; at <= 90*time.Second; at += 6 * time.Second {
		clock.SetTime(noon.Add(at))
		gate.Probe(t.Context())
	}
	require.Equal(t, "APIServerUnreachable: the API server of cluster default/demo has not answered since 2026-03-01T12:01:00Z: "+
		"connection refused", held(t, gate))
	require.InDelta(t, 1, gathered(t, metrics)["machinist_safety_frozen_servers"], 0)
	require.False(t, gate.Of(types.NamespacedName{}).Silent, "other objects go on")
	s.set("demo", false)
	clock.SetTime(noon.Add(time.Hour))
	gate.Probe(t.Context())
	require.Empty(t, held(t, gate))
	require.Equal(t, noon.Add(time.Hour), gate.Of(demo).AnsweredAt, "the timers of health checks begin anew")
	require.InDelta(t, 0, gathered(t, metrics)["machinist_safety_frozen_servers"], 0)
}

// Gardener issue 718: only the process of Machines is frozen there.
func TestAnOutageOfTheManagementServerFreezesAllClusters(t *testing.T) {
	t.Parallel()
	gate, s, clock := newGate(t, nil)
	gate.Of(demo)
	gate.Probe(t.Context())
	s.set("", true)
	for at := time.Minute; at <= 90*time.Second; at += 6 * time.Second {
		clock.SetTime(noon.Add(at))
		gate.Probe(t.Context())
	}
	require.Contains(t, held(t, gate), "the API server of the Machines has not answered since 2026-03-01T12:01:00Z")
	require.True(t, gate.Of(demo).Silent)
}

func TestAClusterThatIsBeingMadeHoldsNothingUp(t *testing.T) {
	t.Parallel()
	initialized := false
	gate, s, _ := newGate(t, func(o *guard.GateOptions) {
		o.Initialized = func(context.Context, types.NamespacedName) bool { return initialized }
	})
	s.set("demo", true)
	gate.Of(demo)
	gate.Probe(t.Context())
	require.Empty(t, held(t, gate))
	initialized = true // as after a start during an outage
	require.Contains(t, held(t, gate), "the API server of cluster default/demo has not answered")
}

// A cluster without a kubeconfig has no API server that could have answered: one that is made later is one that has not answered yet.
func TestAClusterWithoutAKubeconfigHasNotAnswered(t *testing.T) {
	t.Parallel()
	initialized, asked, answer := false, 0, fmt.Errorf("%w: %w", cluster.ErrNotConnected, cluster.ErrNoKubeconfig)
	metrics := guard.NewMetrics()
	gate, _, clock := newGate(t, func(o *guard.GateOptions) {
		o.Workload = func(context.Context, types.NamespacedName) error { asked++; return answer }
		o.Initialized = func(context.Context, types.NamespacedName) bool { return initialized }
		o.Metrics = metrics
	})
	probe := func(after time.Duration) {
		clock.Step(after)
		gate.Probe(t.Context())
	}
	gate.Of(demo)
	probe(time.Second)
	require.True(t, gate.Of(demo).Silent)
	require.Empty(t, held(t, gate))
	initialized = true // such as after a restore from a backup without Secrets: there is no server that a set could wait for
	require.Empty(t, held(t, gate))
	initialized = false

	answer = fmt.Errorf("%w: no route to host", cluster.ErrNotConnected) // the Secret is there, and the first Machine does not run yet
	for range 5 {
		probe(time.Minute)
	}
	require.True(t, gate.Of(demo).Silent)
	require.Empty(t, held(t, gate), "its control plane can be made")
	require.InDelta(t, 0, gathered(t, metrics)["machinist_safety_frozen_servers"], 0)
	answer = nil
	probe(time.Minute)
	require.False(t, gate.Of(demo).Silent)
	answer = fmt.Errorf("%w: no route to host", cluster.ErrNotConnected)
	for range 5 {
		probe(time.Minute)
	}
	require.Contains(t, held(t, gate), "the API server of cluster default/demo has not answered")
	require.InDelta(t, 1, gathered(t, metrics)["machinist_safety_frozen_servers"], 0)

	answer = fmt.Errorf("%w: %w", cluster.ErrNotConnected, cluster.ErrNoKubeconfig) // the Cluster is gone
	probe(time.Minute)
	require.Empty(t, held(t, gate))
	probe(time.Minute)
	probe(time.Minute)
	before := asked
	probe(time.Hour)
	require.Equal(t, before, asked, "it is forgotten")
}

func TestDeletionsGoOnUnlessTheyAreFrozenToo(t *testing.T) {
	t.Parallel()
	open, _, _ := newGate(t, nil)
	strict, _, _ := newGate(t, func(o *guard.GateOptions) { o.Deletions = true })
	require.Equal(t, engine.InRunning, guard.FreezeStep[*scope](open).On)
	require.Equal(t, engine.InBoth, guard.FreezeStep[*scope](strict).On)
	require.Equal(t, engine.InRunning, guard.HoldStep[*scope](strict).On)
}

func TestAGateProbesInTheBackground(t *testing.T) {
	t.Parallel()
	gate, s, _ := newGate(t, func(o *guard.GateOptions) { o.Clock = nil })
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- gate.Start(ctx) }()
	require.Eventually(t, func() bool { return !gate.Of(demo).Silent }, time.Minute, 10*time.Millisecond)
	require.False(t, gate.NeedLeaderElection())
	cancel()
	require.NoError(t, <-done)
	require.Equal(t, healthcheck.Reach{}, (*guard.Gate)(nil).Of(demo), "no gate is an open one")
	require.Empty(t, held(t, nil))
	s.mu.Lock()
	defer s.mu.Unlock()
	require.GreaterOrEqual(t, s.probes, 2)
}

func TestAnAnswerIsOneOfTheServerItself(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	probe := guard.Answers(w.Client, w.kind, "default")
	require.NoError(t, probe(t.Context()))
	for _, err := range []error{errors.New("connection refused"), apierrors.NewServiceUnavailable("starting")} {
		w.Store.Inject(fake.Fault{Match: fake.Match("get", w.kind.GVK.GroupKind(), ""), Err: err})
		require.Error(t, probe(t.Context()), fmt.Sprint(err))
	}
}

func TestNewGateSaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	_, err := guard.NewGate(guard.GateOptions{})
	require.ErrorContains(t, err, "GateOptions.Management")
	_, err = guard.NewGate(guard.GateOptions{Management: func(context.Context) error { return nil }, Period: time.Second})
	require.ErrorContains(t, err, "shorter than Tolerance 30s")
}
