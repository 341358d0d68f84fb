package patch

import (
	"maps"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
)

// mark is the last write of an object that the cache has yet to show.
type mark struct {
	resourceVersion string
	at              time.Time
	// gone: the write removed the object. The API server returned the version from before the removal.
	gone bool
}

// MaxBehind is how long a write is remembered at most, by the clock of the Writer: the cache never shows an object that
// was deleted right after the write, or by it.
const MaxBehind = 10 * time.Minute

// Wrote records a write by the answer of the API server. If two writes of one object are recorded in the wrong order, the later version
// counts. What is too old to matter is forgotten.
func (w *Writer) Wrote(obj metav1.Object) {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := w.clock.Now()
	last, found := w.written[obj.GetUID()]
	order, err := resourceversion.CompareResourceVersion(obj.GetResourceVersion(), last.resourceVersion)
	if !found || err != nil || order >= 0 {
		w.written[obj.GetUID()] = mark{obj.GetResourceVersion(), now, removes(obj)}
	}
	if now.Sub(w.swept) >= forgotten {
		w.swept = now
		maps.DeleteFunc(w.written, func(_ types.UID, last mark) bool { return now.Sub(last.at) >= MaxBehind })
		maps.DeleteFunc(w.sent, func(_ subject, r *repeats) bool { return now.Sub(r.last) >= forgotten })
	}
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
func (w *Writer) Behind(obj metav1.Object) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	last, found := w.written[obj.GetUID()]
	if !found {
		return false
	}
	order, err := resourceversion.CompareResourceVersion(obj.GetResourceVersion(), last.resourceVersion)
	if (last.gone || err == nil && order < 0) && w.clock.Since(last.at) < MaxBehind {
		return true
	}
	delete(w.written, obj.GetUID())
	return false
}
