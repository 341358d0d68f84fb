package external

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// deserted is a server and a cache that have no objects at first.
type deserted struct {
	cache.Cache

	settled bool
}

func (d *deserted) Get(_ context.Context, key client.ObjectKey, _ client.Object, _ ...client.GetOption) error {
	if d.settled {
		return nil
	}
	return apierrors.NewNotFound(schema.GroupResource{Resource: "clusters"}, key.Name)
}

func TestOnlyTheAPIServerMakesAClusterAbsent(t *testing.T) {
	for name, tc := range map[string]struct {
		cached, stored bool
		want           Presence
	}{
		"the cache has it":      {true, false, Present},
		"its event is to come":  {false, true, Unread},
		"nobody has it":         {false, false, Absent},
		"the cache has it, too": {true, true, Present},
	} {
		server := &deserted{settled: tc.stored}
		c, err := NewClusters(&deserted{settled: tc.cached}, server, ClusterOptions{})
		require.NoError(t, err)
		c.tracker.kinds[c.gvk] = &listed{synced: true}
		view, err := c.Of(t.Context(), types.NamespacedName{Name: "demo"})
		require.NoError(t, err)
		require.Equal(t, tc.want, view.Presence, name)
		require.Equal(t, tc.want == Unread, view.RetryAfter == AbsenceRetry, name)
	}
}

// MachineDrainRules select Clusters by their labels: a drain that waits for such a rule gets no other event.
func TestOnlyChangesThatMatterToMachinesCauseEvents(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*unstructured.Unstructured)
		news   bool
	}{
		"nothing":       {func(*unstructured.Unstructured) {}, false},
		"a label":       {func(u *unstructured.Unstructured) { u.SetLabels(map[string]string{"tier": "a"}) }, true},
		"an annotation": {func(u *unstructured.Unstructured) { u.SetAnnotations(map[string]string{"note": "a"}) }, false},
		"a pause": {func(u *unstructured.Unstructured) {
			require.NoError(t, unstructured.SetNestedField(u.Object, true, "spec", "paused"))
		}, true},
		"a counter": {func(u *unstructured.Unstructured) {
			require.NoError(t, unstructured.SetNestedField(u.Object, int64(3), "status", "workers", "readyReplicas"))
		}, false},
	} {
		server := &deserted{}
		c, err := NewClusters(server, server, ClusterOptions{})
		require.NoError(t, err)
		old := &unstructured.Unstructured{Object: map[string]any{}}
		old.SetGroupVersionKind(c.gvk)
		old.SetName("demo")
		old.SetResourceVersion("1")
		now := old.DeepCopy()
		now.SetResourceVersion("2")
		tc.change(now)
		woken := 0
		c.tracker.start(&sink{t.Context(), nil, func(context.Context, client.Object, client.Object) []reconcile.Request {
			woken++
			return nil
		}})
		c.tracker.handler(ofKind(c.gvk)).OnUpdate(old, now)
		require.Equal(t, tc.news, woken == 1, name)
	}
}
