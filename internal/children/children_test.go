package children_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/machinist-dev/machinist/fake"
	"github.com/machinist-dev/machinist/internal/children"
	"github.com/machinist-dev/machinist/internal/engine"
	"github.com/machinist-dev/machinist/internal/patch"
	"github.com/machinist-dev/machinist/machineset/scale"
)

func TestAnOwnerAdoptsTakesBackAndReleasesChildren(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	other := w.set("other", "")
	other.SetLabels(map[string]string{"pool": "other"})
	relabelled := w.set("relabelled", string(w.deployment.GetUID()))
	relabelled.SetAnnotations(map[string]string{children.GivenAnnotation: children.Given{Labels: relabelled.GetLabels()}.Text()})
	relabelled.SetLabels(map[string]string{"pool": "quarantine"})
	w.Create(w.set("free", ""), w.set("restored", "dead"), other, relabelled)
	w.Until("children", func() bool {
		s, _ := w.pass()
		return len(s.Own) == 2 && !metav1.IsControlledBy(w.stored()["relabelled"], w.deployment)
	})
	for name, u := range w.stored() {
		want := name == "free" || name == "restored"
		require.Equal(t, want, metav1.IsControlledBy(u, w.deployment), name)
		require.LessOrEqual(t, len(u.GetOwnerReferences()), 1, name)
	}
	s, o := w.pass()
	require.Empty(t, s.Unclaimed)
	require.NotEmpty(t, o.State.Annotations[scale.LedgerAnnotation], "an owner with children has a ledger")
}

func TestAChildIsCreatedOnceAlthoughTheAnswerIsLost(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	s, _ := w.pass()
	w.Store.LoseNext(func(r fake.Request) bool { return r.Verb == "create" && r.GVK.Kind == "MachineSet" })
	require.Error(t, w.grow(s, 1))
	require.Len(t, s.Ledger.Pending, 1)
	require.NoError(t, s.Create(t.Context(), w.make))
	require.Len(t, w.stored(), 1)
	require.Len(t, w.recorder.Events, 1)
	require.Contains(t, <-w.recorder.Events, "FailedCreate", "what was there already was not created now")
	w.memory = children.NewMemory() // another process continues
	_, o := w.pass()
	ledger, err := scale.ParseLedger(o.State.Annotations[scale.LedgerAnnotation])
	require.NoError(t, err)
	require.Empty(t, ledger.Pending)
	require.EqualValues(t, 2, ledger.Next)
}

// Another process may lead as well, and the cache may leave out what that makes.
func TestTheAPIServerIsAskedOnceForEachBatch(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	for range 2 {
		require.Equal(t, 1, w.asks(func(s *scope) error { return w.grow(s, 3) }))
	}
	require.Equal(t, 1, w.asks(func(s *scope) error {
		w.Store.FailNext(func(r fake.Request) bool { return r.Verb == "create" }, errors.New("refused"))
		require.Error(t, w.grow(s, 1))
		return nil
	}))
	w.memory = children.NewMemory() // another process
	require.Equal(t, 0, w.asks(func(s *scope) error { return w.grow(s, 0) }), "what was reserved is only resumed")
}

// refused makes a pass that reserves n slots, and whose first creation is refused.
func (w *world) refused(n int) *scope {
	w.t.Helper()
	s, _ := w.pass()
	w.failNext("refused")
	require.ErrorContains(w.t, w.grow(s, n), "refused")
	return s
}

func TestRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	require.Contains(t, w.refused(1).Refused(), "refused")
	refused := w.memory
	w.memory = children.NewMemory()
	s, _ := w.pass()
	require.NoError(t, w.grow(s, 0))
	w.memory = refused
	s, _ = w.pass()
	require.Empty(t, s.Refused())
}

func TestNothingIsResumedFromALedgerThatIsNotStored(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.refused(1)
	w.memory = children.NewMemory() // another process
	s, _ := w.pass()
	w.deployment.SetLabels(map[string]string{"changed": "meanwhile"})
	require.NoError(t, w.Client.Update(t.Context(), w.deployment))
	require.ErrorIs(t, w.grow(s, 0), engine.ErrStale)
	require.Empty(t, w.stored())
}

// The slower one of two processes would come to names whose children the other one has made and a scale-down has deleted.
func TestCreationsOfAPassEndWhereAnotherProcessMakesThem(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	s := w.refused(3)
	require.Len(t, s.Ledger.Pending, 3)
	made := s.Ledger.Pending[1] // the one that was refused comes last
	child, _, err := w.make(t.Context(), made)
	require.NoError(t, err)
	require.NoError(t, w.Client.Create(t.Context(), child))
	require.NoError(t, s.Create(t.Context(), w.make))
	require.Equal(t, []string{made.Name}, slices.Collect(maps.Keys(w.stored())))
	require.Len(t, s.Ledger.Pending, 2)
	require.NoError(t, s.Create(t.Context(), w.make), "the next pass")
	require.Len(t, w.stored(), 3)
}

func TestASlotWhoseNameAnotherObjectHasIsBurnt(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	s := w.refused(1)
	w.Create(w.set(s.Ledger.Pending[0].Name, "another owner"))
	require.NoError(t, s.Create(t.Context(), w.make))
	require.Empty(t, s.Ledger.Pending, "it is not waited for")
}

func TestNothingIsCreatedUnderALedgerThatCouldNotBeWritten(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	s, _ := w.pass()
	w.deployment.SetLabels(map[string]string{"changed": "meanwhile"})
	require.NoError(t, w.Client.Update(t.Context(), w.deployment))
	err := w.grow(s, 1)
	require.True(t, patch.Retryable(err), "%v", err)
	require.Empty(t, w.stored())
}

func TestALedgerThatWasRemovedIsRebuiltBehindAllSlots(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	s, _ := w.pass()
	require.NoError(t, w.grow(s, 2))
	before := slices.Collect(maps.Keys(w.stored()))
	require.Len(t, before, 2)
	w.pass()
	require.NoError(t, w.Client.Get(t.Context(), client.ObjectKeyFromObject(w.deployment), w.deployment))
	w.deployment.SetAnnotations(nil)
	require.NoError(t, w.Client.Update(t.Context(), w.deployment))
	taken := w.set("taken", "another-owner")
	taken.SetAnnotations(scale.Stamp{Set: w.deployment.GetUID(), Slot: 5_000_000}.Annotations())
	w.Create(taken)
	s, o := w.pass()
	require.Greater(t, s.Ledger.Next, int64(5_001_000), "also behind what another owner has taken")
	require.Equal(t, s.Ledger.String(), o.State.Annotations[scale.LedgerAnnotation])
	require.NoError(t, w.grow(s, 1))
	require.Len(t, w.stored(), 4)
}

func TestAnOwnerWithTheLedgerOfAnotherOneWaitsForItsChildren(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.deployment.SetAnnotations(map[string]string{scale.LedgerAnnotation: `{"uid":"another","next":3}`})
	require.NoError(t, w.Client.Update(t.Context(), w.deployment))
	s, o := w.pass()
	require.NoError(t, s.AwaitRestored(t.Context(), 1))
	require.True(t, s.IsHeld(children.NotRestored("MachineSet")))
	require.NoError(t, s.WriteLedger(t.Context(), s.Ledger.Abandon(1)))
	require.Contains(t, o.State.Annotations[scale.LedgerAnnotation], "another", "that it waits is stored")
	w.Create(w.set("restored", "dead"))
	w.Until("children", func() bool { s, _ := w.pass(); return len(s.Own) == 1 })
	s, o = w.pass()
	require.NoError(t, s.AwaitRestored(t.Context(), 1))
	require.Empty(t, s.Holds)
	require.Equal(t, s.Ledger.String(), o.State.Annotations[scale.LedgerAnnotation])
	require.Equal(t, w.deployment.GetUID(), s.Ledger.Set)
}

// swapped deletes a set and makes another one of the name before it lets a deletion through.
func swapped(w *world, ports *engine.Ports) {
	ports.Client = interceptor.NewClient(w.Client, interceptor.Funcs{
		Delete: func(ctx context.Context, c client.WithWatch, obj client.Object, options ...client.DeleteOption) error {
			now := w.set(obj.GetName(), string(w.deployment.GetUID()))
			if err := errors.Join(c.Delete(ctx, now.DeepCopy()), c.Create(ctx, now)); err != nil {
				return err
			}
			return c.Delete(ctx, obj, options...)
		},
	})
}

func TestOnlyTheChildThatWasChosenIsDeleted(t *testing.T) {
	t.Parallel()
	for name, ports := range map[string]func(*world, *engine.Ports){"it was replaced before": nil, "it is replaced meanwhile": swapped} {
		for _, keep := range []int{0, 1} {
			t.Run(fmt.Sprintf("%s, %d remain", name, keep), func(t *testing.T) {
				t.Parallel()
				w := newWorld(t, ports)
				w.owns("a", "b")
				s, o := w.pass()
				victim := scale.Victim{Name: "a", UID: w.stored()["a"].GetUID()}
				if ports == nil {
					victim.UID = types.UID("of an earlier one")
				}
				err := s.Delete(t.Context(), []scale.Victim{victim}, keep)
				if ports == nil && keep > 0 {
					require.NoError(t, err)
					require.NotZero(t, o.RequeueAfter())
				} else {
					require.True(t, engine.IsStale(err), "%v", err)
				}
				require.Len(t, w.stored(), 2)
			})
		}
	}
}

func TestAChildThatIsReleasedWhileAllAreDeletedStaysAndNoneIsListed(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.owns("a", "b")
	w.pass()
	require.Zero(t, w.asks(func(s *scope) error {
		var victims []scale.Victim
		for _, m := range s.Own {
			victims = append(victims, scale.Victim{Name: m.Key.Name, UID: m.UID})
		}
		released := w.set("a", "")
		w.patches(released, `{"metadata":{"ownerReferences":null}}`)
		err := s.Delete(t.Context(), victims, 0)
		require.True(t, engine.IsStale(err), "%v", err)
		require.Empty(t, s.Undeleted)
		return nil
	}))
	require.Equal(t, []string{"a"}, slices.Collect(maps.Keys(w.stored())))
}

// strips removes the owner references of what is patched, as a webhook does.
func strips(w *world, ports *engine.Ports) {
	ports.Client = interceptor.NewClient(w.Client, interceptor.Funcs{
		Patch: func(ctx context.Context, c client.WithWatch, obj client.Object, p client.Patch, o ...client.PatchOption) error {
			if err := c.Patch(ctx, obj, p, o...); err != nil || obj.GetObjectKind().GroupVersionKind().Kind != "MachineSet" {
				return err
			}
			return c.Patch(ctx, obj, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"ownerReferences":null}}`)))
		},
	})
}

// Without an error, nothing would look at the child again once the webhook is gone.
func TestAnAdoptionThatIsNotKeptFails(t *testing.T) {
	t.Parallel()
	w := newWorld(t, strips)
	w.Create(w.set("free", ""))
	w.Until("children", func() bool { s, _ := w.pass(); return len(s.Unclaimed) == 1 })
	s, _ := w.pass()
	require.Empty(t, s.Own)
	require.ErrorContains(t, errors.Join(s.Unclaimed...), "the owner reference of MachineSet default/free is not kept")
}
