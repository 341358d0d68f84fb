package external

import (
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/machinist-dev/machinist/contract"
)

// Presence tells what is known about a referenced object. Unread is not Absent: nothing is destroyed or skipped because
// of a read that did not happen.
type Presence uint8

// Values of Presence.
const (
	// NotReferenced means that there is no reference.
	NotReferenced Presence = iota
	// Unread means that the object could not be read; Object.Problem tells why if a person can do something about it.
	Unread
	// KindMissing means that the CustomResourceDefinition of the kind does not exist.
	KindMissing
	// Absent means that the object does not exist.
	Absent
	// Present means that the object was read.
	Present
)

// Problem tells why a referenced object cannot be used, as the reason and message of a condition.
type Problem struct{ Reason, Message string }

// Reasons of Problems. A person can solve each of them, and the reconciler then continues by itself. Cluster API
// reports most of them only in its log.
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

// Object is what is known about a referenced object. It is a value; the objects that it refers to are shared with a
// cache.
type Object struct {
	Ref      contract.Ref
	Presence Presence
	// GVK and Contract tell how the object is read; zero while its kind is missing or unread.
	GVK      schema.GroupVersionKind
	Contract contract.Version
	// Foreign means that another controller owns the object. It is neither used nor deleted. The caller of the Tracker
	// sets it.
	Foreign bool
	// Object is a view that must not be changed; nil unless Present.
	Object *unstructured.Unstructured
	// Problem is zero if a person can do nothing.
	Problem Problem
	// RetryAfter is when to look again if no event may come; zero if one will come.
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
)
