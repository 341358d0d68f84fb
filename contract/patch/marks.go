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

// marks are the last writes of objects, kept until the cache has caught up with them.
type marks struct {
	clock clock.PassiveClock

	mu      sync.Mutex
	written map[types.UID]mark
	swept   time.Time
}

type mark struct {
	resourceVersion string
	at              time.Time
	// gone: the write removed the object. The API server answers with the version from before it.
	gone bool
}

// MaxBehind bounds how long a write is remembered, by the Writer's clock and that of no other process: an object that was deleted right
// after it, or by it, is never seen again.
const MaxBehind = 10 * time.Minute

func newMarks(c clock.PassiveClock) *marks {
	return &marks{clock: c, written: map[types.UID]mark{}, swept: c.Now()}
}

// Wrote remembers a write that did not go through the Writer: obj is what came back. Of two writes of one object the later counts, in
// whatever order their answers are told.
func (m *marks) Wrote(obj metav1.Object) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if last, found := m.written[obj.GetUID()]; found {
		if order, err := resourceversion.CompareResourceVersion(obj.GetResourceVersion(), last.resourceVersion); err == nil && order < 0 {
			return
		}
	}
	now := m.clock.Now()
	m.written[obj.GetUID()] = mark{obj.GetResourceVersion(), now, removes(obj)}
	if now.Sub(m.swept) < MaxBehind {
		return
	}
	m.swept = now
	maps.DeleteFunc(m.written, func(_ types.UID, w mark) bool { return now.Sub(w.at) >= MaxBehind })
}

// removes reports whether a write whose answer is obj was the last one: an object in deletion does not outlive its last finalizer.
func removes(obj metav1.Object) bool {
	grace := obj.GetDeletionGracePeriodSeconds()
	return obj.GetDeletionTimestamp() != nil && len(obj.GetFinalizers()) == 0 && (grace == nil || *grace == 0)
}

// Behind reports whether obj is older than the last write of it, for MaxBehind at most. Deciding on it would repeat that write, and
// a patch that carries its resource version would be rejected. Any copy of an object that the last write removed is behind. Where
// resource versions cannot be compared, nothing else is.
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

// pace is how long writes take, their wait for the client's own rate limit included.
type pace struct {
	clock clock.PassiveClock

	mu      sync.Mutex
	average time.Duration // worth something for as long as the last write is not long ago
	at      time.Time
}

// staleAfter is for how long an average is worth something.
const staleAfter = time.Minute

func (p *pace) took(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	const weight = 8 // of what was before
	p.average += (d - p.average) / weight
	p.at = p.clock.Now()
}

// Pace is how long a write takes at present, its wait for the client's own rate limit included: an average, and zero when nothing
// was written for a minute.
func (p *pace) Pace() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.clock.Since(p.at) > staleAfter {
		p.average = 0 // nothing is known any more
	}
	return p.average
}
