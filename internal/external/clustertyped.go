package external

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/contract"
)

// read fills a state. The error tells how the object violates its contract. The Go type of a Cluster is not known here, so its object is
// converted to unstructured content.
func (c *Clusters) read(obj client.Object, into *contract.ClusterState) error {
	if u, ok := obj.(*unstructured.Unstructured); ok {
		return c.layout.Read(u, into)
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
	if err != nil {
		return fmt.Errorf("read %T: %w", obj, err)
	}
	u := &unstructured.Unstructured{Object: content}
	u.SetGroupVersionKind(c.gvk) // typed objects in a cache have no TypeMeta
	return c.layout.Read(u, into)
}
