package patch_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/fake"
	"github.com/machinist-dev/machinist/internal/patch"
)

// stored returns the client of a store, a Writer, and a Machine as it was read.
func stored(t *testing.T) (client.Client, *patch.Writer, *unstructured.Unstructured) {
	t.Helper()
	c := fake.NewStore(fake.Options{Kinds: []fake.ServedKind{{GVK: fake.MachineGVK(), Status: true}}}).Client()
	m := fake.Machine("m1")
	require.NoError(t, c.Create(t.Context(), m))
	return c, patch.NewWriter(c, nil), m
}

func answer() *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(fake.MachineGVK())
	return u
}

func phased(t *testing.T, m *unstructured.Unstructured, phase string) patch.Document {
	t.Helper()
	c, err := patch.Apply(machineKind(), m, contract.MachineUpdate{Phase: contract.SetTo(phase)})
	require.NoError(t, err)
	return c
}

func TestAWriteIsBehindUntilTheCacheShowsIt(t *testing.T) {
	_, w, m := stored(t)
	before := m.DeepCopy()
	got := answer()
	require.NoError(t, w.Send(t.Context(), m, got, phased(t, m, "Running").Status(), true))
	phase, _, _ := unstructured.NestedString(got.Object, "status", "phase")
	require.Equal(t, "Running", phase)
	if diff := cmp.Diff(before.Object, m.Object); diff != "" {
		t.Errorf("what was read has changed (-was +is):\n%s", diff)
	}
	require.True(t, w.Behind(m))
	require.False(t, w.Behind(got))
}

func TestAnObjectThatWasReplacedIsNotChanged(t *testing.T) {
	c, w, m := stored(t)
	require.NoError(t, c.Delete(t.Context(), m.DeepCopy()))
	again := fake.Machine("m1")
	require.NoError(t, c.Create(t.Context(), again))
	for _, status := range []bool{false, true} {
		document := phased(t, m, "Running").Status()
		if !status {
			contents, err := patch.Apply(machineKind(), m, contract.MachineUpdate{ProviderID: contract.SetTo("fake://1")})
			require.NoError(t, err)
			document = contents.Main()
		}
		err := w.Send(t.Context(), m, answer(), document, status)
		require.Error(t, err)
		require.True(t, patch.Retryable(err), "%v", err)
	}
}

func TestAListIsReplacedOnlyAsItWasRead(t *testing.T) {
	c, w, m := stored(t)
	other := m.DeepCopy()
	other.SetFinalizers([]string{"example.com/others"})
	require.NoError(t, c.Update(t.Context(), other))

	finalizers, err := patch.Apply(machineKind(), m, contract.MachineUpdate{MetadataUpdate: contract.MetadataUpdate{
		Finalizers: contract.SetTo([]string{"example.com/ours"})}})
	require.NoError(t, err)
	err = w.Send(t.Context(), m, answer(), finalizers.Main(), false)
	require.True(t, patch.Retryable(err), "%v", err)
	require.NoError(t, c.Get(t.Context(), client.ObjectKeyFromObject(m), other))
	require.Equal(t, []string{"example.com/others"}, other.GetFinalizers())
}
