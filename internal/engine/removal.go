package engine

import (
	"context"
	"fmt"
	"maps"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/internal/external"
)

// Removal is the decision about an object that an object in deletion refers to.
type Removal uint8

// Values of Removal.
const (
	// RemovalDone: there is no object to delete, or it belongs to another controller.
	RemovalDone Removal = iota
	// RemovalDelete: request its deletion, and wait until it is gone.
	RemovalDelete
	// RemovalConfirm: continue when the API server confirms that the object is gone.
	RemovalConfirm
	// RemovalConfirmKind: continue when the API server confirms that the kind is gone.
	RemovalConfirmKind
	// RemovalWait: a person has to fix a problem first, or a read has to succeed.
	RemovalWait
)

// DecideRemoval decides about one referenced object, and returns the message for the time of the wait. lost says what cannot be found
// again without the object when its kind is missing; it is empty when no instance depends on the object.
func DecideRemoval(e external.Object, lost string) (Removal, string) {
	name := e.Ref.Kind + " " + e.Ref.Name
	switch e.Presence {
	case external.NotReferenced:
		return RemovalDone, ""
	case external.Present:
		if e.Foreign {
			return RemovalDone, ""
		}
		return RemovalDelete, fmt.Sprintf("Waiting for %s to be deleted", name)
	case external.Absent:
		return RemovalConfirm, name + " exists, but has not been seen yet"
	case external.KindMissing:
		if lost != "" {
			return RemovalWait, e.Problem.Message + "; " + lost
		}
		return RemovalConfirmKind, e.Problem.Message
	case external.Unread:
	}
	if e.Problem.Message != "" {
		return RemovalWait, e.Problem.Message
	}
	return RemovalWait, name + " could not be read yet"
}

// Deletions remembers the objects whose deletion the API server accepted, by UID: a cache shows it later, and until then it is not
// requested again. The zero value is empty. Not safe for concurrent use.
type Deletions map[types.UID]Deletion

// Deletion is one accepted deletion: the resource version that the object had, and when the API server accepted the last request.
type Deletion struct {
	ResourceVersion string
	At              time.Time
}

// Add remembers that the API server accepted the deletion of an object in a resource version, at a time.
func (d *Deletions) Add(uid types.UID, resourceVersion string, at time.Time) {
	if *d == nil {
		*d = Deletions{}
	}
	(*d)[uid] = Deletion{resourceVersion, at}
}

// Has reports whether the deletion of an object is remembered.
func (d Deletions) Has(uid types.UID) bool {
	_, found := d[uid]
	return found
}

// Observe forgets the deletion of an object that lives on in a later version than the one that the API server deleted: the object was
// restored from a backup, or changed just before the request arrived, and has to be deleted again. Call it with each object that is read.
// Versions that cannot be compared are not later.
func (d Deletions) Observe(uid types.UID, resourceVersion string, deleting bool) {
	last, found := d[uid]
	if !found || deleting {
		return
	}
	if order, err := resourceversion.CompareResourceVersion(resourceVersion, last.ResourceVersion); err == nil && order > 0 {
		delete(d, uid)
	}
}

// Keep forgets the deletions of all objects but these.
func (d Deletions) Keep(is func(types.UID) bool) {
	maps.DeleteFunc(d, func(uid types.UID, _ Deletion) bool { return !is(uid) })
}

// IsGoing reports whether a referenced object that was read is being deleted, as the cache or requested shows. requested observes it.
func IsGoing(found external.Object, requested Deletions) bool {
	if found.Object == nil {
		return false
	}
	requested.Observe(found.Object.GetUID(), found.Object.GetResourceVersion(), found.Deleting())
	return found.Deleting() || requested.Has(found.Object.GetUID())
}

// DeleteReferenced requests the deletion of a referenced object by its UID, unless it is being deleted, and adds it to requested. unchanged
// makes it a conflict when the object changed since it was read. An object that is gone is no error.
func (s *Scope[S, U]) DeleteReferenced(ctx context.Context, found external.Object, requested *Deletions, unchanged bool) error {
	if IsGoing(found, *requested) {
		return nil
	}
	uid := found.Object.GetUID()
	only := client.Preconditions{UID: &uid}
	if unchanged {
		only.ResourceVersion = new(found.Object.GetResourceVersion())
	}
	// what is deleted as metadata, controller-runtime 0.25 answers with an error
	err := s.frame.Ports.Client.Delete(ctx, named(&unstructured.Unstructured{}, found), only)
	if err != nil && !external.SaysGone(err) {
		return fmt.Errorf("delete %s %s: %w", found.Ref.Kind, found.Ref.Name, err)
	}
	requested.Add(uid, found.Object.GetResourceVersion(), s.Now)
	return nil
}
