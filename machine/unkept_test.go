package machine_test

import (
	"context"
	"encoding/json"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/fake"
	"github.com/machinist-dev/machinist/machine"
)

// webhook is a mutating webhook that takes one field away from each write of the reconciler to a Machine while it is on.
type webhook struct {
	client.Client

	on    *atomic.Bool
	strip []string
}

func (w webhook) Patch(ctx context.Context, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
	if !w.on.Load() || obj.GetObjectKind().GroupVersionKind().Kind != "Machine" {
		return w.Client.Patch(ctx, obj, patch, opts...)
	}
	raw, err := patch.Data(obj)
	if err != nil {
		return err
	}
	body := map[string]any{}
	if err := json.Unmarshal(raw, &body); err != nil {
		return err
	}
	if parent, ok := body[w.strip[0]].(map[string]any); ok {
		delete(parent, w.strip[1])
	}
	if raw, err = json.Marshal(body); err != nil {
		return err
	}
	return w.Client.Patch(ctx, obj, client.RawPatch(patch.Type(), raw), opts...)
}

// The API server answers such a write as it answers any other, and where nothing is left of it, no event comes either.
func TestAWriteThatAWebhookTakesAwayIsToldAndTriedAgain(t *testing.T) {
	t.Parallel()
	const lost = "the API server accepts and does not keep "
	for name, tc := range map[string]struct {
		strip string
		// lives: it is on from the beginning, and not from when the Machine runs.
		lives bool
		says  string
	}{
		"the finalizer":            {strip: "metadata.finalizers", lives: true, says: lost + "the finalizer machine.cluster.x-k8s.io"},
		"the provider ID":          {strip: "spec.providerID", lives: true, says: lost + "the provider ID"},
		"the UID of the Node":      {strip: "metadata.annotations", says: lost + "the reference to the Node with its UID"},
		"the end of the finalizer": {strip: "metadata.finalizers", says: lost + "the removal of the finalizer machine.cluster.x-k8s.io"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			on := &atomic.Bool{}
			on.Store(tc.lives || strings.Contains(tc.says, "Node"))
			w := newWorld(t, worldOptions{machine: atOnce, ports: func(_ ctrl.Manager, p *machine.Ports) {
				p.Client = webhook{Client: p.Client, on: on, strip: strings.Split(tc.strip, ".")}
			}})
			m, infra := w.machineWith("m1"), fake.InfraMachine(contract.V1Beta2, "m1")
			told := func() {
				t.Helper()
				w.eventually("Ready to tell of it", func() string { // one that is ready stays so
					if message := conditionOf(w.get(m), machine.ConditionReady).Message; !strings.Contains(message, tc.says) {
						return message
					}
					return ""
				})
				w.recorded(machine.EventWriteNotKept, 1)
			}
			if tc.lives {
				told()
			}
			if name == "the finalizer" {
				require.Empty(t, w.get(infra).GetOwnerReferences(), "no machine is made")
				on.Store(false)
			}
			if name != "the provider ID" {
				w.conditionIs(m, machine.ConditionReady, machine.ReasonReady)
				on.Store(!tc.lives)
			}
			require.NoError(t, w.client.Delete(t.Context(), m))
			if on.Load() {
				w.conditionIs(m, machine.ConditionReady, machine.ReasonInternalError)
				told()
				if name != "the end of the finalizer" {
					require.Nil(t, w.get(infra).GetDeletionTimestamp(), "nothing is destroyed")
				}
				on.Store(false)
			}
			w.goes(m, infra)
			require.Nil(t, w.node("m1"))
		})
	}
}
