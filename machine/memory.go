package machine

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/internal/engine"
)

// recollection is what a process remembers about one Machine between passes. Losing it costs time or one rejected write, never correctness.
// It belongs to the worker that reconciles the Machine. The patch.Writer knows which writes the caches do not show yet.
type recollection struct {
	// told are the events of the last pass that did not fail, and in a deletion the last ones of all its passes.
	told []engine.Event
	// watched is the Node whose pods or volumes this process watches for the Machine.
	watched watchedNode
	// unreadSince is since when Nodes or referenced objects are unread, zero while they are read.
	unreadSince time.Time

	ofDeletion
}

// ofDeletion is what a process remembers about one deletion of a Machine; zero while the Machine is not being deleted.
type ofDeletion struct {
	// requestedAt is the deletion timestamp of the Machine.
	requestedAt time.Time
	// gone and requested are about objects of the Machine. An object that the API server confirmed as gone stays gone, and a deletion that it
	// accepted is not requested again: caches show both later.
	gone      map[goneObject]bool
	requested engine.Deletions
	// instanceGone: the Driver has said that nothing is left of the instance.
	instanceGone bool
	// instanceToken is that of the instance, once the Driver has reported it: usually the UID of the Machine that it was made for.
	instanceToken contract.Opt[string]
}

// observeDeletion forgets what belongs to another deletion than that of the Machine as read, zero for none. A backup that was restored has
// taken the other one back: its Node may not be drained any more, and objects that were gone or being deleted may exist again.
func (m *recollection) observeDeletion(requestedAt time.Time) {
	if m.requestedAt.Equal(requestedAt) {
		return
	}
	m.stopWatching()
	if !m.requestedAt.IsZero() {
		m.told = nil
	}
	m.ofDeletion = ofDeletion{requestedAt: requestedAt}
}

// tells returns those of a pass's events that are new, and remembers them. A stage that is left out is left out in each pass of a deletion,
// and a pass that waits for something else in between does not get there.
func (m *recollection) tells(told []engine.Event, deleting bool) []engine.Event {
	fresh := slices.DeleteFunc(slices.Clone(told), func(e engine.Event) bool { return slices.Contains(m.told, e) })
	if !deleting {
		m.told = told
		return fresh
	}
	m.told = append(m.told, fresh...)
	m.told = slices.Clone(m.told[max(0, len(m.told)-20):]) // more than a deletion has
	return fresh
}

// goneObject is an object that may be gone.
type goneObject struct {
	gvk  schema.GroupVersionKind
	name types.NamespacedName
}

// watchedNode is a Node whose pods or volumes are watched for a Machine, and the function that stops that.
type watchedNode struct {
	name    string
	release func()
}

// setGone remembers that an object of a Machine in deletion is gone.
func (m *recollection) setGone(object goneObject) {
	if m.gone == nil {
		m.gone = map[goneObject]bool{}
	}
	m.gone[object] = true
}

// watch remembers the Node that is watched from now on, and ends the drain of another one.
func (m *recollection) watch(node watchedNode) {
	before := m.watched
	if m.watched = node; before.release != nil && before.name != node.name {
		before.release()
	}
}

// stopWatching ends the drain of the Node that is watched, if there is one.
func (m *recollection) stopWatching() { m.watch(watchedNode{}) }
