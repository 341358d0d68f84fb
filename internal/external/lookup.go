package external

import (
	"context"
	"errors"
	"fmt"

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

// Get reads the referenced object, in the namespace of requester, through the cache. It waits for nothing: an object that is not known yet
// is Unread. A problem that a person can solve is in the Object; other failures of the cache are errors.
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
	if watched, err := t.watched(ctx, obj, &found); err != nil || !watched {
		return found, err
	}
	err = t.cache.Get(ctx, types.NamespacedName{Namespace: requester.Namespace, Name: ref.Name}, obj, client.UnsafeDisableDeepCopy)
	switch {
	case apierrors.IsNotFound(err):
		found.Presence = Absent
	case err != nil:
		return found, fmt.Errorf("read %s %s/%s: %w", ref.Kind, requester.Namespace, ref.Name, err)
	default:
		found.Presence, found.Object = Present, obj
	}
	return found, nil
}

// ofKind is an empty object of a kind.
func ofKind(gvk schema.GroupVersionKind) *unstructured.Unstructured {
	obj := &unstructured.Unstructured{}
	obj.SetGroupVersionKind(gvk)
	return obj
}

// resolve finds the version and the contract of the kind, from the labels of its cached CRD. If it returns false, found tells why.
func (t *Tracker) resolve(ctx context.Context, found *Object) (bool, error) {
	gk, crd := found.Ref.GroupKind(), CRDMetadata()
	synced, err := t.Ensure(ctx, crd)
	if err != nil {
		return false, fmt.Errorf("watch CustomResourceDefinitions: %w", err)
	}
	if !synced {
		found.RetryAfter = UnsyncedRetry
		return false, nil
	}
	name, resolved := contract.CRDName(gk), contract.Resolved{}
	switch err = t.cache.Get(ctx, types.NamespacedName{Name: name}, crd, client.UnsafeDisableDeepCopy); {
	case apierrors.IsNotFound(err):
		err, found.Presence = contract.MissingCRD(gk), KindMissing
	case err != nil:
		return false, fmt.Errorf("read CustomResourceDefinition %s: %w", name, err)
	default:
		resolved, err = contract.Resolve(name, crd.Labels, t.contracts...)
	}
	if problem, known := kindProblem(err); known {
		found.Problem = problem
		return false, nil // a problem that a person can solve becomes a condition
	}
	found.Contract = resolved.Contract
	found.GVK = gk.WithVersion(resolved.APIVersion)
	return err == nil, err
}

// kindProblem returns the Problem for a missing CRD or one without a contract; false if a person can do nothing about
// the error. The text of the error says what to do.
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

// watched ensures that the kind is watched. If it returns false, found tells why.
func (t *Tracker) watched(ctx context.Context, kind client.Object, found *Object) (bool, error) {
	synced, err := t.Ensure(ctx, kind)
	switch {
	case meta.IsNoMatchError(err):
		found.Problem = Problem{ReasonVersionNotServed, fmt.Sprintf(
			"%s is not served, although the label of its CustomResourceDefinition names version %s: correct the label %s or serve the version",
			found.GVK.GroupKind(), found.GVK.Version, found.Contract.Label())}
		found.RetryAfter = NotServedRetry
		return false, nil
	case err != nil:
		return false, fmt.Errorf("watch %s: %w", found.GVK.Kind, err)
	case !synced:
		found.Problem = Problem{ReasonCacheNotSynced, fmt.Sprintf(
			"The first list of %s has not come back: if this lasts, look for missing list and watch permissions", found.GVK.GroupKind())}
		found.RetryAfter = UnsyncedRetry
		return false, nil
	}
	return true, nil
}

// ReadSecret reads a Secret without a logger in the context. client-go logs the body of each answer with the logger of the context from
// verbosity 8 on, and the context of a pass has one. The error is that of the reader. It is safe for concurrent use.
func ReadSecret(ctx context.Context, reader client.Reader, key types.NamespacedName) (*corev1.Secret, error) {
	secret := &corev1.Secret{}
	if err := reader.Get(logr.NewContext(ctx, logr.Discard()), key, secret); err != nil {
		return nil, err
	}
	return secret, nil
}
