package machine

import (
	"maps"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/utils/clock"
)

// memory is what a process remembers between passes: which writes its caches have yet to show, and which status is waiting
// to be written, and which events were told. Losing it costs time or one rejected write, never correctness. Safe for concurrent use.
type memory struct {
	clock clock.PassiveClock

	mu        sync.Mutex
	written   map[types.UID]writeMark
	swept     time.Time
	pending   map[types.NamespacedName]settling
	told      map[types.NamespacedName]telling
	latency   time.Duration // of writes, averaged; worth something for as long as the last of them is not long ago
	tookAt    time.Time
	farewells map[types.NamespacedName]farewell
}

// writeMark is our last write of an object, kept until the cache has caught up with it.
type writeMark struct {
	resourceVersion string
	at              time.Time
}

// maxBehind bounds how long a write is remembered: an object that was deleted right after it is never seen again.
const maxBehind = 10 * time.Minute

func newMemory(c clock.PassiveClock) *memory {
	return &memory{
		clock: c, written: map[types.UID]writeMark{}, swept: c.Now(), pending: map[types.NamespacedName]settling{},
		farewells: map[types.NamespacedName]farewell{},
		told:      map[types.NamespacedName]telling{},
	}
}

// wrote remembers the result of a write.
func (m *memory) wrote(obj metav1.Object) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.clock.Now()
	m.written[obj.GetUID()] = writeMark{obj.GetResourceVersion(), now}
	if now.Sub(m.swept) < maxBehind {
		return
	}
	m.swept = now
	maps.DeleteFunc(m.written, func(_ types.UID, w writeMark) bool { return now.Sub(w.at) >= maxBehind })
}

// behind reports whether obj is older than our own last write of it. Deciding on it would repeat that write, and a patch
// that carries its resourceVersion would be rejected. Where resource versions cannot be compared, nothing is behind.
func (m *memory) behind(obj metav1.Object) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	last, found := m.written[obj.GetUID()]
	if !found {
		return false
	}
	order, err := resourceversion.CompareResourceVersion(obj.GetResourceVersion(), last.resourceVersion)
	if err == nil && order < 0 && m.clock.Since(last.at) < maxBehind {
		return true
	}
	delete(m.written, obj.GetUID())
	return false
}

func (m *memory) settling(key types.NamespacedName) settling {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.pending[key]
}

func (m *memory) setSettling(key types.NamespacedName, s settling) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if s == (settling{}) {
		delete(m.pending, key)
		return
	}
	m.pending[key] = s
}

// forget drops what was remembered of a Machine that is gone.
func (m *memory) forget(key types.NamespacedName) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.pending, key)
	delete(m.farewells, key)
	delete(m.told, key)
}

func (m *memory) telling(key types.NamespacedName) telling {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.told[key]
}

func (m *memory) setTelling(key types.NamespacedName, t telling) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(t.last) == 0 && len(t.due) == 0 {
		delete(m.told, key)
		return
	}
	m.told[key] = t
}

// took remembers how long a write took, its wait for the client's own rate limit included.
func (m *memory) took(d time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	const weight = 8 // of what was before
	m.latency += (d - m.latency) / weight
	m.tookAt = m.clock.Now()
}

// backlog is how long it would take to write, one after the other, all statuses that are waiting.
func (m *memory) backlog() time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.clock.Since(m.tookAt) > maxPatience {
		m.latency = 0 // nothing is known any more
	}
	return time.Duration(len(m.pending)) * m.latency
}
