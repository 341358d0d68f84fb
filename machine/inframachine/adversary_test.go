package inframachine_test

import (
	"context"
	"encoding/json"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/fake"
	"github.com/machinist-dev/machinist/internal/engine"
	"github.com/machinist-dev/machinist/machine/inframachine"
	"github.com/machinist-dev/machinist/machine/provider"
	"github.com/machinist-dev/machinist/phases"
)

// withoutFinalizers is a webhook that removes finalizers from what the provider under test writes, while it is on.
type withoutFinalizers struct {
	client.Client

	on   *atomic.Bool
	seen *atomic.Int64
}

func (w withoutFinalizers) Patch(ctx context.Context, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
	raw, err := patch.Data(obj)
	body := map[string]any{}
	if err != nil || !w.on.Load() || json.Unmarshal(raw, &body) != nil {
		return w.Client.Patch(ctx, obj, patch, opts...)
	}
	if metadata, ok := body["metadata"].(map[string]any); ok && metadata["finalizers"] != nil {
		delete(metadata, "finalizers")
		w.seen.Add(1)
	}
	if raw, err = json.Marshal(body); err != nil {
		return err
	}
	return w.Client.Patch(ctx, obj, client.RawPatch(patch.Type(), raw), opts...)
}

// Such an InfraMachine would vanish at once in a deletion, and leave its instance behind.
func TestNoInstanceIsMadeForAnObjectThatDoesNotKeepItsFinalizer(t *testing.T) {
	t.Parallel()
	var on atomic.Bool
	var seen atomic.Int64
	on.Store(true)
	w := newWorld(t, worldOptions{ports: func(p *engine.Ports) { p.Client = withoutFinalizers{p.Client, &on, &seen} }})
	m, infra := w.machineOf("m1", "small")
	require.Eventually(t, func() bool { return seen.Load() > 2 }, time.Minute, 10*time.Millisecond)
	require.Empty(t, w.instances())
	on.Store(false)
	w.reaches(m, string(phases.Running))
	require.Contains(t, w.get(infra).GetFinalizers(), inframachine.Finalizer)
}

// The answer to the creation was lost, and its Node may have joined: only the provider ID finds it, and no event says when to ask again.
func TestAnInstanceIsLookedForUntilItsDriverSaysWhetherItExists(t *testing.T) {
	t.Parallel()
	const hook = "pre-terminate.delete.hook.machine.cluster.x-k8s.io/test"
	var deleting atomic.Bool
	var looks atomic.Int64 // since then
	w := newWorld(t, worldOptions{cloud: fake.DriverOptions{Answer: func(op provider.Operation, _ provider.Request) error {
		if op == provider.OpCreate || op == provider.OpGet && (!deleting.Load() || looks.Add(1) < 4) {
			return errors.New("connection reset")
		}
		return nil
	}}})
	m, infra := w.machineOf("m1", "small")
	w.says(infra, contract.ConditionReady, string(provider.Unavailable))
	w.change(m, func(u *unstructured.Unstructured) { u.SetAnnotations(map[string]string{hook: ""}) })
	deleting.Store(true)
	require.NoError(t, w.client.Delete(t.Context(), m))
	w.eventually("the provider ID", func() string {
		if id, _, _ := unstructured.NestedString(w.get(infra).Object, "spec", "providerID"); id == "" {
			return "none"
		}
		return ""
	})
}
