package children_test

import (
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/internal/children"
	"github.com/machinist-dev/machinist/internal/engine"
	"github.com/machinist-dev/machinist/machineset/scale"
)

// owned returns a world whose deployment has sets with these names, a pass over them, and all of them as victims.
func owned(t *testing.T, names ...string) (*world, *scope, []scale.Victim) {
	t.Helper()
	w := newWorld(t, nil)
	for _, name := range names {
		w.create(w.set(name, string(w.deployment.GetUID())))
	}
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
			change := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"changed":"meanwhile"}}}`))
			require.NoError(t, w.client.Patch(t.Context(), w.deployment, change))
			err := s.Delete(t.Context(), victims, keep)
			require.True(t, engine.IsStale(err), "%v", err)
			require.Len(t, w.stored(), 2)
		})
	}
	t.Run("nothing goes by marks that another child has now", func(t *testing.T) {
		t.Parallel()
		w, s, victims := owned(t, "a", "b")
		mark := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"annotations":{"`+scale.DeleteAnnotation+`":"now"}}}`))
		require.NoError(t, w.client.Patch(t.Context(), w.set("b", ""), mark))
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
		w.create(u)
	}
	t.Run("an owner observes and adopts children of its own namespace alone", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, nil)
		elsewhere(w, "free-elsewhere", "")
		elsewhere(w, "restored-elsewhere", "dead")
		elsewhere(w, "copied-elsewhere", string(w.deployment.GetUID()))
		before := w.stored()
		w.create(w.set("free", "")) // what a cache has seen before it shows this
		var s *scope
		w.eventually(func() bool {
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
	w.create(left)
	s, o, err := w.begin()
	require.NoError(t, err)
	require.Zero(t, o.RequeueAfter())
	shows, err := s.ShowsAll(t.Context())
	require.NoError(t, err)
	require.False(t, shows)
	require.True(t, s.IsHeld(children.ReasonClaimFailed))
	require.NotZero(t, o.RequeueAfter())
}
