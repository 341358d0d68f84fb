package engine

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// Memory is the memory of a process about each object between passes, as a value of the kind's own type. Losing it costs time and requests,
// never correctness. Safe for concurrent use; the value of one object belongs to the worker that reconciles that object. Values of the zero
// Memory start as zero.
type Memory[T any] struct {
	create  func() *T
	release func(*T)

	mu  sync.Mutex
	all map[types.NamespacedName]remembered[T]
}

type remembered[T any] struct {
	uid   types.UID
	value *T
}

// NewMemory returns an empty Memory. create returns the first value for an object. release, if it is not nil, is called with a value that
// is removed.
func NewMemory[T any](create func() *T, release func(*T)) *Memory[T] {
	return &Memory[T]{create: create, release: release}
}

// Of returns the value for an object. An object with the same name and another UID is another object.
func (m *Memory[T]) Of(key types.NamespacedName, uid types.UID) *T {
	m.mu.Lock()
	found, known := m.all[key]
	if known && found.uid == uid {
		m.mu.Unlock()
		return found.value
	}
	fresh := new(T)
	if m.create != nil {
		fresh = m.create()
	}
	if m.all == nil {
		m.all = map[types.NamespacedName]remembered[T]{}
	}
	m.all[key] = remembered[T]{uid, fresh}
	m.mu.Unlock()
	if known && m.release != nil {
		m.release(found.value)
	}
	return fresh
}

// Forget removes the value for an object that is gone, or that is no longer reconciled.
func (m *Memory[T]) Forget(key types.NamespacedName) {
	m.mu.Lock()
	found, known := m.all[key]
	delete(m.all, key)
	m.mu.Unlock()
	if known && m.release != nil {
		m.release(found.value)
	}
}
