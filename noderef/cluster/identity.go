package cluster

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/contract"
)

// UIDAnnotation of an object holds the UID of the cluster of its Nodes, see View.UID. It is written when the first Node is recorded.
const UIDAnnotation = "machinist.dev/cluster-uid"

// readUID reads the UID of the namespace kube-system, which is deleted only with its cluster. It is empty if the server has no such
// namespace, or the user may not read it.
func readUID(ctx context.Context, reader client.Reader) (types.UID, error) {
	namespace := &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"}}
	err := reader.Get(ctx, client.ObjectKey{Name: metav1.NamespaceSystem}, namespace)
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsForbidden(err) && !meta.IsNoMatchError(err) {
		return "", fmt.Errorf("read namespace %s: %w", metav1.NamespaceSystem, err)
	}
	return namespace.UID, nil
}

// confirmOther makes one request, and reports whether the server now belongs to another cluster than at the start of the session.
func (s *session[T]) confirmOther(ctx context.Context) bool {
	uid, err := readUID(ctx, s.cluster.GetAPIReader())
	return err == nil && uid != "" && uid != s.uid
}

// otherClusterError is the error of Workload.Recognize. It matches ErrNotSynced: a Node that is not found here is not missing.
type otherClusterError struct{ recorded, now types.UID }

func (e otherClusterError) Error() string {
	return fmt.Sprintf("the kubeconfig leads to another cluster than that of the recorded Nodes: namespace %s has UID %s, and annotation %s "+
		"has %s: correct the kubeconfig, or remove the annotation if this cluster takes the place of that one",
		metav1.NamespaceSystem, e.now, UIDAnnotation, e.recorded)
}

func (otherClusterError) Is(target error) bool { return target == ErrNotSynced }

// Recognize returns an error that matches IsUnread when the recorded Nodes of an object are in another cluster: they are not gone when they
// are not found here. If either UID is unknown, it returns nil.
func (w Workload) Recognize(object *contract.Metadata) error {
	recorded := types.UID(object.Annotations[UIDAnnotation])
	if recorded == "" || w.UID == "" || recorded == w.UID {
		return nil
	}
	return otherClusterError{recorded, w.UID}
}

// Record adds the UID of the cluster to the annotations of an object that records a Node, unless the UID is unknown or already there.
func (w Workload) Record(object *contract.Metadata, change func(key string, to contract.Change[string])) {
	if w.UID != "" && object.Annotations[UIDAnnotation] != string(w.UID) {
		change(UIDAnnotation, contract.SetTo(string(w.UID)))
	}
}
