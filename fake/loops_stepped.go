package fake

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

// Stepped are Loops that the caller drives: nothing happens until Do is called, in any order. With a fake clock and one goroutine, the same
// calls always have the same effect. It is not safe for concurrent use.
type Stepped struct {
	store *Store
	loops []loop
	tasks []Task
}

// Task is one object that a loop must sync.
type Task struct {
	// Loop is the name of the loop, and Object that of the object: "scheduler", "Pod default/web-1".
	Loop, Object string
	// Due is when the loop syncs it, by the Clock of the store.
	Due time.Time

	loop int
	key  objectKey
}

// Step returns loops that the caller drives, instead of Start. Existing objects are handled as new ones.
func (s *Store) Step(l Loops) *Stepped {
	p := &Stepped{store: s, loops: s.loops(l)}
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, one := range p.loops {
		s.listen(&listener{notify: func(e event) {
			for _, key := range one.keys(e) {
				p.add(i, key, 0)
			}
		}})
	}
	return p
}

// add makes an object due, at once or later, unless it is due earlier.
func (p *Stepped) add(i int, key objectKey, after time.Duration) {
	due := p.store.clock.Now().Add(after)
	for n := range p.tasks {
		if t := &p.tasks[n]; t.loop == i && t.key == key {
			if due.Before(t.Due) {
				t.Due = due
			}
			return
		}
	}
	object := key.Kind + " " + strings.TrimPrefix(key.NamespacedName.String(), "/")
	p.tasks = append(p.tasks, Task{Loop: p.loops[i].name, Object: object, Due: due, loop: i, key: key})
}

// Tasks returns the pending tasks: the earliest first, then by loop, in the order of the fields of Loops, and by object.
func (p *Stepped) Tasks() []Task {
	p.store.mu.Lock()
	defer p.store.mu.Unlock()
	all := slices.Clone(p.tasks)
	slices.SortFunc(all, func(a, b Task) int {
		return cmp.Or(a.Due.Compare(b.Due), cmp.Compare(a.loop, b.loop), cmp.Compare(a.Object, b.Object))
	})
	return all
}

// Do syncs the object of a task, whether it is due or not.
func (p *Stepped) Do(t Task) {
	p.store.mu.Lock()
	defer p.store.mu.Unlock()
	p.tasks = slices.DeleteFunc(p.tasks, func(other Task) bool { return other.loop == t.loop && other.key == t.key })
	if again := p.loops[t.loop].sync(t.key); again > 0 {
		p.add(t.loop, t.key, again)
	}
}
