package external

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/contract"
)

// typedState is the content of a Cluster of a Go type. The type is not known here, so the object is converted to
// unstructured content. That is slow, so it is done once per version of the object.
type typedState struct {
	uid     types.UID
	version string
	state   contract.ClusterState
	err     error
}

// maxStates limits how many states are remembered: a late read may remember a deleted Cluster. Forgetting one costs a
// conversion.
const maxStates = 10000

// empty returns an empty object of the watched type.
func (c *Clusters) empty() client.Object {
	if u, ok := c.object.(*unstructured.Unstructured); ok {
		return &unstructured.Unstructured{Object: map[string]any{"apiVersion": u.GetAPIVersion(), "kind": u.GetKind()}}
	}
	return c.object.DeepCopyObject().(client.Object) //nolint:forcetypeassert // a copy is of the same type
}

// read fills a state. The error tells how the object violates its contract.
func (c *Clusters) read(obj client.Object, into *contract.ClusterState) error {
	if u, ok := obj.(*unstructured.Unstructured); ok {
		return c.layout.Read(u, into)
	}
	key := client.ObjectKeyFromObject(obj)
	c.mu.Lock()
	known := c.states[key]
	c.mu.Unlock()
	if known.version == "" || known.version != obj.GetResourceVersion() || known.uid != obj.GetUID() {
		known = c.convert(obj)
		c.mu.Lock()
		if len(c.states) >= maxStates {
			clear(c.states)
		}
		c.states[key] = known
		c.mu.Unlock()
	}
	*into = known.state
	return known.err
}

func (c *Clusters) convert(obj client.Object) typedState {
	converted := typedState{uid: obj.GetUID(), version: obj.GetResourceVersion()}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
	if err != nil {
		converted.err = fmt.Errorf("read %T: %w", obj, err)
		return converted
	}
	u := &unstructured.Unstructured{Object: content}
	u.SetGroupVersionKind(c.gvk) // typed objects in a cache have no TypeMeta
	converted.err = c.layout.Read(u, &converted.state)
	return converted
}

// forget drops the state of a deleted Cluster.
func (c *Clusters) forget(obj client.Object) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.states, client.ObjectKeyFromObject(obj))
}
