package external

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// deserted is a server, and a cache, without objects until somebody settles.
type deserted struct {
	cache.Cache

	asked   int
	settled bool
}

func (d *deserted) Get(_ context.Context, key client.ObjectKey, _ client.Object, _ ...client.GetOption) error {
	d.asked++
	if d.settled {
		return nil
	}
	return apierrors.NewNotFound(schema.GroupResource{Resource: "clusters"}, key.Name)
}

func TestClustersThatNeverComeBackAreNotRememberedForEver(t *testing.T) {
	server := &deserted{}
	c, err := NewClusters(server, server, ClusterOptions{Clock: clocktesting.NewFakePassiveClock(time.Unix(1000, 0))})
	require.NoError(t, err)
	look := func(name string) {
		view, err := c.missing(t.Context(), types.NamespacedName{Name: name}, ClusterView{Presence: Unread})
		require.NoError(t, err)
		require.Equal(t, Absent, view.Presence)
	}
	for i := range 5 * maxAbsent {
		look(fmt.Sprint(i))
		look(fmt.Sprint(i))
	}
	require.Equal(t, 5*maxAbsent, server.asked, "each is asked for once")
	require.LessOrEqual(t, len(c.absent), maxAbsent)
}

// A watch may be broken while everything else works: then no event tells that a Cluster has come, which was restored for example.
func TestAClusterIsNotTakenForAbsentLongAfterTheAPIServerSaidSo(t *testing.T) {
	server, now := &deserted{}, clocktesting.NewFakePassiveClock(time.Unix(1000, 0))
	c, err := NewClusters(server, server, ClusterOptions{Clock: now})
	require.NoError(t, err)
	look := func() Presence {
		view, err := c.missing(t.Context(), types.NamespacedName{Name: "demo"}, ClusterView{Presence: Unread})
		require.NoError(t, err)
		return view.Presence
	}
	require.Equal(t, Absent, look())
	require.Equal(t, Absent, look())
	require.Equal(t, 1, server.asked)
	server.settled = true
	now.SetTime(now.Now().Add(absentFor))
	require.Equal(t, Unread, look(), "it is there, and its event has yet to come")
}

// MachineDrainRules select Clusters by their labels: a drain that waits for such a rule has no other event.
func TestWhatMachinesLookAtInAClusterIsNews(t *testing.T) {
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
		c.handler().OnUpdate(old, now)
		require.Equal(t, tc.news, c.events == 1, name)
	}
}
