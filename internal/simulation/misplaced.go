package simulation

import (
	"context"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// UserRestoresElsewhere means that a person restores the objects of the first namespace into another one beside them, and deletes the
// copies at another time: they have other UIDs, and the recorded instances, Nodes, ledgers and marks of the originals.
const UserRestoresElsewhere Fault = "user restores into another namespace"

// misplaced is the namespace of such copies.
const misplaced = "misplaced"

// restoresElsewhere copies the Machines, sets and deployments with what they refer to, or deletes the copies. Some tools keep owner references, and the garbage
// collector then deletes copies whose owners have other UIDs.
func (w *World) restoresElsewhere(ctx context.Context) {
	if w.deletesMisplaced(ctx) != "" {
		return
	}
	keeps := w.choices.pick(2) == 1
	for _, obj := range w.ours() {
		if obj.GetNamespace() != namespace || obj.GetKind() == poolKind || obj.GetKind() == poolInfraKind || obj.GetKind() == checkKind {
			continue
		}
		twin := obj.DeepCopy()
		twin.SetNamespace(misplaced)
		twin.SetUID("")
		twin.SetResourceVersion("")
		twin.SetDeletionTimestamp(nil)
		if !keeps {
			twin.SetOwnerReferences(nil)
		}
		unstructured.RemoveNestedField(twin.Object, "metadata", "creationTimestamp")
		w.note("user", fmt.Sprintf("restore %s %s into namespace %s", obj.GetKind(), obj.GetName(), misplaced),
			said(w.store.Client().Create(ctx, twin)))
	}
}

// deletesMisplaced deletes the copies, and returns what is there of them. Once the faults have stopped, a person leaves the instances of
// copies to the originals, as their conditions say.
func (w *World) deletesMisplaced(ctx context.Context) (left string) {
	for _, obj := range w.ours() {
		if !isMisplaced(obj) {
			continue
		}
		left = fmt.Sprintf("the copy of %s %s: %s", obj.GetKind(), obj.GetName(), messages(obj))
		if obj.GetDeletionTimestamp() != nil && w.calm && strings.Contains(left, "spec.providerID") {
			w.patch(ctx, obj, `{"metadata":{"finalizers":null},"spec":{"providerID":null}}`)
		}
		if obj.GetDeletionTimestamp() == nil {
			w.note("user", "delete the copy of "+obj.GetKind()+" "+obj.GetName(), said(w.store.Client().Delete(ctx, obj.DeepCopy())))
		}
	}
	return left
}

// isMisplaced reports whether an object is a copy in another namespace.
func isMisplaced(obj *unstructured.Unstructured) bool { return obj.GetNamespace() == misplaced }
