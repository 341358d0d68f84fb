package machineset_test

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/fake"
	"github.com/machinist-dev/machinist/machineset"
)

// newTemplate has a set make other Machines from now on.
func (w *world) newTemplate(set *unstructured.Unstructured) {
	template := w.template(infraGVK())
	template.SetName("workers-2")
	require.NoError(w.t, unstructured.SetNestedField(template.Object, "small", "spec", "template", "spec", "size"))
	w.create(template)
	w.change(set, func(u *unstructured.Unstructured) {
		require.NoError(w.t, unstructured.SetNestedField(u.Object, "workers-2", "spec", "template", "spec", "infrastructureRef", "name"))
		require.NoError(w.t, unstructured.SetNestedField(u.Object, "v1.37.0", "spec", "template", "spec", "version"))
	})
}

func TestASlotThatWasHalfMadeFromAnotherTemplateIsGivenUp(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(w *world, set *unstructured.Unstructured){
		"the set names another template": (*world).newTemplate,
		"the template is changed": func(w *world, _ *unstructured.Unstructured) {
			w.change(w.template(infraGVK()), fake.WithField("small", "spec", "template", "spec", "size"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, fake0()).live()
			refused := apierrors.NewForbidden(schema.GroupResource{Resource: "machines"}, "", errors.New("admission webhook denied the request"))
			mend := w.store.Inject(fake.Fault{Err: refused, Times: -1, Match: func(r fake.Request) bool {
				return r.UserAgent == userAgent && r.Verb == "create" && r.GVK.Kind == w.kinds.Machine.GVK.Kind
			}})
			w.run(machineset.Options{})
			set := w.set("workers", 1)
			w.create(set)
			w.eventually("make the parts of a Machine", func() string { return left(len(w.list(infraGVK())) - 1) })
			half := w.list(infraGVK())[0]
			change(w, set)
			w.eventually("make other parts", func() string {
				for _, part := range w.list(infraGVK()) {
					if size, _, _ := unstructured.NestedString(part.Object, "spec", "size"); size == "small" {
						return ""
					}
				}
				return w.describe(set)
			})
			mend()
			w.has(set, 1)
			part := w.partsOfMachines(infraGVK())[0]
			size, _, _ := unstructured.NestedString(part.Object, "spec", "size")
			require.Equal(t, "small", size)
			require.NotEqual(t, half.GetName(), part.GetName())
			require.Equal(t, part.GetName(), w.machines()[0].GetName())
		})
	}
}

// Nothing else remembers which template a slot was begun with.
func TestAPartOfAnotherTemplateIsNotUsedByASetThatHasLostItsLedger(t *testing.T) {
	t.Parallel()
	w := newWorld(t, fake0()).live()
	refused := apierrors.NewForbidden(schema.GroupResource{Resource: "machines"}, "", errors.New("admission webhook denied the request"))
	mend := w.store.Inject(fake.Fault{Err: refused, Times: -1, Match: func(r fake.Request) bool {
		return r.UserAgent == userAgent && r.Verb == "create" && r.GVK.Kind == w.kinds.Machine.GVK.Kind
	}})
	stop := w.run(machineset.Options{})
	set := w.set("workers", 1)
	w.create(set)
	w.eventually("make the parts of a Machine", func() string { return left(len(w.list(infraGVK())) - 1) })
	stop()
	w.change(set, func(u *unstructured.Unstructured) { u.SetAnnotations(nil) })
	w.newTemplate(set)
	mend()
	w.run(machineset.Options{})
	w.has(set, 1)
	parts := w.partsOfMachines(infraGVK())
	require.Len(t, parts, 1)
	size, _, _ := unstructured.NestedString(parts[0].Object, "spec", "size")
	require.Equal(t, "small", size)
	require.Equal(t, parts[0].GetName(), w.machines()[0].GetName())
}

// The process that made the Machine has died before it could say so, and the caches of the next one have yet to show it.
func TestASlotWhoseMachineExistsIsNotGivenUpForAnotherTemplate(t *testing.T) {
	t.Parallel()
	w := newWorldWith(t, fake0(), fake.Loops{})
	set := w.set("workers", 1)
	w.create(set)
	h := &history{store: w.client, kinds: map[string][]snapshot{}}
	h.note(t.Context(), w.tracked()...)
	h.kinds[w.kinds.Machine.GVK.Kind] = []snapshot{{version: set.GetResourceVersion()}}
	clock := clocktesting.NewFakePassiveClock(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	first := newLeader(w, h, clock, nil, func() bool { return len(w.machines()) > 0 })
	key := client.ObjectKeyFromObject(set)
	for range 10 {
		first.catchUpWholly()
		if !first.pass(key) {
			break
		}
	}
	require.Len(t, w.machines(), 1)
	w.newTemplate(set)
	h.note(t.Context(), w.tracked()...)
	next := newLeader(w, h, clock, nil, func() bool { return false })
	for n := range 10 {
		clock.SetTime(clock.Now().Add(time.Minute))
		next.catchUpWholly()
		if n < 5 {
			next.cache.at[w.kinds.Machine.GVK.Kind] = 0
		}
		next.pass(key)
		require.Len(t, w.machines(), 1, w.describe(set))
	}
	require.Len(t, w.list(infraGVK()), 1)
}
