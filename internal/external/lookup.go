package external

import (
	"context"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/contract"
)

// Presence is the result of reading a referenced object. Unread is not Absent: nothing is destroyed or skipped because of a read that did
// not happen.
type Presence uint8

// Values of Presence.
const (
	// NotReferenced means that there is no reference.
	NotReferenced Presence = iota
	// Unread means that the object could not be read; Object.Problem has the reason if a person can fix it.
	Unread
	// KindMissing means that the CustomResourceDefinition of the kind does not exist.
	KindMissing
	// Absent means that the object does not exist.
	Absent
	// Present means that the object was read.
	Present
)

// Problem is why a referenced object cannot be used, as the reason and message of a condition.
type Problem struct{ Reason, Message string }

// Reasons of Problems. A person can fix each of them, and the reconciler then continues without further action. Cluster API reports most of
// them only in its log.
const (
	// ReasonInternalError means that a reference is incomplete. The reason is Cluster API's.
	ReasonInternalError = "InternalError"
	// ReasonCRDNotFound means that no CustomResourceDefinition has the name that the contract requires for the kind.
	ReasonCRDNotFound = "CRDNotFound"
	// ReasonContractLabelMissing means that the CRD of the kind has no label of a supported contract.
	ReasonContractLabelMissing = "ContractLabelMissing"
	// ReasonContractViolation means that a field of the contract has a value of a wrong type.
	ReasonContractViolation = "ContractViolation"
	// ReasonVersionNotServed means that the API version in the contract label is not served.
	ReasonVersionNotServed = "VersionNotServed"
	// ReasonCacheNotSynced means that the first list of the kind is not complete.
	ReasonCacheNotSynced = "CacheNotSynced"
)

// Object is a referenced object as it was read. It is a value; the objects that it references are shared with a cache.
type Object struct {
	Ref      contract.Ref
	Presence Presence
	// GVK and Contract define how the object is read; zero while its kind is missing or unread.
	GVK      schema.GroupVersionKind
	Contract contract.Version
	// Foreign means that another controller owns the object. It is neither used nor deleted. The caller of the Tracker sets it.
	Foreign bool
	// Object is a view that must not be changed; nil unless Present.
	Object *unstructured.Unstructured
	// Problem is zero if there is nothing that a person can fix.
	Problem Problem
	// RetryAfter is the delay before another read if no event may follow; zero if one will.
	RetryAfter time.Duration
}

// Usable reports whether the object was read and has no Problem.
func (o Object) Usable() bool { return o.Presence == Present && o.Problem == (Problem{}) }

// Deleting reports whether the object exists and is being deleted.
func (o Object) Deleting() bool { return o.Object != nil && o.Object.GetDeletionTimestamp() != nil }

const (
	// UnsyncedRetry is Object.RetryAfter while the first list of a kind is not complete.
	UnsyncedRetry = time.Second
	// NotServedRetry is Object.RetryAfter while a version is not served: discovery has no events.
	NotServedRetry = 5 * time.Second
	// AbsenceRetry is the delay for an object that the API server has and the cache lacks: its event will follow.
	AbsenceRetry = time.Second
)

// ConfirmAbsent confirms with the API server that an object that is missing in the cache is gone, with one request for its metadata. The
// reader must not be a cache. Use it before anything is destroyed or skipped because an object is gone, because a cache may be behind.
func ConfirmAbsent(ctx context.Context, reader client.Reader, gvk schema.GroupVersionKind, key types.NamespacedName) (bool, error) {
	obj := &metav1.PartialObjectMetadata{}
	obj.SetGroupVersionKind(gvk)
	err := reader.Get(ctx, key, obj)
	switch {
	case IsGone(err):
		return true, nil
	case err != nil:
		return false, fmt.Errorf("make sure that %s %s is gone: %w", gvk.Kind, key, err)
	}
	return false, nil
}

// ConfirmSame confirms with the API server that an object still has this UID, so that it is not a new object with the same name, and
// returns its metadata, nil otherwise. It sends one list request for the metadata, so it needs no rights beyond those of a cache. The
// reader must not be a cache.
func ConfirmSame(
	ctx context.Context, reader client.Reader, gvk schema.GroupVersionKind, key types.NamespacedName, uid types.UID,
) (*metav1.PartialObjectMetadata, error) {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(gvk.GroupVersion().WithKind(gvk.Kind + "List"))
	err := reader.List(ctx, list, client.InNamespace(key.Namespace), client.MatchingFields{"metadata.name": key.Name})
	if err != nil {
		return nil, fmt.Errorf("make sure that %s %s is still the same: %w", gvk.Kind, key, err)
	}
	if len(list.Items) != 1 || list.Items[0].UID != uid {
		return nil, nil //nolint:nilnil // it does not
	}
	return &list.Items[0], nil
}

// IsGone reports whether an error means that the object does not exist. A 404 for an API version that is not served does not.
func IsGone(err error) bool {
	return apierrors.IsNotFound(err) && !apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse)
}

// CRDGVK returns the kind of CustomResourceDefinitions.
func CRDGVK() schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"}
}

// CRDMetadata returns an empty CustomResourceDefinition for reads and watches of metadata only.
func CRDMetadata() *metav1.PartialObjectMetadata {
	crd := &metav1.PartialObjectMetadata{}
	crd.SetGroupVersionKind(CRDGVK())
	return crd
}

// Get reads the referenced object, in the namespace of requester, through the cache. It does not wait: an object that is not in the cache
// yet is Unread. A problem that a person can fix is in the Object; other failures of the cache are errors.
func (t *Tracker) Get(ctx context.Context, requester types.NamespacedName, ref contract.Ref) (Object, error) {
	found := Object{Ref: ref, Presence: NotReferenced}
	if ref.IsZero() {
		return found, nil
	}
	found.Presence = Unread
	if ref.Group == "" || ref.Kind == "" || ref.Name == "" {
		found.Problem = Problem{ReasonInternalError, fmt.Sprintf("the reference needs apiGroup, kind and name, and is %+v", ref)}
		return found, nil
	}
	resolved, err := t.resolve(ctx, &found)
	if err != nil || !resolved {
		return found, err
	}
	obj := ofKind(found.GVK)
	err = t.read(ctx, types.NamespacedName{Namespace: requester.Namespace, Name: ref.Name}, obj, &found)
	if found.Presence == Present {
		found.Object = obj
	}
	return found, err
}

// ofKind returns an empty object of a kind.
func ofKind(gvk schema.GroupVersionKind) *unstructured.Unstructured {
	obj := &unstructured.Unstructured{}
	obj.SetGroupVersionKind(gvk)
	return obj
}

// read reads an object of the kind in found, which it watches, from the cache. While that is impossible, the Presence in found is not
// changed, and the Problem is the reason.
func (t *Tracker) read(ctx context.Context, key types.NamespacedName, into client.Object, found *Object) error {
	synced, err := t.Ensure(ctx, into)
	switch {
	case meta.IsNoMatchError(err):
		found.Problem = Problem{ReasonVersionNotServed, fmt.Sprintf(
			"%s is not served, although the label of its CustomResourceDefinition names version %s: correct the label %s or serve the version",
			found.GVK.GroupKind(), found.GVK.Version, found.Contract.Label())}
		found.RetryAfter = NotServedRetry
		return nil
	case err != nil:
		return fmt.Errorf("watch %s: %w", found.GVK.Kind, err)
	case !synced:
		found.Problem = Problem{ReasonCacheNotSynced, fmt.Sprintf(
			"The first list of %s has not come back: if this lasts, look for missing list and watch permissions", found.GVK.GroupKind())}
		found.RetryAfter = UnsyncedRetry
		return nil
	}
	err = t.cache.Get(ctx, key, into, client.UnsafeDisableDeepCopy)
	switch {
	case apierrors.IsNotFound(err):
		found.Presence = Absent
	case err != nil:
		return fmt.Errorf("read %s %s: %w", found.GVK.Kind, key, err)
	default:
		found.Presence = Present
	}
	return nil
}

// List returns the objects of a kind in a namespace, by name and as views, and watches the kind. synced is false before its first list is
// complete. The error for a kind that is not served matches meta.IsNoMatchError.
func (t *Tracker) List(
	ctx context.Context, gvk schema.GroupVersionKind, namespace string,
) (byName map[string]*unstructured.Unstructured, synced bool, err error) {
	if synced, err = t.Ensure(ctx, ofKind(gvk)); err != nil || !synced {
		return nil, false, err
	}
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(gvk.GroupVersion().WithKind(gvk.Kind + "List"))
	if err := t.cache.List(ctx, list, client.InNamespace(namespace), client.UnsafeDisableDeepCopy); err != nil {
		return nil, false, fmt.Errorf("list %s objects: %w", gvk.Kind, err)
	}
	byName = make(map[string]*unstructured.Unstructured, len(list.Items))
	for i := range list.Items {
		byName[list.Items[i].GetName()] = &list.Items[i]
	}
	return byName, true, nil
}

// resolve finds the version and the contract of the kind, from the labels of its cached CRD. If it returns false, found has the reason.
func (t *Tracker) resolve(ctx context.Context, found *Object) (bool, error) {
	gk, crd, definition := found.Ref.GroupKind(), CRDMetadata(), Object{GVK: CRDGVK()}
	name := contract.CRDName(gk)
	if err := t.read(ctx, types.NamespacedName{Name: name}, crd, &definition); err != nil {
		return false, err
	}
	switch definition.Presence {
	case Absent:
		found.Presence, found.Problem = KindMissing, Problem{ReasonCRDNotFound, contract.MissingCRD(gk).Error()}
		return false, nil
	case Present:
	default:
		found.RetryAfter = definition.RetryAfter
		if definition.Problem.Reason == ReasonVersionNotServed {
			found.Problem = Problem{ReasonVersionNotServed, "CustomResourceDefinitions are not served by this API server"}
		}
		return false, nil
	}
	resolved, err := contract.Resolve(name, crd.Labels, t.contracts...)
	if err != nil { // the text describes what a person can do
		found.Problem = Problem{ReasonContractLabelMissing, err.Error()}
		return false, nil //nolint:nilerr // it is the problem of the object, and not of this read
	}
	found.Contract, found.GVK = resolved.Contract, gk.WithVersion(resolved.APIVersion)
	return true, nil
}

// ReadSecret reads a Secret without a logger in the context: from verbosity 8 on, client-go logs the body of each response with the logger
// of the context, and the context of a pass has one. The error is that of the reader. Safe for concurrent use.
func ReadSecret(ctx context.Context, reader client.Reader, key types.NamespacedName) (*corev1.Secret, error) {
	secret := &corev1.Secret{}
	if err := reader.Get(logr.NewContext(ctx, logr.Discard()), key, secret); err != nil {
		return nil, err
	}
	return secret, nil
}

// ReadBootstrapData returns the bootstrap data in a Machine's data Secret. Rule: Cluster API's bootstrap contract.
func ReadBootstrapData(ctx context.Context, reader client.Reader, key types.NamespacedName) ([]byte, error) {
	secret, err := ReadSecret(ctx, reader, key)
	if apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("the Secret %s does not exist, and the Machine names it as that of its bootstrap data", key)
	}
	if err != nil {
		return nil, fmt.Errorf("read Secret %s: %w", key, err)
	}
	data, found := secret.Data["value"]
	if !found {
		return nil, fmt.Errorf("the Secret %s has no key value: its bootstrap provider must set it", key)
	}
	return data, nil
}
