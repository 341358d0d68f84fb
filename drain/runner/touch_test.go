package runner

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// reluctant is a cache that cannot find out what the server serves, for some calls, and has everything listed afterwards.
type reluctant struct {
	cache.Informers

	cache.Informer

	refusals chan error
}

func (c *reluctant) GetInformer(context.Context, client.Object, ...cache.InformerGetOption) (cache.Informer, error) {
	select {
	case err := <-c.refusals:
		return nil, err
	default:
		return c, nil
	}
}

func (*reluctant) AddEventHandler(toolscache.ResourceEventHandler) (toolscache.ResourceEventHandlerRegistration, error) {
	return allTold{}, nil
}

// allTold is the registration of a handler that has been told of all that there is.
type allTold struct {
	toolscache.ResourceEventHandlerRegistration
}

func (allTold) HasSynced() bool { return true }

func (*reluctant) RemoveEventHandler(toolscache.ResourceEventHandlerRegistration) error { return nil }

func (*reluctant) HasSynced() bool { return true }

func refusingTwice() *reluctant { return refusing(2) }

func refusing(times int) *reluctant {
	c := &reluctant{refusals: make(chan error, times)}
	for range times {
		c.refusals <- errors.New("connection refused")
	}
	return c
}

func TestARunnerOutlivesAServerThatCannotBeAskedForItsKindsAtFirst(t *testing.T) {
	g := newRig(t, func(c *Config) { c.Informers = refusingTwice() })
	g.pods.put(pod("n", "a"))
	g.start()
	defer g.stop()
	step := func() error {
		_, err := g.runner.Step(t.Context(), Request{Node: cordoned("n")})
		return err
	}
	g.eventually("Steps say why they cannot go on", func() bool { return step() != nil })
	require.ErrorContains(t, step(), "informer of PodDisruptionBudgets: connection refused")
	g.eventually("budgets are watched", func() bool {
		g.clock.Step(time.Second)
		return step() == nil
	})
	g.settled(1)
}

func TestARunnerOutlivesAServerThatCannotBeAskedForVolumesAtFirst(t *testing.T) {
	g := newRig(t, nil)
	g.runner.volumes = newCachedVolumes(refusingTwice())
	g.pods.put(podWith("n", "a"), pod("n", "b"))
	g.start()
	defer g.stop()
	look := func() (VolumesResult, error) {
		return g.runner.StepVolumes(t.Context(), VolumeRequest{Node: cordoned("n")})
	}
	g.eventually("Steps say why they cannot go on", func() bool {
		_, err := look()
		return err != nil
	})
	_, err := look()
	require.ErrorContains(t, err, "informer of VolumeAttachments: connection refused")
	g.step("n")
	g.settled(2)
	g.wantRequests("a", "b")
	g.eventually("volumes are watched", func() bool {
		g.clock.Step(time.Second)
		result, err := look()
		return err == nil && result.Done
	})
}

func TestVolumesThatNoRunnerRunsAreWatchedLaterToo(t *testing.T) {
	source := newCachedVolumes(refusing(1))
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- source.Run(ctx, func(string) {}) }()
	require.Eventually(t, func() bool { _, synced := source.Attachments("n"); return synced }, waitLimit, time.Millisecond)
	cancel()
	require.NoError(t, <-ended)
}

func TestAnEndWhileVolumesCannotBeWatchedIsNoFailure(t *testing.T) {
	g := newRig(t, nil)
	g.runner.volumes = newCachedVolumes(refusingTwice())
	g.start()
	g.eventually("volumes cannot be watched", func() bool {
		_, err := g.runner.StepVolumes(t.Context(), VolumeRequest{Node: cordoned("n")})
		return err != nil
	})
	g.stop()
}

func TestADrainFailsImmediatelyIfItCannotWatch(t *testing.T) {
	for name, change := range map[string]func(*Config){
		"budgets": func(c *Config) { c.Informers = refusingTwice() },
		"volumes": func(c *Config) { c.Budgets, c.Informers, c.Volumes = nil, refusingTwice(), true },
	} {
		t.Run(name, func(t *testing.T) {
			cfg := newRig(t, change).runner.cfg
			_, err := Drain(t.Context(), cfg, DrainOptions{Nodes: never{}}, "n")
			require.ErrorContains(t, err, "connection refused")
		})
	}
}

// never is a reader whose server does not answer.
type never struct{ client.Reader }

func (never) Get(ctx context.Context, _ client.ObjectKey, _ client.Object, _ ...client.GetOption) error {
	<-ctx.Done()
	return context.Cause(ctx)
}

func TestAWatchThatIsYetToTellWhatIsThereDoesNotBringTouchBack(t *testing.T) {
	w := newNodeWatch("n")
	l := newNodeListWatch(silent{}, w)
	require.NoError(t, w.Replace(nil, "5"))
	synced := func() bool {
		_, synced, _ := w.snapshot()
		return synced
	}
	lost := errors.New("connection refused")
	for _, streams := range []bool{true, false} {
		w.failed(lost)
		require.False(t, synced())
		_, err := l.WatchFuncWithContext(t.Context(), metav1.ListOptions{SendInitialEvents: &streams})
		require.NoError(t, err)
		require.Equal(t, !streams, synced(), "of a watch that goes on where it stood nothing is missed; of a new one all is")
	}
	w.failed(lost)
	require.NoError(t, w.Replace([]any{pod("n", "a")}, "9"))
	require.True(t, synced())
}

// silent is a server whose watches say nothing.
type silent struct{ client.WithWatch }

func (silent) Watch(context.Context, client.ObjectList, ...client.ListOption) (watch.Interface, error) {
	return watch.NewFake(), nil
}
