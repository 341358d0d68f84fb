package machine_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/fake"
	"github.com/machinist-dev/machinist/phases"
)

// copied creates a copy of a Machine under another name, as a person makes it, whose drain is left out.
func (w *cloudWorld) copied(m *unstructured.Unstructured, name string) *unstructured.Unstructured {
	w.t.Helper()
	u := &unstructured.Unstructured{Object: map[string]any{"spec": w.get(m).Object["spec"]}}
	u.SetGroupVersionKind(m.GroupVersionKind())
	u.SetNamespace(m.GetNamespace())
	u.SetName(name)
	u.SetAnnotations(map[string]string{contract.ExcludeDrain: ""})
	w.create(u)
	w.conditionIs(u, contract.ConditionNodeReady, contract.ReasonNodeClaimed)
	return u
}

func TestACopyOfAMachineIsNotDeletedWithTheInstanceOfTheOriginal(t *testing.T) {
	t.Parallel()
	w := newCloudWorld(t, fake.DriverOptions{})
	m := w.machineOf("small")
	w.joins(m)
	w.reaches(m, string(phases.Running))

	second := w.copied(m, "m2")
	require.NoError(t, w.client.Delete(t.Context(), second))
	said := w.conditionIs(second, contract.ConditionDeleting, contract.ReasonWaitingForInfrastructureDeletion)
	require.Contains(t, said, `default/m1 has spec.providerID "fake://1" too: remove it from the one that is wrong, or delete both`)
	w.isQuiet()
	require.Len(t, w.listedInCloud(), 1)

	t.Log("without the provider ID it goes alone")
	w.change(second, func(u *unstructured.Unstructured) { unstructured.RemoveNestedField(u.Object, "spec", "providerID") })
	w.goes(second)
	require.Len(t, w.listedInCloud(), 1)
	w.reaches(m, string(phases.Running))

	t.Log("the original goes with its instance, and then nothing holds a copy")
	third, stays := w.copied(m, "m3"), w.copied(m, "m4")
	require.NoError(t, w.client.Delete(t.Context(), third))
	w.conditionIs(third, contract.ConditionDeleting, contract.ReasonWaitingForInfrastructureDeletion)
	require.NoError(t, w.client.Delete(t.Context(), m))
	w.goes(m)
	require.Empty(t, w.listedInCloud())
	require.NotNil(t, w.get(stays))
	require.NoError(t, w.client.Delete(t.Context(), stays))
	w.goes(third, stays)
}
