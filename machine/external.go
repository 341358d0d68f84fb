package machine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/contract"
)

// Presence is what is known of a referenced object. Unread is not Absent: nothing is destroyed, and nothing is skipped, on
// the strength of a read that did not happen.
type Presence uint8

// The presences of a referenced object.
const (
	// NotReferenced: the Machine names no such object.
	NotReferenced Presence = iota
	// Unread: it could not be looked for; External.Problem says why when a person can do something about it.
	Unread
	// KindMissing: the CustomResourceDefinition of its kind does not exist.
	KindMissing
	// Absent: it does not exist.
	Absent
	// Present: it was read.
	Present
)

// String returns the name of the constant.
func (p Presence) String() string {
	names := [...]string{"NotReferenced", "Unread", "KindMissing", "Absent", "Present"}
	if int(p) < len(names) {
		return names[p]
	}
	return fmt.Sprintf("Presence(%d)", uint8(p))
}

// Problem is why a referenced object could not be used, as the reason and message of a condition.
type Problem struct{ Reason, Message string }

// External is what a pass knows of a referenced object.
type External struct {
	Ref      contract.Ref
	Presence Presence
	// GVK and Contract say how the object is read; zero while its kind is missing or unread.
	GVK      schema.GroupVersionKind
	Contract contract.Version
	// Foreign: another controller owns the object. It is neither used nor deleted.
	Foreign bool
	// Object is a view that must not be changed; nil unless Present.
	Object *unstructured.Unstructured
	// Problem is zero unless a person can do something.
	Problem Problem
	// RetryAfter is when to look again at the latest, when no event may come; zero when one will.
	RetryAfter time.Duration
}

// Deleting reports whether the object is there and on its way out.
func (e External) Deleting() bool { return e.Object != nil && e.Object.GetDeletionTimestamp() != nil }

var crdGVK = schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"}

func crdMetadata() *metav1.PartialObjectMetadata {
	crd := &metav1.PartialObjectMetadata{}
	crd.SetGroupVersionKind(crdGVK)
	return crd
}

// external looks for a referenced object through the cache, and never waits for an informer to sync.
func (r *Reconciler) external(ctx context.Context, key types.NamespacedName, ref contract.Ref) (External, error) {
	found := External{Ref: ref, Presence: NotReferenced}
	if ref.IsZero() {
		return found, nil
	}
	found.Presence = Unread
	if ref.Group == "" || ref.Kind == "" || ref.Name == "" {
		found.Problem = Problem{ReasonInternalError, fmt.Sprintf("the reference needs apiGroup, kind and name, and is %+v", ref)}
		return found, nil
	}
	resolved, err := r.resolve(ctx, key, &found)
	if err != nil || !resolved {
		return found, err
	}
	obj := &unstructured.Unstructured{}
	obj.SetGroupVersionKind(found.GVK)
	err = r.ports.Cache.Get(ctx, types.NamespacedName{Namespace: key.Namespace, Name: ref.Name}, obj, client.UnsafeDisableDeepCopy)
	switch {
	case apierrors.IsNotFound(err):
		found.Presence = Absent
	case err != nil:
		return found, fmt.Errorf("read %s %s/%s: %w", ref.Kind, key.Namespace, ref.Name, err)
	default:
		found.Presence, found.Object = Present, obj
	}
	return found, nil
}

// resolve finds out how the kind is read and makes sure that it is watched. False means that found says why not.
func (r *Reconciler) resolve(ctx context.Context, key types.NamespacedName, found *External) (bool, error) {
	gk := found.Ref.GroupKind()
	synced, err := r.watches.ensure(ctx, crdMetadata(), key)
	if err != nil {
		return false, fmt.Errorf("watch CustomResourceDefinitions: %w", err)
	}
	if !synced {
		found.RetryAfter = unsyncedRetry
		return false, nil
	}
	resolved, err := r.contractOf(ctx, gk)
	if problem, known := kindProblem(err); known {
		found.Problem = problem
		if errors.Is(err, contract.ErrNoCRD) {
			found.Presence = KindMissing
		}
		return false, nil // trouble that a person mends is a condition
	}
	if err != nil {
		return false, err
	}
	found.Contract = resolved.Contract
	found.GVK = gk.WithVersion(resolved.APIVersion)
	return r.watched(ctx, key, found)
}

// contractOf reads from the cached CRD of a kind how its objects are read. A CRD that does not exist is an error of its own,
// because only an object may be NotFound.
func (r *Reconciler) contractOf(ctx context.Context, gk schema.GroupKind) (contract.Resolved, error) {
	name := contract.CRDName(gk)
	crd := crdMetadata()
	err := r.ports.Cache.Get(ctx, types.NamespacedName{Name: name}, crd, client.UnsafeDisableDeepCopy)
	switch {
	case apierrors.IsNotFound(err):
		return contract.Resolved{}, contract.MissingCRD(gk)
	case err != nil:
		return contract.Resolved{}, fmt.Errorf("read CustomResourceDefinition %s: %w", name, err)
	}
	return contract.Resolve(name, crd.Labels)
}

// kindProblem is what a condition says about a kind whose CRD is missing or names no contract; false when a person can do
// nothing about the error. The error itself says what to do.
func kindProblem(err error) (Problem, bool) {
	switch {
	case errors.Is(err, contract.ErrNoCRD):
		return Problem{ReasonCRDNotFound, err.Error()}, true
	case errors.Is(err, contract.ErrNoContract):
		return Problem{ReasonContractLabelMissing, err.Error()}, true
	default:
		return Problem{}, false
	}
}

func (r *Reconciler) watched(ctx context.Context, key types.NamespacedName, found *External) (bool, error) {
	obj := &unstructured.Unstructured{}
	obj.SetGroupVersionKind(found.GVK)
	synced, err := r.watches.ensure(ctx, obj, key)
	switch {
	case meta.IsNoMatchError(err):
		found.Problem = Problem{ReasonVersionNotServed, fmt.Sprintf(
			"%s is not served, although the label of its CustomResourceDefinition names version %s: correct the label %s or serve the version",
			found.GVK.GroupKind(), found.GVK.Version, found.Contract.Label())}
		found.RetryAfter = notServedRetry
		return false, nil
	case err != nil:
		return false, fmt.Errorf("watch %s: %w", found.GVK.Kind, err)
	case !synced:
		found.Problem = Problem{ReasonCacheNotSynced, fmt.Sprintf(
			"The first list of %s has not come back: if this lasts, look for missing list and watch permissions", found.GVK.GroupKind())}
		found.RetryAfter = unsyncedRetry
		return false, nil
	}
	return true, nil
}

const (
	// unsyncedRetry is for callers without a queue; others are woken when the informer has synced.
	unsyncedRetry = 5 * time.Second
	// notServedRetry: discovery has no events.
	notServedRetry = 5 * time.Second
)

// confirmAbsent asks the API server itself whether an object that the cache does not have is really gone. Deletion goes on
// only after that, because a cache may be behind.
func (r *Reconciler) confirmAbsent(ctx context.Context, gvk schema.GroupVersionKind, key types.NamespacedName) (bool, error) {
	return confirmAbsent(ctx, r.ports.APIReader, gvk, key)
}

func confirmAbsent(ctx context.Context, reader client.Reader, gvk schema.GroupVersionKind, key types.NamespacedName) (bool, error) {
	obj := &metav1.PartialObjectMetadata{}
	obj.SetGroupVersionKind(gvk)
	err := reader.Get(ctx, key, obj)
	switch {
	case saysGone(err):
		return true, nil
	case err != nil:
		return false, fmt.Errorf("make sure that %s %s is gone: %w", gvk.Kind, key, err)
	}
	return false, nil
}

// saysGone tells "there is no such object" from "there is no such place": an API version that is not served is answered 404
// too, by somebody who knows nothing of objects.
func saysGone(err error) bool {
	return apierrors.IsNotFound(err) && !slices.ContainsFunc(causes(err), func(c metav1.StatusCause) bool {
		return c.Type == metav1.CauseTypeUnexpectedServerResponse
	})
}

// takeOwnership makes a running Machine the controller of a referenced object and labels it, in one patch, when that is due.
// An object of another controller becomes a Problem, so that nothing is taken over from it.
func (s *Scope) takeOwnership(ctx context.Context, external *External) error {
	obj := external.Object
	owners, changed, foreign := own(obj.GetOwnerReferences(), s.env.ownerReference(&s.State), s.controlPlaneKind())
	if foreign != nil {
		external.Foreign = true
		external.Problem = Problem{ReasonOwnedByAnother, fmt.Sprintf(
			"%s %s is controlled by %s %s: let each Machine have an object of its own", external.Ref.Kind, external.Ref.Name,
			foreign.Kind, foreign.Name)}
		return nil
	}
	if !s.State.Deleting.IsZero() || external.Deleting() || s.env.memory.behind(obj) {
		return nil
	}
	metadata := ownershipPatch(obj, owners, changed, s.State.ClusterName)
	if metadata == nil {
		return nil
	}
	written := &unstructured.Unstructured{}
	written.SetGroupVersionKind(external.GVK)
	written.SetNamespace(obj.GetNamespace())
	written.SetName(obj.GetName())
	if err := s.env.patch(ctx, written, map[string]any{"metadata": metadata}, false); err != nil {
		return fmt.Errorf("take ownership of %s %s: %w", external.Ref.Kind, external.Ref.Name, err)
	}
	return nil
}

// isGoing reports whether a referenced object is on its way out, as the cache or this process knows.
func (s *Scope) isGoing(external External) bool {
	return external.Deleting() || (external.Object != nil && !s.env.memory.asked(&s.State, external.Object.GetUID()).IsZero())
}

// deleteExternal asks for the deletion of a referenced object, once, by UID. An object that changed since it was read is a conflict
// while the Machine has no provider ID: it is read again first.
func (s *Scope) deleteExternal(ctx context.Context, external External) error {
	if s.isGoing(external) {
		return nil
	}
	obj := external.Object
	uid := obj.GetUID()
	only := client.Preconditions{UID: &uid}
	if s.State.ProviderID == "" {
		// The provider may have made the machine since this was read, and nobody would know its ID once the object is gone.
		only.ResourceVersion = new(obj.GetResourceVersion())
	}
	err := s.env.ports.Client.Delete(ctx, obj.DeepCopy(), only)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("delete %s %s: %w", external.Ref.Kind, external.Ref.Name, err)
	}
	s.env.memory.setAsked(&s.State, uid)
	return nil
}
