package external

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// listing is a cache with one informer.
type listing struct {
	cache.Cache

	informer *listed
}

func (l listing) GetInformer(context.Context, client.Object, ...cache.InformerGetOption) (cache.Informer, error) {
	return l.informer, nil
}

type listed struct {
	cache.Informer

	synced  bool
	handler toolscache.ResourceEventHandler
}

func (l *listed) AddEventHandler(handler toolscache.ResourceEventHandler) (toolscache.ResourceEventHandlerRegistration, error) {
	l.handler = handler
	return nil, nil
}

func (l *listed) HasSynced() bool {
	return l.synced
}

// Otherwise an event races with the caller, which reads an object of the cache into the same variable.
func TestTheObjectThatNamesAKindIsNotKept(t *testing.T) {
	list := &listed{synced: true}
	var told []string
	tracker := NewTracker(listing{informer: list}, func(_ context.Context, watched, _ client.Object) []reconcile.Request {
		told = append(told, watched.GetObjectKind().GroupVersionKind().Kind)
		return nil
	}, "test")
	queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
	t.Cleanup(queue.ShutDown)
	require.NoError(t, tracker.Start(t.Context(), queue))
	kind := thing()
	_, err := tracker.Ensure(t.Context(), kind)
	require.NoError(t, err)
	kind.SetKind("Other")
	list.handler.OnAdd(thing(), false)
	require.Equal(t, []string{"Thing"}, told)
}

func thing() *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	u.SetAPIVersion("example.com/v1")
	u.SetKind("Thing")
	return u
}
