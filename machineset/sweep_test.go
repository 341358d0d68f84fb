package machineset_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/fake"
	"github.com/machinist-dev/machinist/machineset"
	"github.com/machinist-dev/machinist/machineset/scale"
)

// halfMade is a set that has one Machine, and the parts of a second one whose creation is refused.
func (w *world) halfMade(options machineset.Options) *unstructured.Unstructured {
	w.t.Helper()
	w.run(options)
	set := w.set("workers", 1)
	w.create(set)
	w.has(set, 1)
	w.store.Inject(fake.Fault{
		Err: apierrors.NewForbidden(schema.GroupResource{Resource: "machines"}, "", nil), Times: -1,
		Match: func(r fake.Request) bool {
			return r.UserAgent == userAgent && r.Verb == "create" && r.GVK.Kind == w.kinds.Machine.GVK.Kind
		},
	})
	w.scale(set, 2)
	w.eventually("have the parts of two Machines", func() string {
		if len(w.list(bootstrapGVK())) != 2 || len(w.list(infraGVK())) != 2 {
			return w.describe(set)
		}
		return ""
	})
	return set
}

// hasParts waits until there are the parts of one Machine only.
func (w *world) hasParts(set *unstructured.Unstructured) {
	w.t.Helper()
	w.eventually("have the parts of one Machine", func() string {
		if len(w.list(bootstrapGVK())) != 1 || len(w.list(infraGVK())) != 1 {
			return w.describe(set)
		}
		return ""
	})
}

func TestWhatWasMadeForNoMachineGoesWithASetThatLeavesItsMachines(t *testing.T) {
	t.Parallel()
	w := newWorldWith(t, fake0(), fake.Loops{}).live() // no garbage collector: it would take the owner references from the parts
	set := w.halfMade(machineset.Options{})
	require.NoError(t, w.client.Delete(t.Context(), set, client.PropagationPolicy(metav1.DeletePropagationOrphan)))
	w.eventually("the set to be let go", func() string {
		if slices.Contains(w.get(set).GetFinalizers(), machineset.Finalizer) {
			return w.describe(set)
		}
		return ""
	})
	require.Len(t, w.machines(), 1)
	require.Len(t, w.list(bootstrapGVK()), 1)
	require.Len(t, w.list(infraGVK()), 1)
}

func TestWhatCouldNotBeDeletedForASlotThatWasGivenUpIsTriedAgain(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{bootstrapGVK().Kind, infraGVK().Kind} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			w := newWorldWith(t, fake0(), fake.Loops{}).live()
			set := w.halfMade(machineset.Options{StatusDelay: 10 * time.Millisecond})
			w.store.FailNext(func(r fake.Request) bool { return r.UserAgent == userAgent && r.Verb == "delete" && r.GVK.Kind == kind },
				apierrors.NewConflict(schema.GroupResource{Resource: kind}, "", nil))
			w.scale(set, 1)
			w.hasParts(set)
		})
	}
}

// An API server that does not serve a version at the moment answers 404 to all that is asked of it.
func TestAMachineWhoseDeletionTheServerDidNotUnderstandIsDeletedAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t, fake0()).live()
	w.run(machineset.Options{})
	set := w.set("workers", 2)
	w.create(set)
	w.has(set, 2)
	w.store.FailNext(func(r fake.Request) bool {
		return r.UserAgent == userAgent && r.Verb == "delete" && r.GVK.Kind == w.kinds.Machine.GVK.Kind
	}, apierrors.NewGenericServerResponse(404, "delete", schema.GroupResource{Resource: "machines"}, "", "404 page not found", 0, true))
	w.scale(set, 1)
	w.has(set, 1)
}

// A read of the set may be older than the slots that another process has taken since.
func TestWhatWasMadeForALaterSlotThanTheLedgerKnowsStays(t *testing.T) {
	t.Parallel()
	w := newWorld(t, fake0())
	r := w.reconciler(func(ctrl.Manager, *machineset.Ports) {})
	set := w.set("workers", 1)
	w.create(set)
	request := ctrl.Request{NamespacedName: client.ObjectKeyFromObject(set)}
	part := func(name string, slot int64) *unstructured.Unstructured {
		u := object(infraGVK(), name)
		u.SetLabels(map[string]string{contract.SetNameLabel: set.GetName()})
		u.SetAnnotations(scale.Stamp(set.GetUID(), slot))
		w.create(u)
		return u
	}
	left, later := part("left", 1), part("later", 100)
	w.eventually("have what was left go", func() string {
		if _, err := r.Reconcile(t.Context(), request); err != nil {
			return err.Error()
		}
		return map[bool]string{true: w.describe(set)}[w.get(left) != nil]
	})
	require.NotNil(t, w.get(later))
}
