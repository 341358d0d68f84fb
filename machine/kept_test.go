package machine_test

import (
	"context"
	"encoding/json"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/fake"
	"github.com/machinist-dev/machinist/machine"
	"github.com/machinist-dev/machinist/phases"
)

// webhook is a mutating webhook that takes one field away from each write of the reconciler to a Machine while it is on.
type webhook struct {
	client.Client

	on    *atomic.Bool
	strip []string
}

func (w webhook) Patch(ctx context.Context, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
	patch, err := w.pruned(obj, patch)
	if err != nil {
		return err
	}
	return w.Client.Patch(ctx, obj, patch, opts...)
}

func (w webhook) Status() client.SubResourceWriter { return statusWebhook{w.Client.Status(), w} }

// statusWebhook does it for the status.
type statusWebhook struct {
	client.SubResourceWriter

	webhook webhook
}

func (w statusWebhook) Patch(ctx context.Context, obj client.Object, patch client.Patch, opts ...client.SubResourcePatchOption) error {
	patch, err := w.webhook.pruned(obj, patch)
	if err != nil {
		return err
	}
	return w.SubResourceWriter.Patch(ctx, obj, patch, opts...)
}

// pruned is a patch without the field.
func (w webhook) pruned(obj client.Object, patch client.Patch) (client.Patch, error) {
	if !w.on.Load() || obj.GetObjectKind().GroupVersionKind().Kind != "Machine" {
		return patch, nil
	}
	raw, err := patch.Data(obj)
	if err != nil {
		return nil, err
	}
	body := map[string]any{}
	if err := json.Unmarshal(raw, &body); err != nil {
		return nil, err
	}
	if parent, ok := body[w.strip[0]].(map[string]any); ok {
		delete(parent, w.strip[1])
	}
	raw, err = json.Marshal(body)
	return client.RawPatch(patch.Type(), raw), err
}

// Each pass records the Node again, and none of them has.
func TestANodeIsToldAsRecordedOnceItIs(t *testing.T) {
	t.Parallel()
	on := &atomic.Bool{}
	on.Store(true)
	w := newWorld(t, worldOptions{machine: atOnce, ports: func(_ ctrl.Manager, p *machine.Ports) {
		p.Client = webhook{Client: p.Client, on: on, strip: []string{"status", "nodeRef"}}
	}})
	m := w.machineWith("m1")
	w.Says(m, contract.ConditionReady, "", "does not keep the reference to the Node with its UID")
	require.Empty(t, w.events(machine.EventNodeMatched))
	on.Store(false)
	w.change(m, func(m *unstructured.Unstructured) { m.SetLabels(map[string]string{"a": "b"}) })
	w.reaches(m, string(phases.Running))
	w.recorded(machine.EventNodeMatched, 1)
}

// The API server answers such a write as it answers any other, and where nothing is left of it, no event comes either.
func TestAWriteThatAWebhookRemovesIsReportedAndRepeated(t *testing.T) {
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
		"the UID of the Node":      {strip: "metadata.annotations", lives: true, says: lost + "the reference to the Node with its UID"},
		"the end of the finalizer": {strip: "metadata.finalizers", says: lost + "the removal of the finalizer machine.cluster.x-k8s.io"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			on := &atomic.Bool{}
			on.Store(tc.lives)
			w := newWorld(t, worldOptions{machine: atOnce, ports: func(_ ctrl.Manager, p *machine.Ports) {
				p.Client = webhook{Client: p.Client, on: on, strip: strings.Split(tc.strip, ".")}
			}})
			m, infra := w.machineWith("m1"), fake.InfraMachine(contract.V1Beta2, "m1")
			told := func() {
				t.Helper()
				w.eventually("Ready to tell of it", func() string { // one that is ready stays so
					if message := conditionOf(w.get(m), contract.ConditionReady).Message; !strings.Contains(message, tc.says) {
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
			if name != "the provider ID" && name != "the UID of the Node" {
				w.conditionIs(m, contract.ConditionReady, contract.ReasonReady)
				on.Store(!tc.lives)
			}
			require.NoError(t, w.client.Delete(t.Context(), m))
			if on.Load() {
				w.conditionIs(m, contract.ConditionReady, contract.ReasonInternalError)
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

// runningOf returns a running Machine of a Go type that has no place for everything, which shows in its deletion: what New sees is another.
func runningOf(t *testing.T, forget func(*contract.MachineState)) (*world, contract.Kind, *unstructured.Unstructured) {
	t.Helper()
	kind := serverKind(true)
	kind.Adapter = forgetful{kind.Adapter, func(s *contract.MachineState) {
		if s.Key.Name == "m1" && !s.Deleting.IsZero() {
			forget(s)
		}
	}}
	w, m := serverWorld(t, kind, nil)
	w.says(kind, m, contract.ConditionReady, contract.ReasonReady)
	return w, kind, m
}

// Otherwise each pass would begin with what it has to store, and the deletion would hang without a word.
func TestAKindThatDoesNotStoreWhatPrecedesADrainIsReported(t *testing.T) {
	t.Parallel()
	noStart := func(s *contract.MachineState) { s.DrainStarted, s.Annotations = time.Time{}, nil }
	noUID := func(s *contract.MachineState) { s.Node.UID = "" }
	for name, tc := range map[string]struct {
		forget      func(*contract.MachineState)
		annotations map[string]string
		says        string
	}{
		"the start of a drain":              {noStart, nil, "when the drain began"},
		"the UID":                           {noUID, nil, "the reference to the Node with its UID"},
		"the UID, and nothing to drain for": {noUID, map[string]string{contract.ExcludeDrain: ""}, "the reference to the Node with its UID"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, kind, m := runningOf(t, tc.forget)
			w.change(m, func(m *unstructured.Unstructured) { m.SetAnnotations(tc.annotations) })
			require.NoError(t, w.client.Delete(t.Context(), m))
			state := w.says(kind, m, contract.ConditionDeleting, contract.ReasonInternalError)
			for _, c := range state.Conditions {
				if c.Type == contract.ConditionDeleting {
					require.Contains(t, c.Message, "Server default/m1 does not keep "+tc.says)
				}
			}
			require.False(t, w.node("m1").Spec.Unschedulable)
		})
	}
}

// The machine would go undrained while its Node and its pods stay.
func TestAMachineThatHasLostItsProviderIDWaitsForItOrForTheDrainToBeExcluded(t *testing.T) {
	t.Parallel()
	w, _, m := runningOf(t, func(s *contract.MachineState) { s.ProviderID = "" })
	require.NoError(t, w.client.Delete(t.Context(), m))
	w.conditionSays(m, contract.ConditionDeleting, contract.ReasonDrainingNode, "Node m1 is recorded, and the Machine has no provider ID",
		contract.ExcludeDrain)
	require.False(t, w.node("m1").Spec.Unschedulable)
	w.annotate(m, map[string]any{contract.ExcludeDrain: ""})
	w.goes(m)
}
