package machine_test

import (
	"maps"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/contract/pass"
	"github.com/machinist-dev/machinist/fake"
	"github.com/machinist-dev/machinist/machine"
	"github.com/machinist-dev/machinist/noderef/propagate"
)

// setConfig writes the status of a BootstrapConfig as its provider would.
func (w *world) setConfig(name string, status map[string]any) {
	w.t.Helper()
	obj := w.Get(fake.BootstrapConfig(contract.V1Beta2, name))
	before := obj.DeepCopy()
	obj.Object["status"] = status
	require.NoError(w.t, w.client.Status().Patch(w.t.Context(), obj, client.MergeFrom(before)))
}

// dataCreated is the status of a BootstrapConfig that is done.
func dataCreated(name string) map[string]any {
	return map[string]any{"initialization": map[string]any{"dataSecretCreated": true}, "dataSecretName": name}
}

// runningByHand makes a Machine with a Node, without providers.
func (w *world) runningByHand(name, providerID string) *unstructured.Unstructured {
	w.t.Helper()
	m := w.provisioned(name, providerID)
	w.setConfig(name, dataCreated(name))
	w.Create(fake.Node(name, providerID))
	w.conditionIs(m, contract.ConditionReady, contract.ReasonReady)
	return m
}

func textAt(m *unstructured.Unstructured, path ...string) string {
	text, _, _ := unstructured.NestedString(m.Object, path...)
	return text
}

func TestInfrastructureThatIsProvisionedBeforeTheBootstrapDataSkipsAPhase(t *testing.T) {
	w := byHandWorld(t, machine.Options{})
	m := w.provisioned("m", "fake://x/1")
	w.reaches(m, "Provisioned")
	w.conditionIs(m, contract.ConditionBootstrapConfigReady, contract.ReasonNotReady) // which may not have been listed at first
}

// Defect of Cluster API: a user's own data never sets the flag, and the phase stays Pending.
func TestDataThatTheUserGaveCountsAsCreated(t *testing.T) {
	w := byHandWorld(t, machine.Options{})
	m := fake.Machine("m", fake.WithField(map[string]any{"dataSecretName": "mine"}, "spec", "bootstrap"))
	w.Create(fake.InfraMachine(contract.V1Beta2, "m"), m)
	w.reaches(m, "Provisioning")
	created, _, err := unstructured.NestedBool(w.Get(m).Object, "status", "initialization", "bootstrapDataSecretCreated")
	require.NoError(t, err)
	require.True(t, created)
	require.Equal(t, contract.ReasonDataSecretProvided, conditionOf(w.Get(m), contract.ConditionBootstrapConfigReady).Reason)
}

func TestInfrastructureThatTakesItsWordBackIsStillRead(t *testing.T) {
	w := byHandWorld(t, machine.Options{})
	m := w.runningByHand("m", "fake://x/1")
	w.setInfra("m", map[string]any{"initialization": map[string]any{"provisioned": false},
		"addresses": []any{map[string]any{"type": "InternalIP", "address": "10.0.0.7"}}}, "fake://x/1")
	w.Eventually("the new address", func() string {
		addresses, _, _ := unstructured.NestedSlice(w.Get(m).Object, "status", "addresses")
		return cmp.Diff([]any{map[string]any{"type": "InternalIP", "address": "10.0.0.7"}}, addresses)
	})
	require.Equal(t, contract.ReasonReady, conditionOf(w.Get(m), contract.ConditionReady).Reason)
	require.Equal(t, "Running", textAt(w.Get(m), "status", "phase"))
}

func TestInfrastructureThatIsDeletedUnderARunningMachineIsReportedOnceAndWaitedFor(t *testing.T) {
	w := byHandWorld(t, machine.Options{})
	m := w.runningByHand("m", "fake://x/1")
	w.setInfra("m", map[string]any{"initialization": map[string]any{"provisioned": true}, "interruptible": true}, "fake://x/1")
	w.Until("the label of the Node", func() bool {
		_, found := w.node("m").Labels[propagate.InterruptibleLabel]
		return found
	})
	w.Delete(fake.InfraMachine(contract.V1Beta2, "m"))
	require.Equal(t, "FakeMachine has been deleted while the Machine still exists",
		w.conditionIs(m, contract.ConditionInfrastructureReady, contract.ReasonDeleted))
	w.isQuiet()
	fresh := w.Get(m)
	require.Equal(t, "InvalidConfiguration", textAt(fresh, "status", "deprecated", "v1beta1", "failureReason"))
	require.Equal(t, "Machine infrastructure resource FakeMachine default/m has been deleted after provisioning was completed",
		textAt(fresh, "status", "deprecated", "v1beta1", "failureMessage"))
	require.Equal(t, "Running", textAt(fresh, "status", "phase"))
	require.Equal(t, "* InfrastructureReady: FakeMachine has been deleted while the Machine still exists",
		conditionOf(fresh, contract.ConditionReady).Message)
	w.recorded(contract.ReasonDeleted, 1)
}

func TestABootstrapConfigThatIsDeletedLaterIsNoLoop(t *testing.T) {
	w := byHandWorld(t, machine.Options{})
	m := w.runningByHand("m", "fake://x/1")
	w.Delete(fake.BootstrapConfig(contract.V1Beta2, "m"))
	require.Equal(t, "FakeConfig does not exist", w.conditionIs(m, contract.ConditionBootstrapConfigReady, contract.ReasonDoesNotExist))
	w.isQuiet()
	fresh := w.Get(m)
	require.Equal(t, "* BootstrapConfigReady: FakeConfig does not exist", conditionOf(fresh, contract.ConditionReady).Message)
	require.Equal(t, "m", textAt(fresh, "spec", "bootstrap", "dataSecretName"))
}

func TestANodeThatIsDeletedUnderItsMachineIsOneEventAndNoLoop(t *testing.T) {
	w := byHandWorld(t, machine.Options{})
	m := w.runningByHand("m", "fake://x/1")
	w.Delete(w.node("m"))
	for _, kind := range []string{contract.ConditionNodeReady, machine.ConditionNodeHealthy} {
		require.Equal(t, "Node m has been deleted while the Machine still exists", w.conditionIs(m, kind, machine.ReasonNodeDeleted))
		require.Equal(t, metav1.ConditionFalse, conditionOf(w.Get(m), kind).Status)
	}
	w.isQuiet()
	w.recorded(machine.ReasonNodeDeleted, 1)
	require.Equal(t, "Running", textAt(w.Get(m), "status", "phase"))
}

func TestAProviderIDThatChangesLaterTakesTheMachineToAnotherNode(t *testing.T) {
	w := byHandWorld(t, machine.Options{})
	m := w.runningByHand("m", "fake://x/1")
	w.setInfra("m", map[string]any{"initialization": map[string]any{"provisioned": true}}, "fake://x/2")
	message := w.conditionIs(m, contract.ConditionNodeReady, machine.ReasonNodeDeleted)
	require.Contains(t, message, `its spec.providerID is "fake://x/1", this Machine's is "fake://x/2"`)
	w.isQuiet()
	require.Equal(t, "fake://x/2", providerIDOf(w.Get(m)))
	w.Create(fake.Node("second", "fake://x/2"))
	w.conditionIs(m, contract.ConditionReady, contract.ReasonReady)
	require.Equal(t, "second", textAt(w.Get(m), "status", "nodeRef", "name"))
	w.Remove(m)
	require.False(t, w.node("m").Spec.Unschedulable, "the Node that it had before is left alone")
}

// defaults are the conditions that each Machine has from its first status on.
func defaults() []string {
	return []string{
		contract.ConditionAvailable, contract.ConditionBootstrapConfigReady, contract.ConditionDeleting, contract.ConditionInfrastructureReady,
		machine.ConditionNodeHealthy, contract.ConditionNodeReady, contract.ConditionPaused, contract.ConditionReady,
		contract.ConditionUpdating,
	}
}

func TestEveryStatusHasAllConditionsAndNoneIsUnknownWithoutAReason(t *testing.T) {
	w := newWorld(t, worldOptions{machine: machine.Options{Options: pass.Options{StatusDelay: -1}}, infrastructure: fake.Infrastructure{
		ProviderOptions: fake.ProviderOptions{Delay: fake.Constant(50 * time.Millisecond)}, NodeDelay: fake.Constant(50 * time.Millisecond)}})
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(fake.MachineGVK())
	events, err := w.client.Watch(t.Context(), list, client.InNamespace("default"))
	require.NoError(t, err)
	m := w.machineWith("m1")
	w.conditionIs(m, contract.ConditionAvailable, contract.ReasonAvailable)
	w.Remove(m)
	statuses := 0
	defer events.Stop()
	for e := range events.ResultChan() {
		if e.Type == watch.Deleted {
			break
		}
		seen, ok := e.Object.(*unstructured.Unstructured)
		require.True(t, ok)
		if _, found := seen.Object["status"]; !found {
			continue
		}
		statuses++
		all, err := contract.ConditionsAt("status", "conditions").Get(seen.Object, nil)
		require.NoError(t, err)
		var kinds []string
		for _, c := range all {
			kinds = append(kinds, c.Type)
			require.False(t, c.Reason == "" || (c.Status != metav1.ConditionTrue && c.Status != metav1.ConditionFalse && c.Message == ""))
		}
		require.Empty(t, cmp.Diff(defaults(), kinds), "status %d", statuses)
	}
	require.NotZero(t, statuses)
}

func TestAMachineIsAvailableAfterItsTimeAndShowsAnUpdateInPlace(t *testing.T) {
	clock := clocktesting.NewFakePassiveClock(time.Now())
	w := byHandWorld(t, machine.Options{Options: pass.Options{Clock: clock, StatusDelay: -1}})
	m := fake.Machine("m", fake.WithField(int64(1), "spec", "minReadySeconds"))
	w.Create(fake.BootstrapConfig(contract.V1Beta2, "m"), fake.InfraMachine(contract.V1Beta2, "m"), m)
	w.setInfra("m", map[string]any{"initialization": map[string]any{"provisioned": true}}, "fake://x/1")
	w.setConfig("m", dataCreated("m"))
	w.Create(fake.Node("m", "fake://x/1"))
	w.conditionIs(m, contract.ConditionAvailable, machine.ReasonWaitingForMinReadySeconds)
	clock.SetTime(clock.Now().Add(time.Second))
	w.conditionIs(m, contract.ConditionAvailable, contract.ReasonAvailable)

	mark := func(value any) {
		base := w.Get(m)
		marked := base.DeepCopy()
		annotations := marked.GetAnnotations()
		delete(annotations, contract.PendingHooksAnnotation)
		if value != nil {
			annotations[contract.PendingHooksAnnotation] = "UpdateMachine"
		}
		marked.SetAnnotations(annotations)
		require.NoError(t, w.client.Patch(t.Context(), marked, client.MergeFrom(base)))
	}
	mark("")
	w.reaches(m, "Updating")
	require.Equal(t, "* Updating: In-place update in progress", conditionOf(w.Get(m), contract.ConditionReady).Message)
	mark(nil)
	w.reaches(m, "Running")
}

func TestAMachineCostsFewWritesFromItsCreationToItsEnd(t *testing.T) {
	// However slow this test is, only the first status, those that a step needs, and those that change the readiness are written.
	w := newWorld(t, worldOptions{machine: machine.Options{Options: pass.Options{StatusDelay: time.Minute}}})
	nodes, err := w.client.Watch(t.Context(), &corev1.NodeList{})
	require.NoError(t, err)
	defer nodes.Stop()
	m := w.ready("m1")
	w.Remove(m)
	w.recorded(machine.EventNodeDrained, 1)
	counts := w.writes()
	counts["Node"] = changesUntilDeleted(nodes) // A pass whose cache does not show the cordon yet repeats it, which changes nothing.
	t.Logf("writes: %v", counts)
	want := map[string]int{"FakeConfig": 2, "FakeMachine": 2, "Machine": 6, "Machine/status": 3, "Node": 3, "Event": 2}
	require.Equal(t, 3, counts["Node"], "labels, cordon, deletion")
	for kind, most := range want {
		require.LessOrEqual(t, counts[kind], most, kind)
	}
	require.Len(t, counts, len(want))
	var node corev1.Node
	require.Error(t, w.client.Get(t.Context(), client.ObjectKey{Name: "m1"}, &node))
}

// changesUntilDeleted counts the changes of a Node that a reconciler makes: its metadata, the cordon and its deletion.
func changesUntilDeleted(nodes watch.Interface) int {
	var last *corev1.Node
	for changes := 0; ; {
		e, open := <-nodes.ResultChan()
		node, _ := e.Object.(*corev1.Node)
		switch {
		case !open:
			return changes
		case e.Type == watch.Deleted:
			return changes + 1
		case last != nil && (node.Spec.Unschedulable != last.Spec.Unschedulable ||
			!maps.Equal(node.Labels, last.Labels) || !maps.Equal(node.Annotations, last.Annotations)):
			changes++
		}
		last = node
	}
}

func TestANodeThatIsNewToADeletionIsRecordedAtOnce(t *testing.T) {
	// A status would wait for longer than this test does.
	w := byHandWorld(t, machine.Options{Options: pass.Options{StatusDelay: time.Minute}})
	m := w.runningByHand("m", "fake://x/1")
	hook := contract.PreDrainHook + "/test"
	w.annotate(m, map[string]any{hook: ""})
	w.Delete(m)
	w.Delete(w.node("m"))
	w.Create(fake.Node("m", "fake://x/1"))
	w.runningByHand("later", "fake://x/2") // who has seen its Node has seen the one before
	w.annotate(m, map[string]any{hook: nil})
	w.Gone(m)
	require.Nil(t, w.node("m"))
}
