package fake_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/fake"
)

func TestAKindWithoutASchemaIsAppliedWithWholeLists(t *testing.T) {
	clock := clocktesting.NewFakeClock(time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC))
	kinds := []fake.ServedKind{{GVK: widget}, {GVK: widget.GroupKind().WithVersion("v1beta1")}}
	store := fake.NewStore(fake.Options{Clock: clock, Kinds: kinds})
	apply := func(version, manager string, list ...any) (*unstructured.Unstructured, error) {
		u := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"list": list}}}
		u.SetGroupVersionKind(widget.GroupKind().WithVersion(version))
		u.SetName("applied")
		u.SetNamespace("default")
		return u, store.Client().Apply(t.Context(), client.ApplyConfigurationFromUnstructured(u), client.FieldOwner(manager))
	}
	_, err := apply("v1", "first", "a", "b")
	require.NoError(t, err)
	clock.Step(time.Hour)
	_, err = apply("v1beta1", "second", "b")
	require.True(t, apierrors.IsConflict(err), "%v", err)
	require.True(t, apierrors.HasStatusCause(err, metav1.CauseTypeFieldManagerConflict), "%v", err)
	u, err := apply("v1", "first", "b")
	require.NoError(t, err)
	list, _, _ := unstructured.NestedStringSlice(u.Object, "spec", "list")
	require.Equal(t, []string{"b"}, list)
	require.Len(t, u.GetManagedFields(), 1)
	require.True(t, u.GetManagedFields()[0].Time.Time.Equal(clock.Now()), "not the store's clock: %s", u.GetManagedFields()[0].Time)
}

func TestAnObjectHasManagedFieldsFromItsFirstApplyOn(t *testing.T) {
	store := fake.NewStore(fake.Options{})
	wait := store.Start(t.Context(), fake.AllLoops())
	t.Cleanup(wait)
	c := store.Client()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", Labels: map[string]string{"a": "b"}}}
	require.NoError(t, c.Create(t.Context(), node))
	require.Empty(t, node.ManagedFields)
	patch := client.RawPatch(types.ApplyPatchType, []byte(`{"apiVersion":"v1","kind":"Node","metadata":{"name":"n","labels":{"c":"d"}}}`))
	require.NoError(t, c.Patch(t.Context(), node, patch, client.FieldOwner("first")))
	require.Equal(t, map[string]string{"a": "b", "c": "d"}, node.Labels)
	managers := map[string]bool{}
	eventually(t, "the kubelet loop to be a manager", func(ctx context.Context) (bool, error) {
		require.NoError(t, c.Patch(ctx, node, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"unschedulable":true}}`))))
		err := c.Get(ctx, client.ObjectKeyFromObject(node), node)
		for _, entry := range node.ManagedFields {
			managers[entry.Manager] = true
		}
		return managers["before-first-apply"] && managers["first"] && managers["fake-loops"], err
	})
}
