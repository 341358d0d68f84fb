package machine_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/contract/pass"
	"github.com/machinist-dev/machinist/fake"
	"github.com/machinist-dev/machinist/machine"
	"github.com/machinist-dev/machinist/phases"
)

// atOnce has statuses written at once, so that tests see each of them soon.
var atOnce = machine.Options{Options: pass.Options{StatusDelay: -1}}

// merge patches an object.
func (w *world) merge(obj *unstructured.Unstructured, change map[string]any) {
	w.t.Helper()
	raw, err := json.Marshal(change)
	require.NoError(w.t, err)
	require.NoError(w.t, w.client.Patch(w.t.Context(), obj.DeepCopy(), client.RawPatch(types.MergePatchType, raw)))
}

// blocked returns Machines in deletion whose drains wait for a budget that never opens.
func (w *world) blocked(names ...string) map[string]*unstructured.Unstructured {
	w.t.Helper()
	all := map[string]*unstructured.Unstructured{}
	for i, m := range w.running(names, int32(2*len(names)), 2*len(names)) { //nolint:gosec // a handful
		w.Delete(m)
		all[names[i]] = m
	}
	for _, m := range all {
		w.conditionIs(m, contract.ConditionDeleting, contract.ReasonDrainingNode)
	}
	return all
}

// recorded waits until there are so many events with a reason: the recorder sends them when it suits it.
func (w *world) recorded(reason string, n int) []eventsv1.Event {
	w.t.Helper()
	var found []eventsv1.Event
	w.Until("events with reason "+reason, func() bool {
		found = w.Events(reason)
		return len(found) >= n
	})
	require.Len(w.t, found, n)
	return found
}

func startOf(m *unstructured.Unstructured, field string) string {
	at, _, _ := unstructured.NestedString(m.Object, "status", "deletion", field)
	return at
}

// The owners of many Machines group them by equal messages: Ready has the stage, and Deleting what it waits for.
func TestReadySaysTheStageOfADeletion(t *testing.T) {
	w := newWorld(t, worldOptions{machine: atOnce})
	m := w.blocked("m")["m"]
	w.conditionIs(m, contract.ConditionDeleting, contract.ReasonDrainingNode, "disruption budget")
	message := w.conditionIs(m, contract.ConditionReady, contract.ReasonNotReady, "stage: "+contract.ReasonDrainingNode)
	require.Contains(t, message, "* Deleting: Machine deletion in progress, stage: "+contract.ReasonDrainingNode)
	require.NotContains(t, message, "disruption budget")
}

// A process whose clock was hours ahead has recorded the start: the limit is not hours longer.
func TestAStageWhoseStartIsYetToComeBeginsAnew(t *testing.T) {
	w := newWorld(t, worldOptions{machine: atOnce})
	m := w.blocked("m")["m"]
	w.conditionIs(m, contract.ConditionDeleting, contract.ReasonDrainingNode, "disruption budget")
	ahead := time.Now().Add(5 * time.Hour).UTC()
	w.mergeStatus(m, map[string]any{"deletion": map[string]any{"nodeDrainStartTime": ahead.Format(time.RFC3339)}})
	w.Until("the starts to be now", func() bool {
		fresh := w.Get(m)
		text := startOf(fresh, "nodeDrainStartTime")
		at, err := time.Parse(time.RFC3339, text)
		return err == nil && !at.After(time.Now().Add(time.Minute))
	})
}

func TestADrainIsLookedAtAnewInEveryPass(t *testing.T) {
	w := newWorld(t, worldOptions{machine: atOnce})
	all := w.blocked("excluded", "limited", "hooked")

	t.Log("exclude-node-draining added mid-drain")
	w.annotate(all["excluded"], map[string]any{contract.ExcludeDrain: ""})
	w.Gone(all["excluded"])

	t.Log("nodeDrainTimeout added mid-drain counts from the original start")
	started := startOf(w.Get(all["limited"]), "nodeDrainStartTime")
	require.NotEmpty(t, started)
	w.merge(all["limited"], map[string]any{"spec": map[string]any{"deletion": map[string]any{"nodeDrainTimeoutSeconds": 240}}})
	before := time.Now().Add(-4 * time.Minute).UTC().Format(time.RFC3339)
	w.mergeStatus(all["limited"], map[string]any{"deletion": map[string]any{"nodeDrainStartTime": before}})
	w.Gone(all["limited"])
	events := w.recorded(machine.EventDrainFailed, 1)
	require.Equal(t, "error draining Machine's node \"limited\": not completed within 4m0s: the deletion continues without", events[0].Note)

	t.Log("pre-drain hook added after drain started")
	hook := contract.PreDrainHook + "/late"
	hooked := all["hooked"]
	w.annotate(hooked, map[string]any{hook: ""})
	require.Equal(t, "Waiting for pre-drain hooks to succeed (hooks: "+hook+")",
		w.conditionIs(hooked, contract.ConditionDeleting, machine.ReasonWaitingForPreDrainHook))
	w.merge(hooked, map[string]any{"spec": map[string]any{"deletion": map[string]any{"nodeDrainTimeoutSeconds": 1}}})
	w.isQuiet()
	require.Nil(t, w.Get(fake.InfraMachine(contract.V1Beta2, "hooked")).GetDeletionTimestamp())
	w.annotate(hooked, map[string]any{hook: nil})
	w.Gone(hooked)
}

func (w *world) mergeStatus(obj *unstructured.Unstructured, status map[string]any) {
	w.t.Helper()
	raw, err := json.Marshal(map[string]any{"status": status})
	require.NoError(w.t, err)
	require.NoError(w.t, w.client.Status().Patch(w.t.Context(), obj.DeepCopy(), client.RawPatch(types.MergePatchType, raw)))
}

// faultyCache fails to read objects of a kind while it is told to, as a cache does that is being restarted.
type faultyCache struct {
	cache.Cache
	kind    schema.GroupKind
	failing atomic.Bool
	failed  atomic.Int32
}

func (c *faultyCache) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	if c.failing.Load() && obj.GetObjectKind().GroupVersionKind().GroupKind() == c.kind {
		c.failed.Add(1)
		return errors.New("injected")
	}
	return c.Cache.Get(ctx, key, obj, opts...)
}

func TestInfrastructureThatCouldNotBeReadIsNotGoneAndItsNodeIsDrained(t *testing.T) {
	reads := &faultyCache{kind: fake.InfraMachineGVK(contract.V1Beta2).GroupKind()}
	w := newWorld(t, worldOptions{machine: atOnce, ports: func(_ ctrl.Manager, p *machine.Ports) { reads.Cache, p.Cache = p.Cache, reads }})
	hook := contract.PreTerminateHook + "/x"
	m := w.ready("m", fake.WithAnnotations(map[string]string{hook: ""}))
	reads.failing.Store(true)
	w.Delete(m)
	require.Contains(t, w.conditionIs(m, contract.ConditionDeleting, contract.ReasonInternalError), "injected")
	require.NotContains(t, w.Get(m).GetAnnotations(), contract.DeletionAnnotation)
	require.Positive(t, reads.failed.Load())
	reads.failing.Store(false)
	w.conditionIs(m, contract.ConditionDeleting, machine.ReasonWaitingForPreTerminateHook)
	fresh, node := w.Get(m), w.node("m")
	require.True(t, node.Spec.Unschedulable)
	var metadata contract.Metadata
	metadata.From(fresh)
	recorded := contract.DeletionOf(&metadata, nil, time.Now())
	require.True(t, recorded.HasEnded(machine.StepDrain, node.UID))
	require.NotZero(t, recorded.Stages[machine.StepPreTerminateHooks].Start)
	w.annotate(m, map[string]any{hook: nil})
	w.Gone(m)
}

func TestInfrastructureThatGoesByItselfLeavesItsMachineAndIsNotDrained(t *testing.T) {
	w := byHandWorld(t, atOnce)
	m := w.provisioned("m", "fake://x/m")
	w.Create(fake.Node("m", "fake://x/m"))
	w.conditionIs(m, contract.ConditionNodeReady, machine.ReasonNodeReady)
	infra := w.Get(fake.InfraMachine(contract.V1Beta2, "m"))
	w.merge(infra, map[string]any{"metadata": map[string]any{"finalizers": []string{"example.com/hold"}}})
	w.Delete(infra)
	w.mergeStatus(infra, map[string]any{"conditions": []any{map[string]any{
		"type": "Ready", "status": "False", "reason": "Deleting", "message": "by hand", "lastTransitionTime": "2026-01-01T00:00:00Z"}}})
	require.Equal(t, "by hand", w.conditionIs(m, contract.ConditionInfrastructureReady, contract.ReasonDeleting))
	fresh := w.Get(m)
	require.Nil(t, fresh.GetDeletionTimestamp(), "infra has deletionTimestamp, Machine does not: the Machine stays")
	require.Equal(t, contract.ReasonNotDeleting, conditionOf(fresh, contract.ConditionDeleting).Reason)
	require.Contains(t, fresh.GetFinalizers(), contract.MachineFinalizer)

	w.Delete(m)
	w.conditionIs(m, contract.ConditionDeleting, contract.ReasonWaitingForInfrastructureDeletion)
	require.False(t, w.node("m").Spec.Unschedulable, "the machine is going: there is nothing left to drain")
	infra = w.Get(infra)
	w.merge(infra, map[string]any{"metadata": map[string]any{"finalizers": []string{}}})
	w.Gone(m)
	require.Nil(t, w.node("m"))
}

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
	on := &atomic.Bool{}
	on.Store(true)
	w := newWorld(t, worldOptions{machine: atOnce, ports: func(_ ctrl.Manager, p *machine.Ports) {
		p.Client = webhook{Client: p.Client, on: on, strip: []string{"status", "nodeRef"}}
	}})
	m := w.machineWith("m1")
	w.AwaitCondition(m, contract.ConditionReady, "", "does not keep the reference to the Node with its UID")
	require.Empty(t, w.Events(machine.EventNodeMatched))
	on.Store(false)
	w.Change(m, func(m *unstructured.Unstructured) { m.SetLabels(map[string]string{"a": "b"}) })
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
			on := &atomic.Bool{}
			on.Store(tc.lives)
			w := newWorld(t, worldOptions{machine: atOnce, ports: func(_ ctrl.Manager, p *machine.Ports) {
				p.Client = webhook{Client: p.Client, on: on, strip: strings.Split(tc.strip, ".")}
			}})
			m, infra := w.machineWith("m1"), fake.InfraMachine(contract.V1Beta2, "m1")
			told := func() {
				t.Helper()
				w.Until("Ready to tell of it", func() bool {
					return strings.Contains(conditionOf(w.Get(m), contract.ConditionReady).Message, tc.says)
				})
				w.recorded(machine.EventWriteNotKept, 1)
			}
			if tc.lives {
				told()
			}
			if name == "the finalizer" {
				require.Empty(t, w.Get(infra).GetOwnerReferences(), "no machine is made")
				on.Store(false)
			}
			if name != "the provider ID" && name != "the UID of the Node" {
				w.conditionIs(m, contract.ConditionReady, contract.ReasonReady)
				on.Store(!tc.lives)
			}
			w.Delete(m)
			if on.Load() {
				w.conditionIs(m, contract.ConditionReady, contract.ReasonInternalError)
				told()
				if name != "the end of the finalizer" {
					require.Nil(t, w.Get(infra).GetDeletionTimestamp(), "nothing is destroyed")
				}
				on.Store(false)
			}
			w.Gone(m, infra)
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
			w, kind, m := runningOf(t, tc.forget)
			w.Change(m, func(m *unstructured.Unstructured) { m.SetAnnotations(tc.annotations) })
			w.Delete(m)
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
	w, _, m := runningOf(t, func(s *contract.MachineState) { s.ProviderID = "" })
	w.Delete(m)
	w.conditionIs(m, contract.ConditionDeleting, contract.ReasonDrainingNode, "Node m1 is recorded, and the Machine has no provider ID",
		contract.ExcludeDrain)
	require.False(t, w.node("m1").Spec.Unschedulable)
	w.annotate(m, map[string]any{contract.ExcludeDrain: ""})
	w.Gone(m)
}
