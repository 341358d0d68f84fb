package machine

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
)

// memory is what a process remembers between passes: which events were recorded, and which objects are unread.
// The patch.Writer knows which writes the caches do not show yet. Losing the memory costs time or one rejected write, never correctness.
// Safe for concurrent use.
type memory struct {
	clock clock.PassiveClock

	mu        sync.Mutex
	told      map[types.NamespacedName]telling
	deletions map[types.NamespacedName]deletionMemory
	held      map[types.NamespacedName]watchedNode
	unread    map[types.NamespacedName]time.Time
	lost      map[types.NamespacedName]lostObject
	notKept   map[types.NamespacedName]notKeptWrite
}

// lostObject is an object that a running Machine references, and that the API server confirmed as gone.
type lostObject struct {
	machine types.UID
	object  goneObject
}

// watchedNode is a Node whose pods or volumes are watched for a Machine, and the function that stops that.
type watchedNode struct {
	name    string
	release func()
}

func newMemory(c clock.PassiveClock) *memory {
	return &memory{
		clock:     c,
		deletions: map[types.NamespacedName]deletionMemory{},
		held:      map[types.NamespacedName]watchedNode{},
		told:      map[types.NamespacedName]telling{},
		unread:    map[types.NamespacedName]time.Time{},
		lost:      map[types.NamespacedName]lostObject{},
		notKept:   map[types.NamespacedName]notKeptWrite{},
	}
}

// watchNode remembers the Node that is watched for a Machine, in place of another one, until unwatchNode.
func (m *memory) watchNode(key types.NamespacedName, node watchedNode) {
	m.mu.Lock()
	before := m.held[key]
	m.held[key] = node
	m.mu.Unlock()
	if before.release != nil && before.name != node.name {
		before.release()
	}
}

// unwatchNode forgets the Node that is watched for a Machine and returns it; the caller releases it. It is zero when there is none.
func (m *memory) unwatchNode(key types.NamespacedName) watchedNode {
	m.mu.Lock()
	defer m.mu.Unlock()
	held := m.held[key]
	delete(m.held, key)
	return held
}

// forget removes what was remembered about a Machine that is gone, or is no longer reconciled. When its finalizer was removed during its
// drain, the drain of its Node ends.
func (m *memory) forget(key types.NamespacedName) {
	m.mu.Lock()
	held := m.held[key]
	delete(m.held, key)
	m.dropLocked(key)
	m.mu.Unlock()
	if held.release != nil {
		held.release()
	}
}

func (m *memory) dropLocked(key types.NamespacedName) {
	delete(m.deletions, key)
	delete(m.told, key)
	delete(m.unread, key)
	delete(m.lost, key)
	delete(m.notKept, key)
}

// isLost reports whether an object was gone when the API server was asked. Unlike an object that a Machine in deletion has lost, it may
// come back.
func (m *memory) isLost(key types.NamespacedName, o lostObject) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.lost[key] == o
}

// setLost remembers an object that is gone; the zero lostObject means that it is back.
func (m *memory) setLost(key types.NamespacedName, o lostObject) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if o == (lostObject{}) {
		delete(m.lost, key)
		return
	}
	m.lost[key] = o
}

// unreadSince returns since when referenced objects of a Machine are unread, zero while they are read.
func (m *memory) unreadSince(key types.NamespacedName) time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.unread[key]
}

func (m *memory) setUnreadSince(key types.NamespacedName, since time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if since.IsZero() {
		delete(m.unread, key)
		return
	}
	m.unread[key] = since
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
