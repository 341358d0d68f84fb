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

// deserted is a server and a cache that have no objects at first.
type deserted struct {
	cache.Cache

	asked   int
	settled bool
	takes   func() // runs during the answer
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

func TestTheNumberOfRememberedAnswersIsLimited(t *testing.T) {
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
		require.Equal(t, 5*maxAnswers, server.asked, "one request per Cluster")
		require.LessOrEqual(t, len(c.answers), maxAnswers)
	}
}

// If a watch is broken, no event reports that a Cluster was created, for example restored from a backup.
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
	require.Equal(t, Unread, look(), "it exists, and its event has not come")
}

// If a Cluster exists but is not in the cache, a thousand Machines of it may read it each second.
func TestRequestsForAClusterThatIsNotInTheCacheAreLimited(t *testing.T) {
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
	require.Equal(t, 2, server.asked, "a slow server does not receive a request per Machine")
	server.settled = false
	now.SetTime(now.Now().Add(AbsenceRetry))
	view, err := c.missing(t.Context(), types.NamespacedName{Name: "demo"}, ClusterView{Presence: Unread})
	require.NoError(t, err)
	require.Equal(t, Absent, view.Presence, "it was deleted since")
}

func TestAClusterInTheCacheIsPresentWhateverTheLastAnswerWas(t *testing.T) {
	for _, settled := range []bool{false, true} {
		cached, server := &deserted{}, &deserted{settled: settled}
		c, err := NewClusters(cached, server, ClusterOptions{Clock: clocktesting.NewFakePassiveClock(time.Unix(1000, 0))})
		require.NoError(t, err)
		c.tracker.kinds[c.gvk] = &watched{informer: &listed{synced: true}}
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
		c.tracker.handler(c.empty()).OnDelete(demo)
		look()
		require.Equal(t, 2, server.asked, "an event invalidates the answer")
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
		c.tracker.handler(c.empty()).OnUpdate(old, now)
		require.Equal(t, tc.news, c.events == 1, name)
	}
}
