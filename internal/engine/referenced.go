package engine

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/internal/external"
	"github.com/machinist-dev/machinist/internal/patch"
)

// ReadReferenced reads an object that the object of the pass references, becomes its controller if TakeOwnership does that, and calls read
// with an existing object. An error of read is a contract violation, and becomes the Problem of the object. If the object or its owner
// could not be determined, the condition of this type becomes Unknown, and the error is returned. See Own for gives.
func (s *Scope[S, U]) ReadReferenced(
	ctx context.Context, condition string, ref contract.Ref, gives func(metav1.OwnerReference) bool, read func(external.Object) error,
) (external.Object, error) {
	found, err := s.frame.Tracker.Get(ctx, s.Common().Key, ref)
	s.Requeue(found.RetryAfter)
	switch isTemplate := strings.HasSuffix(ref.Kind, contract.TemplateSuffix); {
	case err != nil || found.Presence != external.Present:
	case isTemplate: // the owner of the object also uses it for others, and references the template itself until there is an object
		found.Foreign = true
		found.Problem = external.Problem{Reason: external.ReasonContractViolation, Message: fmt.Sprintf(
			"%s %s is a template, and is neither used nor deleted: name an object that is made from it", ref.Kind, ref.Name)}
	default:
		if err = s.TakeOwnership(ctx, &found, gives); err != nil {
			found.Presence = external.Unread // its owner is unknown
		}
	}
	switch {
	case err != nil:
		s.Assert(Condition(condition, metav1.ConditionUnknown, contract.ReasonInternalError, SeeLogs))
	case found.Presence == external.Present:
		if wrong := read(found); wrong != nil && !found.Foreign {
			found.Problem = external.Problem{Reason: external.ReasonContractViolation, Message: wrong.Error()}
		}
	}
	return found, err
}

// Failure is a problem that does not end without a change, as in Cluster API's deprecated failureReason and failureMessage. No decision
// depends on it. The zero Failure is none.
type Failure struct{ Reason, Message string }

// ReasonInvalidConfiguration is Cluster API's reason of a Failure for an object that cannot work as it is configured.
const ReasonInvalidConfiguration = "InvalidConfiguration"

const maxFailureReasonLength = 250 // the schema allows 256

// FailureOf returns the Failure that a referenced object reports, in Cluster API's format, shortened to lengths that the API server
// accepts. It is zero when the object reports none.
func FailureOf(e external.Object, reason, message string) Failure {
	if message != "" {
		message = fmt.Sprintf("Failure detected from referenced resource %v with name %q: %s", e.GVK, e.Ref.Name, message)
	}
	return Failure{reason, message}.Bounded()
}

// Bounded returns the Failure with its texts shortened to lengths that the API server accepts.
func (f Failure) Bounded() Failure {
	return Failure{Bounded(f.Reason, maxFailureReasonLength), Bounded(f.Message, MaxMessageLength)}
}

// Reasons why nothing can be created from a template.
const (
	ReasonTemplateMissing = "TemplateMissing" // the template does not exist
	ReasonTemplateUnread  = "TemplateUnread"  // the template could not be read
)

// ReadTemplate reads a template, and makes the Cluster its owner. The problem is why no objects can be created from it now; the zero
// Problem means that they can, or that the reference is empty or Frame.Shared. It requests another pass if no event follows.
func (s *Scope[S, U]) ReadTemplate(ctx context.Context, ref contract.Ref) (external.Object, external.Problem, error) {
	if shared := s.frame.Shared; shared != nil && shared(ref) {
		return external.Object{}, external.Problem{}, nil
	}
	found, err := s.frame.Tracker.Get(ctx, s.Common().Key, ref)
	if err != nil {
		return found, external.Problem{Reason: ReasonTemplateUnread, Message: ref.Kind + " could not be read: " + SeeLogs}, err
	}
	s.Requeue(found.RetryAfter)
	switch found.Presence {
	case external.NotReferenced:
	case external.Present:
		return found, external.Problem{}, s.ownTemplate(ctx, found)
	case external.Absent:
		return found, external.Problem{Reason: ReasonTemplateMissing, Message: ref.Kind + " does not exist"}, nil
	case external.Unread, external.KindMissing:
		message := cmp.Or(found.Problem.Message, fmt.Sprintf("%s %s could not be read yet", ref.Kind, ref.Name))
		return found, external.Problem{Reason: ReasonTemplateUnread, Message: message}, nil
	}
	return found, external.Problem{}, nil
}

// ownTemplate makes the Cluster an owner of a template, so that it is deleted and moved with the Cluster. Rule: Cluster API's
// reconcileExternalTemplateReference.
func (s *Scope[S, U]) ownTemplate(ctx context.Context, found external.Object) error {
	ref, owns := ClusterReference(s.Cluster).Get()
	if !owns || found.Deleting() || s.frame.Writer.Behind(found.Object) || !strings.HasSuffix(found.Ref.Kind, contract.TemplateSuffix) {
		return nil
	}
	owners := found.Object.GetOwnerReferences()
	if slices.ContainsFunc(owners, func(have metav1.OwnerReference) bool { return have.UID == ref.UID }) {
		return nil
	}
	if stays, err := s.Cluster.Stays(ctx, s.frame.Ports.APIReader); err != nil || !stays {
		return err
	}
	_, err := s.patchMetadata(ctx, "have Cluster own", found, map[string]any{"ownerReferences": contract.WithOwner(owners, ref)})
	if external.IsGone(err) {
		return nil
	}
	return err
}

// Removal defines how an object in deletion removes an object that it references.
type Removal struct {
	// Reason is the reason of the condition Deleting during the wait.
	Reason string
	// Lost describes what cannot be found without the object when its kind is missing; it is empty when no instance depends on the object.
	Lost string
	// Unchanged makes the deletion a conflict when the object changed since it was read.
	Unchanged bool
	// Deletions are the requested deletions that caches do not show yet.
	Deletions *Deletions
	// Confirm confirms with the API server that an object is gone.
	Confirm func(context.Context, schema.GroupVersionKind, types.NamespacedName) (bool, error)
}

// Remove deletes a referenced object, unless it belongs to another controller, and is done when the API server confirms that the object, or
// its kind, is gone. Until then the condition Deleting reports what it waits for: the deletion, a problem for a person, or a failed read.
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

// Deletions are the objects whose deletion the API server accepted, by UID: until a cache shows a deletion, it is not requested again. The
// zero value is empty. Not safe for concurrent use.
type Deletions map[types.UID]Deletion

// Deletion is one accepted deletion: the resource version that the object had, and when the API server accepted the last request.
type Deletion struct {
	ResourceVersion string
	At              time.Time
}

// Add records that the API server accepted the deletion of an object in a resource version, at a time.
func (d *Deletions) Add(uid types.UID, resourceVersion string, at time.Time) {
	if *d == nil {
		*d = Deletions{}
	}
	(*d)[uid] = Deletion{resourceVersion, at}
}

// Has reports whether the deletion of an object is recorded.
func (d Deletions) Has(uid types.UID) bool {
	_, found := d[uid]
	return found
}

// Observe removes the deletion of an object that exists in a later version than the deleted one: the object was restored from a backup, or
// changed just before the request arrived, and must be deleted again. Call it with each object that is read. Versions that cannot be
// compared are not later.
func (d Deletions) Observe(uid types.UID, resourceVersion string, deleting bool) {
	last, found := d[uid]
	if !found || deleting {
		return
	}
	if order, err := resourceversion.CompareResourceVersion(resourceVersion, last.ResourceVersion); err == nil && order > 0 {
		delete(d, uid)
	}
}

// Keep removes the deletions of all objects but these.
func (d Deletions) Keep(is func(types.UID) bool) {
	maps.DeleteFunc(d, func(uid types.UID, _ Deletion) bool { return !is(uid) })
}

// IsGoing reports whether a referenced object is being deleted, according to the object as read or to requested, which observes it.
func IsGoing(found external.Object, requested Deletions) bool {
	if found.Object == nil {
		return false
	}
	requested.Observe(found.Object.GetUID(), found.Object.GetResourceVersion(), found.Deleting())
	return found.Deleting() || requested.Has(found.Object.GetUID())
}

// DeleteReferenced requests the deletion of a referenced object by its UID, unless it is being deleted, and adds it to requested. unchanged
// makes it a conflict when the object changed since it was read. An object that is gone is not an error.
func (s *Scope[S, U]) DeleteReferenced(ctx context.Context, found external.Object, requested *Deletions, unchanged bool) error {
	if IsGoing(found, *requested) {
		return nil
	}
	uid := found.Object.GetUID()
	only := client.Preconditions{UID: &uid}
	if unchanged {
		only.ResourceVersion = new(found.Object.GetResourceVersion())
	}
	target := &unstructured.Unstructured{} // controller-runtime 0.25 returns an error for a deletion of metadata
	target.SetGroupVersionKind(found.GVK)
	target.SetNamespace(found.Object.GetNamespace())
	target.SetName(found.Object.GetName())
	err := s.frame.Ports.Client.Delete(ctx, target, only)
	if err != nil && !external.IsGone(err) {
		return fmt.Errorf("delete %s %s: %w", found.Ref.Kind, found.Ref.Name, err)
	}
	requested.Add(uid, found.Object.GetResourceVersion(), s.Now)
	return nil
}

// BootstrapFacts are the inputs of DecideBootstrap.
type BootstrapFacts struct {
	// Kind is the kind of the object that references the BootstrapConfig.
	Kind     string
	External external.Object
	Config   contract.BootstrapConfigState // read when External is Present
	// Named: the object, or its template, contains the name of the Secret with the data.
	Named bool
	// Created was reported before; it is never reset.
	Created, Deleting bool
}

// BootstrapDecision is the result of DecideBootstrap.
type BootstrapDecision struct {
	// DataSecretName is the name to record, absent when it does not change.
	DataSecretName contract.Opt[string]
	// Created is true when the data exists, or once did.
	Created   bool
	Condition metav1.Condition
	// Failure is the permanent failure that the config reports.
	Failure Failure
}

// DecideBootstrap applies the contract: the name is copied once, when the provider reports the data as created, and never changes
// afterwards. A user may set the name of a Secret instead, with or without a BootstrapConfig. Rule: contract page "BootstrapConfig";
// Cluster API's page on the MachinePool controller, "Bootstrap provider".
func DecideBootstrap(f BootstrapFacts) BootstrapDecision {
	d := BootstrapDecision{Created: f.Created || f.Named}
	set := func(status metav1.ConditionStatus, reason, message string) BootstrapDecision {
		d.Condition = Condition(contract.ConditionBootstrapConfigReady, status, reason, message)
		return d
	}
	if f.External.Presence == external.NotReferenced {
		if f.Named {
			return set(metav1.ConditionTrue, contract.ReasonDataSecretProvided, "")
		}
		return set(metav1.ConditionFalse, contract.ReasonDoesNotExist, fmt.Sprintf(
			"the %s has neither a bootstrap configuration nor the name of a data secret: set one of them", f.Kind))
	}
	if !f.External.Usable() {
		d.Condition = Unavailable(contract.ConditionBootstrapConfigReady, f.Kind, f.External, f.Created, f.Deleting)
		return d
	}
	kind, ready := f.External.Ref.Kind, f.Config.DataSecretCreated
	d.Failure = FailureOf(f.External, f.Config.FailureReason, f.Config.FailureMessage)
	d.Condition = Mirror(contract.ConditionBootstrapConfigReady, f.Config.Ready,
		Initialized(contract.ConditionBootstrapConfigReady, ready || f.Named, kind+" status.initialization.dataSecretCreated is false"))
	if !ready || f.Named || f.Deleting || f.External.Deleting() {
		return d
	}
	if f.Config.DataSecretName.Or("") == "" {
		return set(metav1.ConditionFalse, contract.ReasonDataSecretNameMissing, fmt.Sprintf(
			"%s %s reports its data secret as created but does not name it: the provider must set status.dataSecretName",
			kind, f.External.Ref.Name))
	}
	d.DataSecretName, d.Created = f.Config.DataSecretName, true
	return d
}
