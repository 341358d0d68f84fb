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
	takes   func() // happens while it answers
}

func (d *deserted) Get(_ context.Context, key client.ObjectKey, _ client.Object, _ ...client.GetOption) error {
	d.asked++
	if d.takes != nil {
		d.takes()
	}
	if d.settled {
		return nil
	}
	return apierrors.NewNotFound(schema.GroupResource{Resource: "clusters"}, key.Name)
}

func TestClustersThatTheCacheNeverShowsAreNotRememberedForEver(t *testing.T) {
	for _, settled := range []bool{false, true} {
		server := &deserted{settled: settled}
		c, err := NewClusters(server, server, ClusterOptions{Clock: clocktesting.NewFakePassiveClock(time.Unix(1000, 0))})
		require.NoError(t, err)
		for i := range 5 * maxAnswers {
			for range 2 {
				view, err := c.missing(t.Context(), types.NamespacedName{Name: fmt.Sprint(i)}, ClusterView{Presence: Unread})
				require.NoError(t, err)
				require.Equal(t, !settled, view.Presence == Absent)
			}
		}
		require.Equal(t, 5*maxAnswers, server.asked, "each is asked for once")
		require.LessOrEqual(t, len(c.answers), maxAnswers)
	}
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

// A thousand Machines of a Cluster that was restored while the watch is broken, or that the cache leaves out, look at it each second.
func TestAClusterThatOnlyTheCacheLacksIsAskedForOnceAMoment(t *testing.T) {
	server, now := &deserted{settled: true}, clocktesting.NewFakePassiveClock(time.Unix(1000, 0))
	c, err := NewClusters(&deserted{}, server, ClusterOptions{Clock: now})
	require.NoError(t, err)
	look := func() {
		for range 1000 {
			view, err := c.missing(t.Context(), types.NamespacedName{Name: "demo"}, ClusterView{Presence: Unread})
			require.NoError(t, err)
			require.Equal(t, Unread, view.Presence)
			require.Equal(t, AbsenceRetry, view.RetryAfter)
		}
	}
	look()
	require.Equal(t, 1, server.asked)
	now.SetTime(now.Now().Add(AbsenceRetry))
	server.takes = func() { now.SetTime(now.Now().Add(time.Minute)) }
	look()
	require.Equal(t, 2, server.asked, "a slow server least of all is asked for each Machine")
	server.settled = false
	now.SetTime(now.Now().Add(AbsenceRetry))
	view, err := c.missing(t.Context(), types.NamespacedName{Name: "demo"}, ClusterView{Presence: Unread})
	require.NoError(t, err)
	require.Equal(t, Absent, view.Presence, "it has gone since")
}

func TestAClusterIsFoundAsSoonAsTheCacheShowsItWhateverTheAPIServerHasSaid(t *testing.T) {
	for _, settled := range []bool{false, true} {
		cached, server := &deserted{}, &deserted{settled: settled}
		c, err := NewClusters(cached, server, ClusterOptions{Clock: clocktesting.NewFakePassiveClock(time.Unix(1000, 0))})
		require.NoError(t, err)
		c.informer = &listed{synced: true}
		look := func() Presence {
			view, err := c.Of(t.Context(), types.NamespacedName{Name: "demo"})
			require.NoError(t, err)
			return view.Presence
		}
		require.Equal(t, !settled, look() == Absent)
		cached.settled = true
		require.Equal(t, Present, look())
		require.Equal(t, 1, server.asked)
		cached.settled = false
		demo := &unstructured.Unstructured{}
		demo.SetName("demo")
		c.handler().OnDelete(demo)
		look()
		require.Equal(t, 2, server.asked, "its events make what was said before void")
	}
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
