package children_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/machinist-dev/machinist/internal/children"
)

// later is a queue that takes requests for later only.
type later struct {
	workqueue.TypedRateLimitingInterface[reconcile.Request]

	added map[string]int
	soon  bool
}

func (l *later) AddAfter(r reconcile.Request, after time.Duration) {
	l.added[r.Name]++
	l.soon = l.soon || after <= 0
}

func TestEventsOfManyObjectsAreGathered(t *testing.T) {
	t.Parallel()
	ofPool := children.Gathered(func(_ context.Context, obj client.Object) []reconcile.Request {
		return []reconcile.Request{{NamespacedName: client.ObjectKey{Name: obj.GetLabels()["pool"]}}}
	})
	in := func(pool string) client.Object {
		u := &unstructured.Unstructured{}
		u.SetLabels(map[string]string{"pool": pool})
		return u
	}
	q := &later{added: map[string]int{}}
	ofPool.Create(t.Context(), event.CreateEvent{Object: in("created")}, q)
	ofPool.Delete(t.Context(), event.DeleteEvent{Object: in("deleted")}, q)
	ofPool.Update(t.Context(), event.UpdateEvent{ObjectOld: in("old"), ObjectNew: in("new")}, q)
	ofPool.Update(t.Context(), event.UpdateEvent{ObjectOld: in("same"), ObjectNew: in("same")}, q)
	require.Equal(t, map[string]int{"created": 1, "deleted": 1, "old": 1, "new": 1, "same": 1}, q.added)
	require.False(t, q.soon)
}
