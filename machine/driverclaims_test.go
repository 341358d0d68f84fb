package machine_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/fake"
	"github.com/machinist-dev/machinist/machine"
	"github.com/machinist-dev/machinist/machine/provider"
	"github.com/machinist-dev/machinist/phases"
)

// copied creates a copy of a Machine under another name, as a person makes it, whose drain is left out.
func (w *cloudWorld) copied(m *unstructured.Unstructured, name, reason string) *unstructured.Unstructured {
	w.t.Helper()
	u := &unstructured.Unstructured{Object: map[string]any{"spec": w.Get(m).Object["spec"]}}
	u.SetGroupVersionKind(m.GroupVersionKind())
	u.SetNamespace(m.GetNamespace())
	u.SetName(name)
	u.SetAnnotations(map[string]string{contract.ExcludeDrain: ""})
	w.Create(u)
	w.conditionIs(u, contract.ConditionNodeReady, reason)
	return u
}

func TestACopyOfAMachineIsNotDeletedWithTheInstanceOfTheOriginal(t *testing.T) {
	w := newCloudWorld(t, fake.DriverOptions{})
	m := w.running()

	second := w.copied(m, "m2", contract.ReasonNodeClaimed)
	w.Delete(second)
	said := w.conditionIs(second, contract.ConditionDeleting, contract.ReasonWaitingForInfrastructureDeletion)
	require.Contains(t, said, "default/m1 claims it too: delete that one as well")
	w.isQuiet()
	require.Len(t, w.listedInCloud(), 1)

	t.Log("without the provider ID it goes alone")
	w.Change(second, func(u *unstructured.Unstructured) { unstructured.RemoveNestedField(u.Object, "spec", "providerID") })
	w.Gone(second)
	require.Len(t, w.listedInCloud(), 1)
	w.reaches(m, string(phases.Running))

	t.Log("the original goes with its instance, and then nothing holds a copy")
	third, stays := w.copied(m, "m3", contract.ReasonNodeClaimed), w.copied(m, "m4", contract.ReasonNodeClaimed)
	w.Delete(third)
	w.conditionIs(third, contract.ConditionDeleting, contract.ReasonWaitingForInfrastructureDeletion)
	w.Remove(m)
	require.Empty(t, w.listedInCloud())
	require.NotNil(t, w.Get(stays))
	w.Delete(stays)
	w.Gone(third, stays)
}

// A person has replaced the original with what it was before it had an instance, or a webhook prunes the field.
func TestACopyIsNotDeletedWithTheInstanceOfAnOriginalThatHasLostItsProviderID(t *testing.T) {
	w := newCloudWorld(t, fake.DriverOptions{})
	m := w.running()
	second := w.copied(m, "m2", contract.ReasonNodeClaimed)
	w.Change(m, func(u *unstructured.Unstructured) {
		u.SetAnnotations(map[string]string{contract.PausedAnnotation: ""})
		unstructured.RemoveNestedField(u.Object, "spec", "providerID")
	})
	w.Delete(second)
	said := w.conditionIs(second, contract.ConditionDeleting, contract.ReasonWaitingForInfrastructureDeletion)
	require.Contains(t, said, "default/m1 claims it too: delete that one as well")
	w.isQuiet()
	require.Len(t, w.listedInCloud(), 1)

	t.Log("it gets the provider ID back, and holds the copy as before")
	w.Change(m, func(u *unstructured.Unstructured) { u.SetAnnotations(nil) })
	w.reaches(m, string(phases.Running))
	require.Len(t, w.listedInCloud(), 1)
}

// A backup has replaced the original with what it was before it had an instance, and a copy, which a person then deletes, has its Node.
func TestACopyThatHasRecordedTheNodeOfTheOriginalLeavesItAlone(t *testing.T) {
	w := newCloudWorld(t, fake.DriverOptions{})
	m := w.running()
	second := w.copied(m, "m2", contract.ReasonNodeClaimed)
	w.Change(m, func(u *unstructured.Unstructured) {
		u.SetAnnotations(map[string]string{contract.PausedAnnotation: ""})
		unstructured.RemoveNestedField(u.Object, "spec", "providerID")
	})
	w.merge(m, map[string]any{"status": map[string]any{"nodeRef": nil}})
	w.conditionIs(second, contract.ConditionNodeReady, machine.ReasonNodeReady)
	w.Change(second, func(u *unstructured.Unstructured) { u.SetAnnotations(nil) })

	w.Delete(second)
	said := w.conditionIs(second, contract.ConditionDeleting, contract.ReasonWaitingForInfrastructureDeletion)
	require.Contains(t, said, "default/m1 claims it too: delete that one as well")
	w.isQuiet()
	require.False(t, w.node("m1").Spec.Unschedulable)
	require.Contains(t, w.recorded(machine.EventNodeNotDrained, 1)[0].Note, "its instance was made for Machine default/m1")
	require.Len(t, w.listedInCloud(), 1)

	t.Log("it waits for the original, and goes when that goes")
	w.Delete(m)
	w.Change(m, func(u *unstructured.Unstructured) { u.SetAnnotations(nil) })
	w.Gone(m, second)
	require.Empty(t, w.listedInCloud())
}

// The cloud provider removes the Node of an instance that is gone, before or after the Driver says that it is.
func TestAnInstanceWhoseDeletionHasBegunIsNotHeldWhenItsNodeGoes(t *testing.T) {
	w := newCloudWorld(t, fake.DriverOptions{Vanish: 500 * time.Millisecond})
	m := w.running()
	second := w.copied(m, "m2", contract.ReasonNodeClaimed)
	w.Delete(m)
	w.Until("the deletion of the instance", func() bool {
		all := w.listedInCloud()
		return len(all) != 1 || all[0].State == provider.Deleting
	})
	require.NoError(t, client.IgnoreNotFound(w.client.Delete(t.Context(), fake.Node("m1", "fake://1"))))
	w.Gone(m)
	require.Empty(t, w.listedInCloud())
	require.NotNil(t, w.Get(second))
}

// A copy without a Node takes an instance over: what made it gets the provider ID back that a person removes.
func TestAMachineLeavesItsInstanceToACopyWithoutItsFinalizer(t *testing.T) {
	w := newCloudWorld(t, fake.DriverOptions{})
	m := w.machineOf("small")
	w.Until("a provider ID", func() bool { return providerIDOf(w.Get(m)) != "" })
	second := w.copied(m, "m2", contract.ReasonInspectionFailed)
	w.Delete(m)
	held := func() {
		said := w.conditionIs(m, contract.ConditionDeleting, contract.ReasonWaitingForInfrastructureDeletion)
		require.Contains(t, said, "default/m2 claims it too: delete that one as well")
		require.Contains(t, said, "remove the value here and, where it comes back, the finalizer "+w.Get(m).GetFinalizers()[0])
	}
	held()
	w.Change(m, func(u *unstructured.Unstructured) { unstructured.RemoveNestedField(u.Object, "spec", "providerID") })
	w.isQuiet()
	held()
	require.Len(t, w.listedInCloud(), 1)
	w.Change(m, func(u *unstructured.Unstructured) { u.SetFinalizers(nil) })
	w.Gone(m)
	require.Len(t, w.listedInCloud(), 1)
	require.NotNil(t, w.Get(second))
}

// A backup was restored for another cluster, as for a drill. Node indexes of both show the same Nodes.
func TestAnInstanceIsNotDeletedWithACopyOfAnotherCluster(t *testing.T) {
	cloud := fake.NewDriver(fake.DriverOptions{})
	steps := machine.WithDriver(machine.Steps(), machine.DriverOptions{
		Calls: provider.Of(cloud), Backoff: quickBackoff(), Poll: 10 * time.Millisecond,
		RequestOf: func(context.Context, *contract.MachineState) (provider.Request, error) {
			return provider.Request{Spec: []byte(`{"size":"small"}`)}, nil
		},
	})
	steps = steps.Remove(machine.StepBootstrap)
	w := newWorld(t, worldOptions{noCRDs: true, machine: machine.Options{Steps: steps}, ports: (&views{}).ports("none")})
	m := fake.Machine("m1", inCluster("a"))
	w.Create(m)
	c := &cloudWorld{world: w, cloud: cloud}
	c.joins(m)
	w.reaches(m, string(phases.Running))
	instances := func() []provider.Instance {
		all, err := cloud.List(t.Context(), provider.Request{Cluster: "a"})
		require.NoError(t, err)
		return all
	}
	copyOf := func(name string) *unstructured.Unstructured {
		second := fake.Machine(name, inCluster("b"), fake.WithField("fake://1", "spec", "providerID"))
		second.SetAnnotations(map[string]string{contract.ExcludeDrain: ""})
		w.Create(second)
		w.reaches(second, string(phases.Running))
		return second
	}

	second := copyOf("m2")
	w.Delete(second)
	said := w.conditionIs(second, contract.ConditionDeleting, contract.ReasonWaitingForInfrastructureDeletion)
	require.Contains(t, said, "default/m1 claims it too")
	require.Len(t, instances(), 1)

	t.Log("the copy does not hold the original, and nothing holds the copy when it is gone")
	w.Delete(m)
	w.Gone(m, second)
	require.Empty(t, instances())
}

// Unread is not absent: the rest of the object still says whose instance it is.
func TestAnInstanceStaysForAMachineThatCannotBeRead(t *testing.T) {
	w := newCloudWorld(t, fake.DriverOptions{})
	m := w.running()
	second := w.copied(m, "m2", contract.ReasonNodeClaimed)
	w.merge(second, map[string]any{"status": map[string]any{"phase": 1}})
	w.Delete(m)
	said := w.conditionIs(m, contract.ConditionDeleting, contract.ReasonWaitingForInfrastructureDeletion)
	require.Contains(t, said, "default/m2 claims it too")
	require.Len(t, w.listedInCloud(), 1)
}
