//go:build e2e

package e2e_test

import (
	"slices"
	"sync"
	"testing"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/fake"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// trail is everything that happened to a Machine and to Nodes from some moment on.
type trail struct {
	mu     sync.Mutex
	events []watch.Event
}

// recordEnd starts to keep what happens in a scene.
func (s *scene) recordEnd(m *unstructured.Unstructured) *trail {
	s.t.Helper()
	machines := &unstructured.UnstructuredList{}
	machines.SetGroupVersionKind(fake.MachineGVK())
	kept := &trail{}
	for list, options := range map[client.ObjectList][]client.ListOption{
		machines:           {client.InNamespace(s.name), client.MatchingFields{"metadata.name": m.GetName()}},
		&corev1.NodeList{}: nil,
	} {
		from, err := s.client.Watch(s.t.Context(), list, options...)
		require.NoError(s.t, err)
		go kept.keep(from)
	}
	return kept
}

func (k *trail) keep(from watch.Interface) {
	for e := range from.ResultChan() {
		k.mu.Lock()
		k.events = append(k.events, e)
		k.mu.Unlock()
	}
}

// ended reports whether the watches have told of the end of a Machine and of a Node. Each of them may be late.
func (k *trail) ended(objects ...client.Object) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, obj := range objects {
		if !slices.ContainsFunc(k.events, func(e watch.Event) bool {
			gone, is := e.Object.(client.Object)
			return is && e.Type == watch.Deleted && gone.GetUID() == obj.GetUID()
		}) {
			return false
		}
	}
	return true
}

// check fails when the Node was cordoned, which comes before any eviction, or deleted before the Machine had recorded it. Resource
// versions order events of different kinds, because one etcd numbers them all.
func (k *trail) check(t *testing.T, node *corev1.Node) {
	t.Helper()
	k.mu.Lock()
	defer k.mu.Unlock()
	recorded := ""
	harm := map[string]string{}
	first := func(what, version string) {
		if _, known := harm[what]; !known {
			harm[what] = version
		}
	}
	for _, e := range k.events {
		switch obj := e.Object.(type) {
		case *unstructured.Unstructured:
			if recorded == "" && recordedNode(t, obj) == node.UID {
				recorded = obj.GetResourceVersion()
			}
		case *corev1.Node:
			if obj.UID != node.UID {
				continue
			}
			if obj.Spec.Unschedulable {
				first("cordon", obj.ResourceVersion)
			}
			if obj.DeletionTimestamp != nil || e.Type == watch.Deleted {
				first("deletion", obj.ResourceVersion)
			}
		}
	}
	require.NotEmpty(t, recorded, "the Node was recorded")
	for _, what := range []string{"cordon", "deletion"} {
		require.Contains(t, harm, what)
		if compare(t, harm[what], recorded) <= 0 {
			t.Errorf("%s at resourceVersion %s, the Node was recorded at %s", what, harm[what], recorded)
		}
	}
}

func recordedNode(t *testing.T, m *unstructured.Unstructured) types.UID {
	t.Helper()
	var state contract.MachineState
	require.NoError(t, machineKind().Adapter.Read(m, &state))
	return state.Node.UID
}
