package inframachine_test

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/internal/instance"
	"github.com/machinist-dev/machinist/machine/inframachine"
	"github.com/machinist-dev/machinist/machine/provider"
	"github.com/machinist-dev/machinist/phases"
)

// copied creates a copy of an InfraMachine under another name, as a person makes it, with its owner reference and its finalizer.
func (w *world) copied(infra *unstructured.Unstructured, name string) *unstructured.Unstructured {
	w.t.Helper()
	from := w.Get(infra)
	u := &unstructured.Unstructured{Object: map[string]any{"spec": from.Object["spec"]}}
	u.SetGroupVersionKind(from.GroupVersionKind())
	u.SetNamespace(from.GetNamespace())
	u.SetName(name)
	u.SetLabels(from.GetLabels())
	u.SetOwnerReferences(from.GetOwnerReferences())
	u.SetFinalizers(from.GetFinalizers())
	w.Create(u)
	return u
}

func TestACopyOfAnInfraMachineIsNotDeletedWithTheInstanceOfTheOriginal(t *testing.T) {
	t.Parallel()
	for _, v := range []contract.Version{contract.V1Beta1, contract.V1Beta2} {
		t.Run(string(v), func(t *testing.T) {
			w := newWorld(t, worldOptions{version: v})
			m, infra := w.machineOf("m1", "small")
			w.reaches(m, string(phases.Running))

			second := w.copied(infra, "second")
			c := w.says(second, contract.ConditionReady, inframachine.ReasonWaitingForMachine)
			require.Contains(t, c.Message, "Machine default/m1 has another object as its infrastructure")
			w.Delete(second)
			c = w.says(second, contract.ConditionDeleting, inframachine.ReasonWaitingForInstanceDeletion)
			require.Contains(t, c.Message, "CloudMachine m1 claims it too")
			w.isQuiet()
			require.Len(t, w.instances(), 1)

			t.Log("without the provider ID it goes alone")
			w.Change(second, withoutProviderID)
			w.Gone(second)
			require.Len(t, w.instances(), 1)
			w.reaches(m, string(phases.Running))

			t.Log("a copy does not hold the original, and goes when its Machine is gone")
			third := w.copied(infra, "third")
			w.says(third, contract.ConditionReady, inframachine.ReasonWaitingForMachine)
			w.Delete(m)
			w.Gone(m, infra)
			require.Empty(t, w.instances())
			if w.Get(third) != nil { // the garbage collector may have been faster
				_ = w.Client.Delete(t.Context(), third)
			}
			w.Gone(third)
		})
	}
}

func TestAnInfraMachineThatItsMachineDoesNotNameGetsNoInstance(t *testing.T) {
	w := newWorld(t, worldOptions{})
	m, infra := w.machineOf("m1", "small")
	w.reaches(m, string(phases.Running))
	bare := cloudMachine("bare", "small")
	bare.SetOwnerReferences(w.Get(infra).GetOwnerReferences())
	made := w.cloud.Calls(provider.OpCreate)
	w.Create(bare)
	w.says(bare, contract.ConditionReady, inframachine.ReasonWaitingForMachine)
	w.isQuiet()
	require.Equal(t, made, w.cloud.Calls(provider.OpCreate))
	require.Empty(t, w.Get(bare).GetFinalizers())
}

// taken creates a Machine with some annotations and with a copy of an InfraMachine, which has its provider ID and nothing else.
func (w *world) taken(infra *unstructured.Unstructured, namespace, name string, annotations ...string,
) (m, second *unstructured.Unstructured) {
	w.t.Helper()
	second = &unstructured.Unstructured{Object: map[string]any{"spec": w.Get(infra).Object["spec"]}}
	second.SetGroupVersionKind(infra.GroupVersionKind())
	second.SetNamespace(namespace)
	second.SetName(name)
	w.Create(second)
	return w.machineFor(second, annotations...), second
}

func withoutProviderID(u *unstructured.Unstructured) {
	unstructured.RemoveNestedField(u.Object, "spec", "providerID")
}

// The Token finds the instance of an InfraMachine whose provider ID a person has removed.
func TestWhatMadeAnInstanceLeavesItToACopyWithoutItsFinalizer(t *testing.T) {
	w := newWorld(t, worldOptions{})
	m, infra := w.machineOf("m1", "small")
	w.reaches(m, string(phases.Running))
	_, second := w.taken(infra, "default", "m2")
	w.says(second, contract.ConditionReady, contract.ReasonReady)
	w.Delete(m)
	held := func() {
		t.Helper()
		c := w.says(infra, contract.ConditionDeleting, inframachine.ReasonWaitingForInstanceDeletion)
		require.Contains(t, c.Message, "CloudMachine m2 claims it too: delete that one as well")
		require.Contains(t, c.Message, "remove the value here and, where it comes back, the finalizer "+inframachine.Finalizer)
	}
	held()
	w.Change(infra, withoutProviderID)
	w.Eventually("the provider ID", func() string {
		if fresh := w.Get(infra); fresh == nil {
			return ""
		} else if id, _, _ := unstructured.NestedString(fresh.Object, "spec", "providerID"); id == "" {
			return "none"
		}
		return ""
	})
	require.Len(t, w.instances(), 1)
	held()
	w.Change(infra, func(u *unstructured.Unstructured) { u.SetFinalizers(nil) })
	w.Gone(infra, m)
	require.Len(t, w.instances(), 1)
}

// The controller of Machines has not set the owner reference yet, and does not while the Machine is paused.
func TestAnInfraMachineIsNamedWithoutAnOwnerReference(t *testing.T) {
	w := newWorld(t, worldOptions{})
	m, infra := w.machineOf("m1", "small")
	w.reaches(m, string(phases.Running))
	_, second := w.taken(infra, "default", "m2", contract.PausedAnnotation)
	w.isQuiet()
	require.Empty(t, w.Get(second).GetOwnerReferences())
	w.Delete(m)
	c := w.says(infra, contract.ConditionDeleting, inframachine.ReasonWaitingForInstanceDeletion)
	require.Contains(t, c.Message, "CloudMachine m2 claims it too")
	w.isQuiet()
	require.Len(t, w.instances(), 1)
}

// A backup was restored into another namespace, as for a drill.
func TestAnInstanceIsNotDeletedWithACopyInAnotherNamespace(t *testing.T) {
	w := newWorld(t, worldOptions{})
	m, infra := w.machineOf("m1", "small")
	w.reaches(m, string(phases.Running))
	w.Create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "drill"}})
	m2, restored := w.taken(infra, "drill", "m1", contract.ExcludeDrain)
	w.says(restored, contract.ConditionReady, contract.ReasonReady)
	w.Delete(m2)
	c := w.says(restored, contract.ConditionDeleting, inframachine.ReasonWaitingForInstanceDeletion)
	require.Contains(t, c.Message, "CloudMachine default/m1 claims it too")
	require.Len(t, w.instances(), 1)
	w.Change(restored, withoutProviderID)
	w.Gone(restored, m2)
	require.Len(t, w.instances(), 1)

	t.Log("the copy does not hold the original")
	_, again := w.taken(infra, "drill", "m3")
	w.says(again, contract.ConditionReady, contract.ReasonReady)
	w.Delete(m)
	w.Gone(infra, m)
	require.Empty(t, w.instances())
	require.NotNil(t, w.Get(again))
}

// A Driver without a provider ID at first finds the instance by what it wants to resume with, whoever asks.
func TestAnInstanceIsNotDeletedWithACopyOfWhatResumesIt(t *testing.T) {
	const job = `{"job":7}`
	var of, deleted atomic.Value
	jobs := func(c provider.Calls) provider.Calls {
		c.Create = func(_ context.Context, r provider.Request) (provider.Instance, error) {
			of.CompareAndSwap(nil, r.Token)
			return provider.Instance{Token: r.Token, State: provider.Creating, Resume: []byte(job)}, nil
		}
		c.Get = func(_ context.Context, r provider.Request) (provider.Instance, error) {
			if string(r.Resume) != job && r.Token != of.Load() {
				return provider.Instance{}, provider.Errorf(provider.NotFound, "no job")
			}
			return provider.Instance{Token: r.Token, State: provider.Creating, Resume: []byte(job)}, nil
		}
		c.Delete = func(_ context.Context, r provider.Request) (bool, error) {
			if string(r.Resume) == job || r.Token == of.Load() {
				deleted.Store(r.Token)
			}
			return true, nil
		}
		return c
	}
	w := newWorld(t, worldOptions{around: []provider.Decorator{jobs}})
	_, infra := w.machineOf("m1", "small")
	w.says(infra, contract.ConditionReady, instance.ReasonCreating)
	second := w.copied(infra, "second")
	w.Change(second, func(u *unstructured.Unstructured) {
		u.SetAnnotations(map[string]string{contract.InstanceResumeAnnotation: job})
	})
	w.Delete(second)
	c := w.says(second, contract.ConditionDeleting, inframachine.ReasonWaitingForInstanceDeletion)
	require.Contains(t, c.Message, "with the annotation "+contract.InstanceResumeAnnotation+
		" of this one is not deleted while CloudMachine m1 claims it too")
	require.Nil(t, deleted.Load())
	w.Change(second, func(u *unstructured.Unstructured) { u.SetAnnotations(nil) })
	w.Gone(second)
	require.Nil(t, deleted.Load())
}

// Unread is not absent: the rest of the object still says whose instance it is.
func TestAnInstanceStaysForAnInfraMachineThatCannotBeRead(t *testing.T) {
	w := newWorld(t, worldOptions{})
	m, infra := w.machineOf("m1", "small")
	w.reaches(m, string(phases.Running))
	_, second := w.taken(infra, "default", "m2")
	w.says(second, contract.ConditionReady, contract.ReasonReady)
	broken := w.Get(second)
	require.NoError(t, unstructured.SetNestedField(broken.Object, "yes", "status", "initialization", "provisioned"))
	require.NoError(t, w.Client.Status().Update(t.Context(), broken))
	w.Delete(m)
	c := w.says(infra, contract.ConditionDeleting, inframachine.ReasonWaitingForInstanceDeletion)
	require.Contains(t, c.Message, "CloudMachine m2 claims it too")
	require.Len(t, w.instances(), 1)
}
