package deployment_test

import (
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/fake"
	"github.com/machinist-dev/machinist/machineset/scale"
)

// label has a person freeze an object, by the label of their system.
func (w *setsWorld) label(u *unstructured.Unstructured) {
	w.t.Helper()
	key := scale.FreezeLabel
	if u.GroupVersionKind().Group == scale.GardenerGroup {
		key = scale.GardenerFreezeLabel
	}
	w.Change(u, fake.WithLabels(map[string]string{key: "True"}))
}

// keeps waits until a Freezer has looked at frozen objects a few times more, and wants them to stay frozen.
func (w *setsWorld) keeps(all ...*unstructured.Unstructured) {
	w.t.Helper()
	w.Never("a freeze ends", 400*time.Millisecond, func() string {
		for _, u := range all {
			if len(w.Get(u).GetLabels()) == 0 {
				return "that of " + u.GetName()
			}
		}
		return ""
	})
}

func TestAFreezeOfAPersonStaysWhereAPersonHasEndedOneOfTheGuard(t *testing.T) {
	t.Parallel()
	for name, kinds := range map[string]contract.Kinds{"Cluster API": clusterAPI(), "Gardener": contract.Gardener()} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newSetsWorld(t, kinds)
			w.freezer(scale.FreezeLimits{Up: 4, Down: 3})
			d := w.deployment("d", 2)
			set := w.set("s", 2, d)
			all := w.machines(set, 7) // 2 and a surge of 1 and 4
			w.frozen(scale.ReasonOverShooting, set)
			w.frozen(scale.ReasonMachineSetFrozen, d)
			w.delete(all[:2])
			w.Eventually("the set counts 5", func() string { // by 7, it would be frozen again
				n, _, _ := unstructured.NestedInt64(w.Get(set).Object, "status", "replicas")
				return map[bool]string{false: fmt.Sprint(n)}[n == 5]
			})
			w.keeps(set) // there are more than 4
			w.Change(set, func(u *unstructured.Unstructured) { u.SetLabels(nil) })
			w.thawed(set, d)
			w.delete(all[2:5])
			w.label(set)
			w.keeps(set)
		})
	}
}

func TestAnAnnotationOfAFreezeThatIsOverIsRemovedOnce(t *testing.T) {
	t.Parallel()
	for name, kinds := range map[string]contract.Kinds{"Cluster API": clusterAPI(), "Gardener": contract.Gardener()} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newSetsWorld(t, kinds)
			left := func(reason string) fake.Option {
				return fake.WithAnnotations(map[string]string{scale.FrozenByAnnotation: reason})
			}
			d := w.deployment("d", 2, left(scale.ReasonMachineSetFrozen))
			set, alone := w.set("s", 2, d, left(scale.ReasonOverShooting)), w.set("alone", 2, nil, left(""))
			w.machines(set, 2)
			w.freezer(scale.FreezeLimits{})
			w.thawed(d, set, alone)
			w.Still("writes", 300*time.Millisecond, func() int { return len(w.Writes(freezer)) })
			onMetadata := func() []fake.Request {
				return slices.DeleteFunc(w.Writes(freezer), func(r fake.Request) bool { return r.Subresource == "status" })
			}
			writes := len(onMetadata())
			w.label(d)
			w.keeps(d) // before the deployment would follow its set
			w.label(set)
			w.keeps(d, set)
			require.Len(t, onMetadata(), writes)
		})
	}
}

// Another process, such as the next leader, may freeze a set meanwhile.
func TestAPassThatIsBehindLeavesTheAnnotationOfANewFreeze(t *testing.T) {
	t.Parallel()
	kinds := clusterAPI()
	w := newSetsWorld(t, kinds, func(o *fake.Options) {
		o.CacheLagFunc = func(kind schema.GroupKind, _ types.NamespacedName) time.Duration {
			if kind == kinds.Set.GVK.GroupKind() {
				return 3 * time.Second // longer than what is done until the change of the label
			}
			return 0
		}
	})
	w.freezer(scale.FreezeLimits{Up: 4, Down: 2})
	left := fake.WithAnnotations(map[string]string{scale.FrozenByAnnotation: scale.ReasonOverShooting})
	w.thawed(w.set("first", 1, nil, left)) // its cache runs
	set := w.set("s", 1, nil, left)
	w.machines(set, 5)
	w.stays(set) // its cache shows it without the label as long, later
	w.Change(set, fake.WithLabels(map[string]string{scale.FreezeLabel: "True"}))
	w.frozen(scale.ReasonOverShooting, set)
	require.Equal(t, scale.ReasonOverShooting, w.Get(set).GetAnnotations()[scale.FrozenByAnnotation])
	require.True(t, slices.ContainsFunc(w.Writes(freezer), func(r fake.Request) bool {
		return r.Name == set.GetName() && r.Code == http.StatusConflict
	}), "it has tried")
}
