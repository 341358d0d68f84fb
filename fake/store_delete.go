package fake

import (
	"fmt"
	"reflect"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// delete removes an object, or marks it for deletion while finalizers or a pod's grace period remain. It returns the
// remaining or the last record, and whether the object is gone.
func (s *Store) delete(k *kind, key types.NamespacedName, o metav1.DeleteOptions) (*record, bool, error) {
	rec := k.get(key)
	if rec == nil {
		return nil, false, apierrors.NewNotFound(k.groupResource(), key.Name)
	}
	if err := checkPreconditions(rec, o.Preconditions); err != nil {
		return nil, false, err
	}
	if k.GroupKind == namespaceKind && slices.Contains([]string{"default", "kube-system", "kube-public"}, key.Name) {
		return nil, false, apierrors.NewForbidden(k.groupResource(), key.Name, fmt.Errorf("this namespace may not be deleted"))
	}
	u := &unstructured.Unstructured{Object: rec.copy()}
	graceful, pending := false, false
	if k.GroupKind == podKind {
		graceful, pending = s.gracefully(u, o.GracePeriodSeconds)
	}
	if pending {
		return rec, false, nil
	}
	setPropagation(u, o)
	held := isHeld(k, u)
	if held && !graceful {
		s.markDeleting(u)
	}
	grace := u.GetDeletionGracePeriodSeconds()
	waits := held || graceful && grace != nil && *grace > 0
	switch {
	case len(o.DryRun) > 0:
		return rec, !waits, nil
	case !waits:
		return s.remove(rec), true, nil
	}
	u.SetResourceVersion(rec.meta().GetResourceVersion())
	if reflect.DeepEqual(u.Object, rec.content) {
		return rec, false, nil
	}
	left, err := s.store(k, key, u.Object)
	return left, false, err
}

// isHeld reports whether finalizers block the removal of an object. It marks a namespace as terminating.
func isHeld(k *kind, u *unstructured.Unstructured) bool {
	held := len(u.GetFinalizers()) > 0
	if k.GroupKind == namespaceKind {
		finalizers, _, _ := unstructured.NestedSlice(u.Object, "spec", "finalizers")
		held = held || len(finalizers) > 0
		set(u, "Terminating", "status", "phase")
	}
	return held
}

func checkPreconditions(rec *record, p *metav1.Preconditions) error {
	if p == nil {
		return nil
	}
	// The API server uses the kind as the resource in this error.
	gr := schema.GroupResource{Group: rec.kind.Group, Resource: rec.kind.Kind}
	if p.UID != nil && *p.UID != rec.uid {
		return apierrors.NewConflict(gr, rec.key.Name, fmt.Errorf("the UID in the precondition (%s) does not match the UID in record (%s). "+
			"The object might have been deleted and then recreated", *p.UID, rec.uid))
	}
	if version := rec.meta().GetResourceVersion(); p.ResourceVersion != nil && *p.ResourceVersion != version {
		return apierrors.NewConflict(gr, rec.key.Name, fmt.Errorf("the ResourceVersion in the precondition (%s) does not match the "+
			"ResourceVersion in record (%s). The object might have been modified", *p.ResourceVersion, version))
	}
	return nil
}

// gracefully sets a pod's deletion time and grace period. A later delete can only shorten the period; pending means that nothing changes.
func (s *Store) gracefully(u *unstructured.Unstructured, requested *int64) (graceful, pending bool) {
	if current := u.GetDeletionGracePeriodSeconds(); u.GetDeletionTimestamp() != nil {
		if current == nil || *current == 0 {
			return false, false
		}
		if requested == nil || *requested >= *current {
			return false, true
		}
		wanted := max(*requested, 0)
		due := metav1.NewTime(u.GetDeletionTimestamp().Add(time.Duration(wanted-*current) * time.Second))
		if now := s.now(); due.Before(&now) {
			due = now
			wanted = min(wanted, 1)
		}
		u.SetDeletionTimestamp(&due)
		u.SetDeletionGracePeriodSeconds(&wanted)
		return true, false
	}
	period := int64(0)
	if requested != nil {
		period = *requested
	} else if own, found, _ := unstructured.NestedInt64(u.Object, "spec", "terminationGracePeriodSeconds"); found {
		period = own
	}
	node, _, _ := unstructured.NestedString(u.Object, "spec", "nodeName")
	phase, _, _ := unstructured.NestedString(u.Object, "status", "phase")
	if node == "" || phase == "Failed" || phase == "Succeeded" {
		period = 0
	}
	if period < 0 {
		period = 1
	}
	due := metav1.NewTime(s.now().Add(time.Duration(period) * time.Second))
	u.SetDeletionTimestamp(&due)
	u.SetDeletionGracePeriodSeconds(&period)
	if u.GetGeneration() > 0 {
		u.SetGeneration(u.GetGeneration() + 1)
	}
	return true, false
}

// markDeleting sets the deletion time of an object without a grace period, or moves it forward.
func (s *Store) markDeleting(u *unstructured.Unstructured) {
	if u.GetDeletionTimestamp() == nil && u.GetGeneration() > 0 {
		u.SetGeneration(u.GetGeneration() + 1)
	}
	now, zero := s.now(), int64(0)
	if t := u.GetDeletionTimestamp(); t == nil || t.After(now.Time) {
		u.SetDeletionTimestamp(&now)
	}
	u.SetDeletionGracePeriodSeconds(&zero)
}

// setPropagation adds or removes the garbage collector's finalizers. Without a policy it does not change them.
func setPropagation(u *unstructured.Unstructured, o metav1.DeleteOptions) {
	if o.PropagationPolicy == nil {
		return
	}
	finalizers := slices.DeleteFunc(u.GetFinalizers(), func(f string) bool {
		return f == metav1.FinalizerOrphanDependents || f == metav1.FinalizerDeleteDependents
	})
	switch *o.PropagationPolicy {
	case metav1.DeletePropagationOrphan:
		finalizers = append(finalizers, metav1.FinalizerOrphanDependents)
	case metav1.DeletePropagationForeground:
		finalizers = append(finalizers, metav1.FinalizerDeleteDependents)
	}
	u.SetFinalizers(finalizers)
}
