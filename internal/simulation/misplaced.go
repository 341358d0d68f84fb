package simulation

import (
	"context"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// misplaced is the namespace of copies: they have other UIDs, and the recorded instances, Nodes, ledgers and marks of the originals.
const misplaced = "misplaced"

// restoresElsewhere copies the Machines, sets and deployments with what they refer to, or deletes the copies. Some tools keep owner
// references, and the garbage collector then deletes copies whose owners have other UIDs.
func (w *World) restoresElsewhere(ctx context.Context) {
	if w.deletesMisplaced(ctx) != "" {
		return
	}
	keeps := w.choices.pick(2) == 1
	for _, obj := range w.ours() {
		if obj.GetNamespace() != namespace || obj.GetKind() == poolKind || obj.GetKind() == poolInfraKind || obj.GetKind() == checkKind {
			continue
		}
		w.copies(obj, misplaced, keeps)
	}
}

// copies creates an object again, with its owners or without.
func (w *World) copies(obj *unstructured.Unstructured, namespace string, owned bool) {
	twin := obj.DeepCopy()
	for _, field := range []string{"uid", "resourceVersion", "deletionTimestamp", "creationTimestamp"} {
		unstructured.RemoveNestedField(twin.Object, "metadata", field)
	}
	if twin.SetNamespace(namespace); !owned {
		twin.SetOwnerReferences(nil)
	}
	w.note("user", fmt.Sprintf("create %s %s in namespace %s", obj.GetKind(), obj.GetName(), namespace),
		said(w.store.Client().Create(w.ctx, twin)))
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
			w.deletes(obj, ", a copy")
		}
	}
	return left
}

// isMisplaced reports whether an object is a copy in another namespace.
func isMisplaced(obj *unstructured.Unstructured) bool { return obj.GetNamespace() == misplaced }
