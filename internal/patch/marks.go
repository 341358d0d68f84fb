package patch

import (
	"maps"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/utils/clock"
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
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.clock.Now()
	last, found := m.written[obj.GetUID()]
	order, err := resourceversion.CompareResourceVersion(obj.GetResourceVersion(), last.resourceVersion)
	if !found || err != nil || order >= 0 {
		m.written[obj.GetUID()] = mark{obj.GetResourceVersion(), now, removes(obj)}
	}
	if now.Sub(m.swept) >= MaxBehind {
		m.swept = now
		maps.DeleteFunc(m.written, func(_ types.UID, w mark) bool { return now.Sub(w.at) >= MaxBehind })
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
	delete(m.written, obj.GetUID())
	return false
}
