package patch

import (
	"maps"
	"reflect"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// IsNews reports whether a change of an object may matter to a pass that reads it. It is false when only finalizers, managed fields and
// the resource version differ, and also for what the Writer has done itself: owners and labels that it wrote, and the start of a
// deletion that it requested (see Deletes). A change by others, also one that came together with a write of this Writer, is news, and so
// is any change of an object of a Go type, of another object with the name, and of one whose requested deletion was taken back by a
// backup. before and now are not changed.
func (m *marks) IsNews(before, now client.Object) bool {
	old, ok := before.(*unstructured.Unstructured)
	fresh, ok2 := now.(*unstructured.Unstructured)
	if !ok || !ok2 || old.GetUID() != fresh.GetUID() {
		return true
	}
	m.mu.Lock()
	last := m.written[fresh.GetUID()]
	m.mu.Unlock()
	goes := fresh.GetDeletionTimestamp() != nil
	if last.deleted && !goes {
		return true
	}
	expected := []string{"resourceVersion", "managedFields", "finalizers"}
	if last.resourceVersion == fresh.GetResourceVersion() {
		expected = append(expected, "ownerReferences", "labels")
	}
	if last.deleted {
		expected = append(expected, "deletionTimestamp", "deletionGracePeriodSeconds", "generation")
	}
	return !reflect.DeepEqual(trimmed(old.Object, expected), trimmed(fresh.Object, expected))
}

// trimmed returns an object without some members of its metadata. The rest is shared.
func trimmed(obj map[string]any, without []string) map[string]any {
	metadata, ok := obj["metadata"].(map[string]any)
	if !ok {
		return obj
	}
	metadata = maps.Clone(metadata)
	for _, key := range without {
		delete(metadata, key)
	}
	obj = maps.Clone(obj)
	obj["metadata"] = metadata
	return obj
}
