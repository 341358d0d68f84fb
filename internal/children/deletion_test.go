package children_test

import (
	"context"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/internal/children"
	"github.com/machinist-dev/machinist/internal/engine"
	"github.com/machinist-dev/machinist/machineset/scale"
)

// owned returns a world whose deployment has sets with these names, a pass over them, and all of them as victims.
func owned(t *testing.T, names ...string) (*world, *scope, []scale.Victim) {
	t.Helper()
	w := newWorld(t, nil)
	w.owns(names...)
	s, _ := w.pass()
	stored, victims := w.stored(), make([]scale.Victim, 0, len(names))
	for _, name := range names {
		victims = append(victims, scale.Victim{Name: name, UID: stored[name].GetUID()})
	}
	return w, s, victims
}

func TestDelete(t *testing.T) {
	t.Parallel()
	for name, keep := range map[string]int{"all go": 0, "one remains": 1} {
		t.Run("nothing goes for an owner that has changed since it was read: "+name, func(t *testing.T) {
			t.Parallel()
			w, s, victims := owned(t, "a", "b")
			w.patches(w.deployment, `{"metadata":{"labels":{"changed":"meanwhile"}}}`)
			err := s.Delete(t.Context(), victims, keep)
			require.True(t, engine.IsStale(err), "%v", err)
			require.Len(t, w.stored(), 2)
		})
	}
	t.Run("nothing goes by marks that another child has now", func(t *testing.T) {
		t.Parallel()
		w, s, victims := owned(t, "a", "b")
		w.patches(w.set("b", ""), `{"metadata":{"annotations":{"`+scale.DeleteAnnotation+`":"now"}}}`)
		err := s.Delete(t.Context(), victims[:1], 1)
		require.True(t, engine.IsStale(err), "%v", err)
		require.Len(t, w.stored(), 2)
	})
}

// An object that was copied with its metadata refers to the same owner, in a namespace that is not the owner's.
func TestNamespaces(t *testing.T) {
	t.Parallel()
	elsewhere := func(w *world, name, controller string) {
		u := w.set(name, controller)
		u.SetNamespace(metav1.NamespacePublic)
		w.Create(u)
	}
	t.Run("an owner observes and adopts children of its own namespace alone", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, nil)
		elsewhere(w, "free-elsewhere", "")
		elsewhere(w, "restored-elsewhere", "dead")
		elsewhere(w, "copied-elsewhere", string(w.deployment.GetUID()))
		before := w.stored()
		w.Create(w.set("free", "")) // what a cache has seen before it shows this
		var s *scope
		w.Until("children", func() bool {
			var err error
			s, _, err = w.begin()
			return err == nil && !s.Waiting && len(s.Own) > 0
		})
		require.Len(t, s.Own, 1)
		require.Equal(t, "free", s.Own[0].Key.Name)
		for name, u := range before {
			require.Equal(t, u.GetResourceVersion(), w.stored()[name].GetResourceVersion(), name)
		}
	})
	t.Run("an owner waits for no child of another namespace", func(t *testing.T) {
		t.Parallel()
		w, s, _ := owned(t, "a")
		elsewhere(w, "free-elsewhere", "")
		shows, err := s.ShowsAll(t.Context())
		require.NoError(t, err)
		require.True(t, shows)
	})
	t.Run("children of another namespace are no reason to delete more", func(t *testing.T) {
		t.Parallel()
		w, s, victims := owned(t, "a", "b")
		elsewhere(w, "copied-elsewhere", string(w.deployment.GetUID()))
		require.NoError(t, s.Delete(t.Context(), victims, 1))
		require.ElementsMatch(t, []string{"b", "copied-elsewhere"}, slices.Collect(maps.Keys(w.stored())))
	})
}

// Another program has taken the owner reference of a child: no event of that wakes the owner.
func TestAnOwnerLooksAgainForAChildOfAnotherClusterWithoutAController(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	left := w.set("left", "")
	left.SetLabels(map[string]string{contract.ClusterNameLabel: "other"})
	left.SetAnnotations(scale.Stamp{Set: w.deployment.GetUID(), Slot: 1}.Annotations())
	w.Create(left)
	s, o, err := w.begin()
	require.NoError(t, err)
	require.Zero(t, o.RequeueAfter())
	shows, err := s.ShowsAll(t.Context())
	require.NoError(t, err)
	require.False(t, shows)
	require.True(t, s.IsHeld(children.ReasonClaimFailed))
	require.NotZero(t, o.RequeueAfter())
}

func TestGivenChanges(t *testing.T) {
	t.Parallel()
	wanted := map[string]string{"pool": "workers"}
	have := &contract.Metadata{Labels: wanted}
	before := children.Given{Labels: map[string]string{"pool": "workers", "new": "2"}, Annotations: []string{"other"}}

	t.Run("a child loses what is shown", func(t *testing.T) {
		require.Empty(t, before.Changes(have, wanted, nil).Labels)
	})
	t.Run("nothing is to be taken back", func(t *testing.T) {
		u := children.Given{Labels: wanted}.Changes(have, wanted, nil)
		require.Empty(t, u.Labels)
		require.Empty(t, u.Annotations)
	})
}

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
