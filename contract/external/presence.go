package external

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/machinist-dev/machinist/contract"
)

// Presence is what is known of a referenced object. Unread is not Absent: nothing is destroyed, and nothing is skipped, on
// the strength of a read that did not happen.
type Presence uint8

// The presences of a referenced object.
const (
	// NotReferenced: there is no reference to such an object.
	NotReferenced Presence = iota
	// Unread: it could not be looked for; Object.Problem says why when a person can do something about it.
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

// Reasons of Problems. A person can mend each of them, and what waits for it goes on by itself when it is mended. Cluster API
// reports most of them as errors in its log.
const (
	// ReasonInternalError: a reference lacks a part. The reason is Cluster API's.
	ReasonInternalError = "InternalError"
	// ReasonCRDNotFound: no CustomResourceDefinition has the name that the contract demands for a referenced kind.
	ReasonCRDNotFound = "CRDNotFound"
	// ReasonContractLabelMissing: the CRD of a referenced kind names no supported contract.
	ReasonContractLabelMissing = "ContractLabelMissing"
	// ReasonContractViolation: a value of a wrong type stands at a place that the contract reads.
	ReasonContractViolation = "ContractViolation"
	// ReasonVersionNotServed: the API version that the contract label names cannot be read.
	ReasonVersionNotServed = "VersionNotServed"
	// ReasonCacheNotSynced: the first list of a referenced kind has not come back.
	ReasonCacheNotSynced = "CacheNotSynced"
)

// Object is what is known of a referenced object. It is a value; what it refers to is shared with a cache.
type Object struct {
	Ref      contract.Ref
	Presence Presence
	// GVK and Contract say how the object is read; zero while its kind is missing or unread.
	GVK      schema.GroupVersionKind
	Contract contract.Version
	// Foreign: another controller owns the object. It is neither used nor deleted. The Tracker leaves it to its caller.
	Foreign bool
	// Object is a view that must not be changed; nil unless Present.
	Object *unstructured.Unstructured
	// Problem is zero unless a person can do something.
	Problem Problem
	// RetryAfter is when to look again at the latest, when no event may come; zero when one will.
	RetryAfter time.Duration
}

// Deleting reports whether the object is there and on its way out.
func (o Object) Deleting() bool { return o.Object != nil && o.Object.GetDeletionTimestamp() != nil }

const (
	// UnsyncedRetry is Object.RetryAfter while the first list of a kind is awaited. It is for callers without a queue; others are
	// woken when the informer has synced.
	UnsyncedRetry = 5 * time.Second
	// NotServedRetry is Object.RetryAfter while a version is not served: discovery has no events.
	NotServedRetry = 5 * time.Second
)
