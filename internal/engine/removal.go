package engine

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/internal/external"
	"github.com/machinist-dev/machinist/internal/patch"
)

// Removal is how an object in deletion removes an object that it refers to.
type Removal struct {
	// Reason is that of the condition Deleting during the wait.
	Reason string
	// Lost says what cannot be found again without the object when its kind is missing; it is empty when no instance depends on the object.
	Lost string
	// Unchanged makes the deletion a conflict when the object changed since it was read.
	Unchanged bool
	// Deletions are those that were requested, and that caches do not show yet.
	Deletions *Deletions
	// Confirm asks the API server whether an object is gone.
	Confirm func(context.Context, schema.GroupVersionKind, types.NamespacedName) (bool, error)
}

// Remove deletes a referenced object, unless it belongs to another controller, and is done when the API server confirms that the object, or
// its kind, is gone. Until then the condition Deleting says what it waits for: that, a problem that a person has to fix, or a read that has
// to succeed.
func (s *Scope[S, U]) Remove(ctx context.Context, e external.Object, r Removal) (done bool, err error) {
	name, message := e.Ref.Kind+" "+e.Ref.Name, e.Problem.Message
	gvk, key := e.GVK, types.NamespacedName{Namespace: s.Common().Key.Namespace, Name: e.Ref.Name}
	s.Requeue(e.RetryAfter)
	switch {
	case e.Presence == external.NotReferenced || e.Foreign:
		return true, nil
	case e.Presence == external.Present:
		message = fmt.Sprintf("Waiting for %s to be deleted", name)
		if err = s.DeleteReferenced(ctx, e, r.Deletions, r.Unchanged); err != nil && !patch.Retryable(err) {
			message = err.Error()
		}
		s.Wait(r.Reason, message)
		return false, err
	case e.Presence == external.Absent:
		message = name + " exists, but has not been seen yet"
	case e.Presence == external.KindMissing && r.Lost == "":
		gvk, key = external.CRDGVK(), types.NamespacedName{Name: contract.CRDName(e.Ref.GroupKind())}
	case e.Presence == external.KindMissing:
		s.Wait(r.Reason, message+"; "+r.Lost)
		return false, nil
	default:
		s.Wait(r.Reason, cmp.Or(message, name+" could not be read yet"))
		return false, nil
	}
	gone, err := r.Confirm(ctx, gvk, key)
	switch {
	case err != nil:
		s.Wait(r.Reason, err.Error())
	case !gone:
		s.Wait(r.Reason, message)
		s.Requeue(external.AbsenceRetry)
	}
	return gone, err
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
