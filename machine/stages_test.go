package machine_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
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
		require.NoError(w.t, w.client.Delete(w.t.Context(), m))
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
	w.eventually("events with reason "+reason, func() string {
		if found = w.events(reason); len(found) < n {
			return fmt.Sprintf("there are %d", len(found))
		}
		return ""
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
	t.Parallel()
	w := newWorld(t, worldOptions{machine: atOnce})
	m := w.blocked("m")["m"]
	w.conditionSays(m, contract.ConditionDeleting, contract.ReasonDrainingNode, "disruption budget")
	message := w.conditionSays(m, contract.ConditionReady, contract.ReasonNotReady, "stage: "+contract.ReasonDrainingNode)
	require.Contains(t, message, "* Deleting: Machine deletion in progress, stage: "+contract.ReasonDrainingNode)
	require.NotContains(t, message, "disruption budget")
}

// A process whose clock was hours ahead has recorded the start: the limit is not hours longer.
func TestAStageWhoseStartIsYetToComeBeginsAnew(t *testing.T) {
	t.Parallel()
	w := newWorld(t, worldOptions{machine: atOnce})
	m := w.blocked("m")["m"]
	w.conditionSays(m, contract.ConditionDeleting, contract.ReasonDrainingNode, "disruption budget")
	ahead := time.Now().Add(5 * time.Hour).UTC()
	w.mergeStatus(m, map[string]any{"deletion": map[string]any{"nodeDrainStartTime": ahead.Format(time.RFC3339)}})
	w.eventually("the starts to be now", func() string {
		fresh := w.get(m)
		text := startOf(fresh, "nodeDrainStartTime")
		if at, err := time.Parse(time.RFC3339, text); err != nil || at.After(time.Now().Add(time.Minute)) {
			return "the drain begins at " + text
		}
		return ""
	})
}

func TestADrainIsLookedAtAnewInEveryPass(t *testing.T) {
	t.Parallel()
	w := newWorld(t, worldOptions{machine: atOnce})
	all := w.blocked("excluded", "limited", "hooked")

	t.Log("exclude-node-draining added mid-drain")
	w.annotate(all["excluded"], map[string]any{contract.ExcludeDrain: ""})
	w.goes(all["excluded"])

	t.Log("nodeDrainTimeout added mid-drain counts from the original start")
	started := startOf(w.get(all["limited"]), "nodeDrainStartTime")
	require.NotEmpty(t, started)
	w.merge(all["limited"], map[string]any{"spec": map[string]any{"deletion": map[string]any{"nodeDrainTimeoutSeconds": 240}}})
	before := time.Now().Add(-4 * time.Minute).UTC().Format(time.RFC3339)
	w.mergeStatus(all["limited"], map[string]any{"deletion": map[string]any{"nodeDrainStartTime": before}})
	w.goes(all["limited"])
	events := w.recorded(machine.EventDrainFailed, 1)
	require.Equal(t, "error draining Machine's node \"limited\": not completed within 4m0s: the deletion goes on without", events[0].Note)

	t.Log("pre-drain hook added after drain started")
	hook := contract.PreDrainHook + "/late"
	hooked := all["hooked"]
	w.annotate(hooked, map[string]any{hook: ""})
	require.Equal(t, "Waiting for pre-drain hooks to succeed (hooks: "+hook+")",
		w.conditionIs(hooked, contract.ConditionDeleting, machine.ReasonWaitingForPreDrainHook))
	w.merge(hooked, map[string]any{"spec": map[string]any{"deletion": map[string]any{"nodeDrainTimeoutSeconds": 1}}})
	w.isQuiet()
	require.Nil(t, w.get(fake.InfraMachine(contract.V1Beta2, "hooked")).GetDeletionTimestamp())
	w.annotate(hooked, map[string]any{hook: nil})
	w.goes(hooked)
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
	t.Parallel()
	reads := &faultyCache{kind: fake.InfraMachineGVK(contract.V1Beta2).GroupKind()}
	w := newWorld(t, worldOptions{machine: atOnce, ports: func(_ ctrl.Manager, p *machine.Ports) { reads.Cache, p.Cache = p.Cache, reads }})
	hook := contract.PreTerminateHook + "/x"
	m := w.machineWith("m", fake.WithAnnotations(map[string]string{hook: ""}))
	w.conditionIs(m, contract.ConditionReady, contract.ReasonReady)
	reads.failing.Store(true)
	require.NoError(t, w.client.Delete(t.Context(), m))
	require.Contains(t, w.conditionIs(m, contract.ConditionDeleting, contract.ReasonInternalError), "injected")
	require.NotContains(t, w.get(m).GetAnnotations(), contract.DeletionAnnotation)
	require.Positive(t, reads.failed.Load())
	reads.failing.Store(false)
	w.conditionIs(m, contract.ConditionDeleting, machine.ReasonWaitingForPreTerminateHook)
	fresh, node := w.get(m), w.node("m")
	require.True(t, node.Spec.Unschedulable)
	var metadata contract.Metadata
	metadata.From(fresh)
	recorded := contract.DeletionOf(&metadata, nil, time.Now())
	require.True(t, recorded.HasEnded(machine.StepDrain, node.UID))
	require.NotZero(t, recorded.Stages[machine.StepPreTerminateHooks].Start)
	w.annotate(m, map[string]any{hook: nil})
	w.goes(m)
}

func TestInfrastructureThatGoesByItselfLeavesItsMachineAndIsNotDrained(t *testing.T) {
	t.Parallel()
	w := byHandWorld(t, atOnce)
	m := w.provisioned("m", "fake://x/m")
	w.create(fake.Node("m", "fake://x/m"))
	w.conditionIs(m, contract.ConditionNodeReady, machine.ReasonNodeReady)
	infra := w.get(fake.InfraMachine(contract.V1Beta2, "m"))
	w.merge(infra, map[string]any{"metadata": map[string]any{"finalizers": []string{"example.com/hold"}}})
	require.NoError(t, w.client.Delete(t.Context(), infra))
	w.mergeStatus(infra, map[string]any{"conditions": []any{map[string]any{
		"type": "Ready", "status": "False", "reason": "Deleting", "message": "by hand", "lastTransitionTime": "2026-01-01T00:00:00Z"}}})
	require.Equal(t, "by hand", w.conditionIs(m, contract.ConditionInfrastructureReady, contract.ReasonDeleting))
	fresh := w.get(m)
	require.Nil(t, fresh.GetDeletionTimestamp(), "infra has deletionTimestamp, Machine does not: the Machine stays")
	require.Equal(t, contract.ReasonNotDeleting, conditionOf(fresh, contract.ConditionDeleting).Reason)
	require.Contains(t, fresh.GetFinalizers(), contract.MachineFinalizer)

	require.NoError(t, w.client.Delete(t.Context(), m))
	w.conditionIs(m, contract.ConditionDeleting, contract.ReasonWaitingForInfrastructureDeletion)
	require.False(t, w.node("m").Spec.Unschedulable, "the machine is going: there is nothing left to drain")
	infra = w.get(infra)
	w.merge(infra, map[string]any{"metadata": map[string]any{"finalizers": []string{}}})
	w.goes(m)
	require.Nil(t, w.node("m"))
}
