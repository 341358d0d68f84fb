package engine

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/internal/external"
	"github.com/machinist-dev/machinist/internal/patch"
)

// SeeLogs is the message of a condition about an error that a person cannot fix by changing an object. The text of such an error may differ
// in every attempt, which would cause a write each time; it is in the log. The text is Cluster API's.
const SeeLogs = "Please check controller logs for errors"

const (
	// MaxMessageLength limits messages of conditions, in bytes. The schema allows 32768; a lower limit keeps objects small.
	MaxMessageLength = 8192
	// MaxNoteLength limits notes of events, in bytes. events.k8s.io/v1 allows 1,024.
	MaxNoteLength = 1000
	// maxNames is the maximum number of names in Named.
	maxNames = 5
)

// Condition returns a condition without times.
func Condition(kind string, status metav1.ConditionStatus, reason, message string) metav1.Condition {
	return metav1.Condition{Type: kind, Status: status, Reason: reason, Message: message}
}

// Find returns the condition of a type.
func Find(in []metav1.Condition, kind string) (metav1.Condition, bool) {
	at := slices.IndexFunc(in, func(c metav1.Condition) bool { return c.Type == kind })
	if at < 0 {
		return metav1.Condition{}, false
	}
	return in[at], true
}

// HasStatus reports whether the condition of a type has a status.
func HasStatus(in []metav1.Condition, kind string, status metav1.ConditionStatus) bool {
	return meta.IsStatusConditionPresentAndEqual(in, kind, status)
}

// Mirror copies the condition Ready of a referenced object to a condition of the object. fallback is used when the referenced object has no
// such condition. A reason that metav1.Condition does not allow is moved to the message, because the API server rejects a whole status for
// one invalid reason.
func Mirror(kind string, ready contract.Opt[metav1.Condition], fallback metav1.Condition) metav1.Condition {
	c, found := ready.Get()
	if !found {
		return fallback
	}
	mirrored := Condition(kind, c.Status, c.Reason, c.Message)
	mirrored.LastTransitionTime = c.LastTransitionTime
	if mirrored.Status == metav1.ConditionTrue && mirrored.Reason == contract.ReasonNotReported {
		mirrored.Reason = contract.ReasonReady
	}
	if !isReason(mirrored.Reason) {
		mirrored.Message = fmt.Sprintf("reason %q: %s", mirrored.Reason, mirrored.Message)
		mirrored.Reason = contract.ReasonInvalidCondition
	}
	return mirrored
}

func isReason(reason string) bool {
	return len(validation.ValidateCondition(metav1.Condition{
		Type: contract.ConditionReady, Status: metav1.ConditionTrue, Reason: reason, LastTransitionTime: metav1.Unix(1, 0),
	}, field.NewPath("condition"))) == 0
}

// Initialized returns the condition for a referenced object without a condition Ready.
func Initialized(kind string, ready bool, message string) metav1.Condition {
	if ready {
		return Condition(kind, metav1.ConditionTrue, contract.ReasonReady, "")
	}
	return Condition(kind, metav1.ConditionFalse, contract.ReasonNotReady, message)
}

// Unavailable returns the condition for a referenced object that could not be used. owner is the kind that references it; reachedBefore:
// its stage was completed before.
func Unavailable(kind, owner string, e external.Object, reachedBefore, deleting bool) metav1.Condition {
	switch {
	case e.Problem != (external.Problem{}):
		status := metav1.ConditionFalse
		if e.Presence == external.Unread {
			status = metav1.ConditionUnknown
		}
		return Condition(kind, status, e.Problem.Reason, e.Problem.Message)
	case e.Presence == external.Unread:
		return Condition(kind, metav1.ConditionUnknown, contract.ReasonInspectionFailed, e.Ref.Kind+" could not be read yet")
	case deleting && reachedBefore:
		return Condition(kind, metav1.ConditionFalse, contract.ReasonDeleted, e.Ref.Kind+" has been deleted")
	case reachedBefore && kind == contract.ConditionInfrastructureReady:
		return Condition(kind, metav1.ConditionFalse, contract.ReasonDeleted,
			e.Ref.Kind+" has been deleted while the "+owner+" still exists")
	default:
		return Condition(kind, metav1.ConditionFalse, contract.ReasonDoesNotExist, e.Ref.Kind+" does not exist")
	}
}

// Bounded shortens a text from another component to a length in bytes that the API server accepts.
func Bounded(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	return strings.ToValidUTF8(text[:limit], "") + " ..."
}

// Named joins names for a message: the first five, and how many more there are.
func Named(names []string) string { return patch.FirstNamed(names, maxNames) }

// Indented returns a message for a bullet that ends with a colon: on the same line, or below it when it has several lines or is a list.
func Indented(message string) string {
	if !strings.Contains(message, "\n") && !strings.HasPrefix(message, "* ") {
		return " " + message
	}
	return "\n  " + strings.ReplaceAll(message, "\n", "\n  ")
}

// SpareUnread removes asserted conditions that only report that something cannot be read now, while the stored one differs, for a grace
// after the first such pass: a restart of a server or of this process must not change the readiness of every object twice. isUnread selects
// the conditions. since must be stored between passes.
func (s *Scope[S, U]) SpareUnread(isUnread func(metav1.Condition) bool, since *time.Time, grace time.Duration) {
	spared := func(c metav1.Condition) bool {
		stored, found := Find(s.Stored, c.Type)
		return found && stored.Status != metav1.ConditionUnknown && isUnread(c)
	}
	if !slices.ContainsFunc(s.Asserted, spared) {
		*since = time.Time{}
		return
	}
	if since.IsZero() {
		*since = s.Now
	}
	if left := since.Add(grace).Sub(s.Now); left > 0 {
		s.Asserted = slices.DeleteFunc(s.Asserted, spared)
		s.Requeue(left)
	}
}

// ActionReconcile is the action of events about conditions.
const ActionReconcile = "Reconcile"

// Event is an event about the object of a pass.
type Event struct{ Kind, Reason, Action, Note string }

// Record records events now. Without Options.Recorder it does nothing.
func (s *Scope[S, U]) Record(all ...Event) {
	recorder := s.frame.Options.Recorder
	if recorder == nil {
		return
	}
	for _, e := range all {
		recorder.Eventf(s.Object, nil, e.Kind, e.Reason, e.Action, "%s", Bounded(e.Note, MaxNoteLength))
	}
}

// Eventf records one event now.
func (s *Scope[S, U]) Eventf(kind, reason, action, note string, args ...any) {
	s.Record(Event{kind, reason, action, fmt.Sprintf(note, args...)})
}

// Problems returns the reasons of conditions that need a person, for all kinds: a condition that changes to one of them is a Warning event.
func Problems() []string {
	return []string{
		external.ReasonCRDNotFound, external.ReasonContractLabelMissing, external.ReasonContractViolation, external.ReasonVersionNotServed,
		contract.ReasonOwnedByAnother, contract.ReasonDataSecretNameMissing, contract.ReasonAmbiguousNode, contract.ReasonNodeClaimed,
		contract.ReasonClusterDoesNotExist,
	}
}

// ConditionEvents returns the events of written conditions that change to a problem. Two conditions with the same message, such as
// NodeReady and NodeHealthy when the Node is gone, cause one event.
func ConditionEvents(stored, written []metav1.Condition, problems []string) []Event {
	var all []Event
	recorded := map[string]bool{}
	for _, c := range written {
		old, found := Find(stored, c.Type)
		same := c.Reason + "\x00" + c.Message
		if !slices.Contains(problems, c.Reason) || (found && old.Reason == c.Reason && old.Status == c.Status) || recorded[same] {
			continue
		}
		recorded[same] = true
		all = append(all, Event{corev1.EventTypeWarning, c.Reason, ActionReconcile, c.Type + ": " + c.Message})
	}
	return all
}
