package machineset_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/contract/pass"
	"github.com/machinist-dev/machinist/fake"
	"github.com/machinist-dev/machinist/machineset"
)

// asking is a reader that remembers its lists: what they ask for, and how many objects they get. Safe for concurrent use.
type asking struct {
	client.Reader

	mu    sync.Mutex
	lists []asked
}

type asked struct {
	selector string
	got      int
}

func (a *asking) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	err := a.Reader.List(ctx, list, options...)
	if found, ok := list.(*metav1.PartialObjectMetadataList); ok {
		o := (&client.ListOptions{}).ApplyOptions(options)
		a.mu.Lock()
		defer a.mu.Unlock()
		a.lists = append(a.lists, asked{labels.Everything().String(), len(found.Items)})
		if o.LabelSelector != nil {
			a.lists[len(a.lists)-1].selector = o.LabelSelector.String()
		}
	}
	return err
}

// since forgets the lists, and returns them.
func (a *asking) since() []asked {
	a.mu.Lock()
	defer a.mu.Unlock()
	lists := a.lists
	a.lists = nil
	return lists
}

// runAsking starts the reconciler under test with a reader that remembers its lists.
func (w *world) runAsking() *asking {
	w.t.Helper()
	mgr := w.manager(userAgent)
	ports := machineset.PortsFromManager(mgr)
	a := &asking{Reader: ports.APIReader}
	ports.APIReader = a
	r, err := machineset.New(w.kinds, ports, machineset.Options{Options: pass.Options{StatusDelay: 50 * time.Millisecond}})
	require.NoError(w.t, err)
	require.NoError(w.t, r.AddToManager(w.t.Context(), mgr))
	w.start(mgr)
	return a
}

// In a rollout a set shrinks many times, and a list of the namespace has the Machines of all others.
func TestASetThatShrinksAsksForItsOwnMachinesOnly(t *testing.T) {
	t.Parallel()
	w := newWorld(t, fake0()).live()
	a := w.runAsking()
	other, set := w.set("other", 4), w.set("workers", 3)
	w.create(other)
	w.has(other, 4)
	w.create(set)
	w.eventually("have all", func() string {
		if n, _, _ := unstructured.NestedInt64(w.get(set).Object, "status", "availableReplicas"); n != 3 {
			return w.describe(set)
		}
		return ""
	})
	a.since()
	w.scale(set, 1)
	w.eventually("shrink", func() string {
		if n, _, _ := unstructured.NestedInt64(w.get(set).Object, "status", "replicas"); n != 1 {
			return w.describe(set)
		}
		return ""
	})
	lists := a.since()
	require.NotEmpty(t, lists)
	for _, list := range lists { // a pass whose cache was behind asks again
		require.Equal(t, "cluster.x-k8s.io/cluster-name=demo,pool=workers", list.selector)
		require.LessOrEqual(t, list.got, 3)
	}

	require.NoError(t, w.client.Delete(t.Context(), set))
	w.Gone(set)
	lists = a.since()
	require.NotEmpty(t, lists)
	for _, list := range lists {
		require.Empty(t, list.selector, "a set that goes has to see all that it controls, whatever their labels are")
	}
}

// The selector of a set is changed, so that it does not select the Machines that it has.
func TestASetWithAnotherSelectorAsksForAllMachines(t *testing.T) {
	t.Parallel()
	w := newWorld(t, fake0()).live()
	a := w.runAsking()
	set := w.set("workers", 2)
	w.create(set)
	w.has(set, 2)
	a.since()
	w.change(set, func(u *unstructured.Unstructured) {
		fake.WithField(map[string]any{"pool": "workers", "new": "1"}, "spec", "selector", "matchLabels")(u)
		fake.WithField(int64(1), "spec", "replicas")(u)
	})
	w.has(set, 1)
	require.Contains(t, a.since(), asked{"", 2})
}
