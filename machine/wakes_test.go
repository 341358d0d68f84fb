package machine_test

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/fake"
	"github.com/machinist-dev/machinist/internal/engine"
	"github.com/machinist-dev/machinist/machine"
)

// counting returns options with a step that counts the passes of all Machines.
func counting(t *testing.T, passes *atomic.Int32) machine.Options {
	t.Helper()
	steps := machine.Steps().InsertAfter(machine.StepPaused, machine.Step{
		Name: "count", On: engine.InBoth, Run: func(context.Context, *machine.Scope) (machine.Result, error) {
			passes.Add(1)
			return machine.Result{}, nil
		},
	})
	return machine.Options{Steps: steps}
}

func TestAFinalizerOfInfrastructureCausesNoPass(t *testing.T) {
	t.Parallel()
	var passes atomic.Int32
	w := byHandWorld(t, counting(t, &passes))
	w.runningByHand("m", "fake://x/1")
	w.Still("passes that were asked for when a write of this process was not read yet", engine.BehindRetry+5*time.Second, func() int {
		return int(passes.Load())
	})
	infra := fake.InfraMachine(contract.V1Beta2, "m")
	before := passes.Load()
	for _, name := range []string{"example.com/a", "example.com/b", "example.com/c"} {
		w.patched(infra, func(u *unstructured.Unstructured) { u.SetFinalizers(append(slices.Clone(u.GetFinalizers()), name)) })
		time.Sleep(10 * time.Millisecond) // the passes that there must not be would be one otherwise
	}
	w.patched(infra, func(u *unstructured.Unstructured) {
		u.SetAnnotations(map[string]string{"example.com/read": "by a step"})
	})
	w.eventually("a pass", func() string {
		if passes.Load() == before {
			return "there is none"
		}
		return ""
	})
	w.quiet(&passes)
	require.Equal(t, before+1, passes.Load(), "only the annotation can matter to a step")
}

func (w *world) patched(obj *unstructured.Unstructured, change func(*unstructured.Unstructured)) {
	w.t.Helper()
	base := w.get(obj)
	changed := base.DeepCopy()
	change(changed)
	require.NoError(w.t, w.client.Patch(w.t.Context(), changed, client.MergeFrom(base)))
}

// quiet waits until there are no passes for a while.
func (w *world) quiet(passes *atomic.Int32) {
	w.t.Helper()
	last, since := passes.Load(), time.Now()
	w.eventually("no passes", func() string {
		if now := passes.Load(); now != last {
			last, since = now, time.Now()
		}
		if time.Since(since) < 2*time.Second {
			return "there are passes"
		}
		return ""
	})
}
