package patch

import (
	"maps"
	"reflect"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// marks remembers the last write of each object until the cache shows it.
type marks struct {
	clock clock.PassiveClock

	mu      sync.Mutex
	written map[types.UID]mark
	swept   time.Time
}

type mark struct {
	resourceVersion string
	at              time.Time
	// gone: the write removed the object. The API server returned the version from before the removal.
	gone bool
	// deleted: this process requests the deletion of the object.
	deleted bool
}

// MaxBehind is how long a write is remembered at most, by the clock of the Writer: the cache never shows an object that
// was deleted right after the write, or by it.
const MaxBehind = 10 * time.Minute

func newMarks(c clock.PassiveClock) *marks {
	return &marks{clock: c, written: map[types.UID]mark{}, swept: c.Now()}
}

// Wrote records a write that did not go through the Writer; obj is the answer of the API server. If two writes of one
// object are recorded in the wrong order, the later version counts.
func (m *marks) Wrote(obj metav1.Object) {
	m.remember(obj, mark{resourceVersion: obj.GetResourceVersion(), gone: removes(obj)})
}

// Deletes records that the deletion of obj, an object as it was read, is requested now, and returns the latest resource version that is
// known of it: that of obj, or of a write that the cache does not show yet. If the request fails, look at the object again.
func (m *marks) Deletes(obj metav1.Object) (resourceVersion string) {
	return m.remember(obj, mark{resourceVersion: obj.GetResourceVersion(), deleted: true})
}

// remember returns the resource version of the last write.
func (m *marks) remember(obj metav1.Object, as mark) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.clock.Now()
	as.at = now
	if last, found := m.written[obj.GetUID()]; found {
		as.deleted = as.deleted || last.deleted
		if order, err := resourceversion.CompareResourceVersion(as.resourceVersion, last.resourceVersion); err == nil && order < 0 {
			last.deleted = as.deleted
			as = last
		}
	}
	m.written[obj.GetUID()] = as
	if now.Sub(m.swept) >= MaxBehind {
		m.swept = now
		maps.DeleteFunc(m.written, func(_ types.UID, w mark) bool { return now.Sub(w.at) >= MaxBehind })
	}
	return as.resourceVersion
}

// removes reports whether a write with this answer removed the object: an object in deletion is removed with its last
// finalizer.
func removes(obj metav1.Object) bool {
	grace := obj.GetDeletionGracePeriodSeconds()
	return obj.GetDeletionTimestamp() != nil && len(obj.GetFinalizers()) == 0 && (grace == nil || *grace == 0)
}

// Behind reports whether obj is older than its last write, for MaxBehind at most. A pass over it would repeat that
// write, and a patch with its resource version would be rejected. If the last write removed the object, every copy is
// behind. If resource versions cannot be compared, no other object is behind.
func (m *marks) Behind(obj metav1.Object) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	last, found := m.written[obj.GetUID()]
	if !found {
		return false
	}
	order, err := resourceversion.CompareResourceVersion(obj.GetResourceVersion(), last.resourceVersion)
	if (last.gone || err == nil && order < 0) && m.clock.Since(last.at) < MaxBehind {
		return true
	}
	if !last.deleted {
		delete(m.written, obj.GetUID())
	}
	return false
}

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
