package machineset_test

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/fake"
	"github.com/machinist-dev/machinist/internal/apitest/testenv"
	"github.com/machinist-dev/machinist/machineset"
	"github.com/machinist-dev/machinist/machineset/scale"
)

// refuses has an admission webhook refuse what the process under test does to a Machine, to any without a name.
func (w *world) refuses(verb, name string) (mend func()) {
	return w.Store.Inject(fake.Fault{
		Err:   apierrors.NewForbidden(schema.GroupResource{Resource: "machines"}, name, errors.New("admission webhook denied the request")),
		Times: -1,
		Match: func(r fake.Request) bool {
			return r.UserAgent == userAgent && r.Verb == verb && r.GVK.Kind == w.kinds.Machine.GVK.Kind && (name == "" || r.Name == name)
		},
	})
}

func (w *world) names() []string {
	var names []string
	for _, m := range w.machines() {
		names = append(names, m.GetName())
	}
	slices.Sort(names)
	return names
}

func TestARefusedDeletionDoesNotDelayTheOthersAndIsReported(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		do        func(w *world, set *unstructured.Unstructured)
		condition string
		left      int
		mended    int
	}{
		"to none":  {func(w *world, set *unstructured.Unstructured) { w.scale(set, 0) }, contract.ConditionScalingDown, 1, 0},
		"to three": {func(w *world, set *unstructured.Unstructured) { w.scale(set, 3) }, contract.ConditionScalingDown, 4, 3},
		"in deletion": {func(w *world, set *unstructured.Unstructured) {
			require.NoError(w.t, w.Client.Delete(w.t.Context(), set))
		}, contract.ConditionDeleting, 1, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, set := newSet(t, 5)
			victim := w.machines()[2]
			w.Change(&victim, annotated(scale.DeleteAnnotation, ""))
			mend := w.refuses("delete", victim.GetName())
			tc.do(w, set)
			told := func() string {
				c := w.condition(set, tc.condition)
				if got := len(w.machines()); got != tc.left || c.Status != metav1.ConditionTrue {
					return fmt.Sprint(got, " are left; ", w.describe(set))
				}
				return ""
			}
			w.Eventually("go but for the refused one", told)
			w.conditionSays(set, tc.condition, "denied the request")
			c := w.conditionSays(set, tc.condition, victim.GetName())
			require.Equal(t, metav1.ConditionTrue, c.Status)
			attempts := func(r fake.Request) bool { return r.Verb == "delete" && r.Name == victim.GetName() }
			before := w.Store.CountRequests(attempts)
			w.until("try again", func() bool { return w.Store.CountRequests(attempts) >= before+3 })
			require.Empty(t, told(), "no other one goes in its place")
			mend()
			w.has(set, tc.mended)
			require.NotContains(t, w.names(), victim.GetName())
		})
	}
}

func TestARefusedAdoptionKeepsASetFromCreatingOnlyAndIsReported(t *testing.T) {
	t.Parallel()
	w, set := newSet(t, 4)
	mend := w.refuses("patch", "stray")
	stray := w.stray("stray", "workers")
	w.conditionSays(set, contract.ConditionScalingUp, "denied the request")
	w.conditionSays(set, contract.ConditionScalingUp, "stray")
	own := func(n int) func() string {
		return func() string {
			if got := len(w.machines()); got != n {
				return fmt.Sprint(got, " are there; ", w.describe(set))
			}
			return ""
		}
	}
	w.scale(set, 2)
	w.Eventually("shrink beside it", own(3))
	w.scale(set, 3)
	w.conditionSays(set, contract.ConditionScalingUp, "from 2 to 3 replicas is blocked because")
	require.Len(t, w.machines(), 3)
	mend()
	w.until("adopt it", func() bool { return metav1.GetControllerOf(w.Get(stray)) != nil })
	require.Len(t, w.machines(), 3)
}

func TestARefusedCreationDoesNotHoldUpTheOthers(t *testing.T) {
	t.Parallel()
	w := newWorld(t, fake.Options{}).live()
	set := w.set("workers", 4)
	w.Create(set)
	refused := w.nameOf(set, 1)
	mend := w.refuses("create", refused)
	w.run(machineset.Options{})
	w.until("create the others", func() bool { return len(w.machines()) == 3 })
	w.conditionSays(set, contract.ConditionScalingUp, "the last creation of a Machine has failed: create Machine default/"+refused)
	w.Eventually("observe the set as it is", func() string {
		now := w.Get(set)
		seen := testenv.Number(now, "status", "observedGeneration")
		return map[bool]string{true: fmt.Sprint("it has observed ", seen)}[seen != now.GetGeneration()]
	})
	mend()
	w.has(set, 4)
	require.Contains(t, w.names(), refused)
}

// What cannot be read about how a set grows and shrinks is no reason to keep a set that is to go.
func TestASetThatCannotBeReadInPartsCanBeDeleted(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		spoil     fake.Option
		condition string
		says      string
	}{
		"selector": {func(u *unstructured.Unstructured) {
			_ = unstructured.SetNestedSlice(u.Object, []any{map[string]any{"key": "pool", "operator": "Bogus"}}, "spec", "selector",
				"matchExpressions")
		}, contract.ConditionScalingUp, "the selector"},
		"deletion order": {fake.WithField("Sideways", "spec", "deletion", "order"), contract.ConditionScalingDown,
			"want Random, Newest or Oldest"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, set := newSet(t, 2)
			w.Change(set, func(u *unstructured.Unstructured) {
				tc.spoil(u)
				require.NoError(t, unstructured.SetNestedField(u.Object, map[string]int64{
					contract.ConditionScalingUp: 3, contract.ConditionScalingDown: 1,
				}[tc.condition], "spec", "replicas"))
			})
			w.conditionSays(set, tc.condition, tc.says)
			require.Len(t, w.machines(), 2)
			require.NoError(t, w.Client.Delete(t.Context(), set))
			w.Gone(set)
			require.Empty(t, w.machines())
		})
	}
}

func TestAMachineThatCannotBeReadDoesNotHoldUpTheDeletionOfItsSet(t *testing.T) {
	t.Parallel()
	w, set := newSet(t, 3)
	bad := w.machines()[0]
	w.Change(&bad, fake.WithField(int64(7), "spec", "clusterName"))
	require.NoError(t, w.Client.Delete(t.Context(), set))
	w.has(set, 0)
}

// A refusal is over when the Machine that was refused is not wanted any more, or was made after all: no attempt follows that could succeed.
func TestARefusedCreationThatIsNoLongerWantedDelaysNoReplacement(t *testing.T) {
	t.Parallel()
	w, set := newSet(t, 1)
	m := w.machines()[0]
	mend := w.refuses("create", "")
	w.scale(set, 2)
	w.until("refuse a creation", func() bool {
		refused := func(r fake.Request) bool { return r.Verb == "create" && r.Code == http.StatusForbidden }
		return w.Store.CountRequests(refused) != 0
	})
	w.scale(set, 1)
	w.conditionSays(set, contract.ConditionScalingUp, "")
	mend()
	w.Quiet("lives", quiet)
	w.mark(&m)
	w.replaced(set, &m, 1)
}

// An API server that does not serve a version at the moment answers 404 to all that is asked of it.
func TestAMachineWhoseDeletionTheServerDidNotUnderstandIsDeletedAgain(t *testing.T) {
	t.Parallel()
	w, set := newSet(t, 2)
	w.Store.FailNext(func(r fake.Request) bool {
		return r.UserAgent == userAgent && r.Verb == "delete" && r.GVK.Kind == w.kinds.Machine.GVK.Kind
	}, apierrors.NewGenericServerResponse(404, "delete", schema.GroupResource{Resource: "machines"}, "", "404 page not found", 0, true))
	w.scale(set, 1)
	w.has(set, 1)
}
