package fake_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/fake"
)

func TestListOlderThanTheHistory(t *testing.T) {
	store := fake.NewStore(fake.Options{History: 4})
	c := store.Client()
	for _, name := range []string{"a", "b", "c"} {
		require.NoError(t, c.Create(t.Context(), configMap(name)))
	}
	var list corev1.ConfigMapList
	require.NoError(t, c.List(t.Context(), &list, client.Limit(1)))
	changed := configMap("b")
	for i := range 20 {
		changed.Data["k"] = fmt.Sprint(i)
		require.NoError(t, c.Update(t.Context(), changed))
	}
	err := c.List(t.Context(), &corev1.ConfigMapList{}, client.Limit(1), client.Continue(list.Continue))
	require.True(t, apierrors.IsResourceExpired(err), "%v", err)
	var status *apierrors.StatusError
	require.ErrorAs(t, err, &status)
	require.NoError(t, c.List(t.Context(), &list, client.Continue(status.ErrStatus.Continue)))
	require.Len(t, list.Items, 2)
	require.Equal(t, "19", list.Items[0].Data["k"])
}

func TestACacheLagsBehindTheStore(t *testing.T) {
	clock := clocktesting.NewFakeClock(time.Now())
	store := fake.NewStore(fake.Options{Clock: clock, CacheLagFunc: func(schema.GroupKind, types.NamespacedName) time.Duration {
		return time.Minute
	}})
	informers, err := cache.New(store.RESTConfig(), cache.Options{})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- informers.Start(ctx) }()
	require.True(t, informers.WaitForCacheSync(ctx))
	require.NoError(t, informers.List(ctx, &corev1.ConfigMapList{})) // starts the informer and waits for it

	cm := configMap("late")
	require.NoError(t, store.Client().Create(ctx, cm))
	key := client.ObjectKeyFromObject(cm)
	eventually(t, "the watcher to wait for the clock", func(context.Context) (bool, error) { return clock.HasWaiters(), nil })
	require.True(t, apierrors.IsNotFound(informers.Get(ctx, key, &corev1.ConfigMap{})), "the cache is stale")
	eventually(t, "the cache to catch up", func(ctx context.Context) (bool, error) {
		clock.Step(time.Minute)
		err := informers.Get(ctx, key, &corev1.ConfigMap{})
		return err == nil, client.IgnoreNotFound(err)
	})
	cancel()
	require.NoError(t, <-done)
}

func TestAWatchFromBeforeTheHistoryIsExpired(t *testing.T) {
	store := fake.NewStore(fake.Options{History: 4})
	c := store.Client()
	cm := configMap("busy")
	require.NoError(t, c.Create(t.Context(), cm))
	first := cm.ResourceVersion
	for i := range 20 {
		cm.Data["k"] = fmt.Sprint(i)
		require.NoError(t, c.Update(t.Context(), cm))
	}
	_, err := c.Watch(t.Context(), &corev1.ConfigMapList{}, &client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: first}})
	require.True(t, apierrors.IsResourceExpired(err), "%v", err)
}

func TestASlowWatcherIsCutOffAndDelaysNoOther(t *testing.T) {
	store := fake.NewStore(fake.Options{History: 10})
	c := store.Client()
	w, err := c.Watch(t.Context(), &corev1.ConfigMapList{})
	require.NoError(t, err)
	defer w.Stop()
	cm := configMap("busy")
	require.NoError(t, c.Create(t.Context(), cm))
	for i := range 500 { // without a reader
		cm.Data["k"] = fmt.Sprint(i)
		require.NoError(t, c.Update(t.Context(), cm))
	}
	for event := range w.ResultChan() {
		if err := apierrors.FromObject(event.Object); event.Type == "ERROR" {
			require.True(t, apierrors.IsResourceExpired(err), "%v", err)
			return
		}
	}
	t.Error("the watch ended without an error")
}
