package scale

import (
	"cmp"
	"slices"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/machinist-dev/machinist/contract"
)

const (
	// DeleteAnnotation marks a Machine, with any value, to be deleted first. Rule: Cluster API's scaling page; cluster-autoscaler sets it, or
	// the key of another API group: see Marks.
	DeleteAnnotation = "cluster.x-k8s.io/delete-machine"
	// PriorityAnnotation is an integer: Machines with a lower one are deleted first. Absent and invalid values count as DefaultPriority. Rule:
	// Gardener's machine-controller-manager.
	PriorityAnnotation = "machinepriority.machine.sapcloud.io"
	// MarkedAtAnnotation is when a Machine was marked for deletion, RFC 3339; the Machine that was marked first is deleted first. Rule:
	// Gardener's machine-controller-manager.
	MarkedAtAnnotation = "machine.sapcloud.io/marked-for-deletion-time"
	// DefaultPriority is the priority of a Machine without one.
	DefaultPriority = 3
)

// conditionNodeHealthy of a Machine reports the health of its Node. It is Cluster API's.
const conditionNodeHealthy = "NodeHealthy"

// Machine is one Machine as input of a plan.
type Machine struct {
	Name    string
	UID     types.UID
	Created time.Time
	// Slot is the slot of the Ledger for which the Machine was created, 0 for an adopted Machine.
	Slot int64
	// Deleting: the Machine is being deleted.
	Deleting bool
	// Marked: the Machine is marked to be deleted first. markedAt is the time, zero when unknown.
	Marked   bool
	markedAt time.Time
	// Priority is Gardener's: a lower one is deleted first. See DefaultPriority.
	Priority int
	// Updating: it is being changed in place. Paused: only a person acts on it.
	Updating, Paused bool
	// Moved: a MachineDeployment has moved it to the set, which counts it once it is in Received.
	Moved bool
	// Unhealthy: it has no Node, or its Node or its health check reports a problem. Unknown is healthy.
	Unhealthy bool
	// Ready and Available are its conditions. availableSince is when it became available, zero when unknown.
	Ready, Available bool
	availableSince   time.Time
	// Ailing: a health check has failed, and waits for the owner (see Ailing). recovered: the check succeeds again, or its condition is gone,
	// while OwnerRemediated is still False.
	Ailing, recovered bool
	// remediateFirst: it has contract.RemediateAnnotation. remediating: its condition reports that the owner deletes it for remediation.
	remediateFirst, remediating bool
}

// Marks returns the annotations that mark, with any value, a Machine of an API group to be deleted first: DeleteAnnotation, and
// delete-machine of the group itself. Rule: cluster-autoscaler, whose variable CAPI_GROUP is the group; Kubermatic's machine-controller.
func Marks(group string) []string {
	if own := group + "/delete-machine"; own != DeleteAnnotation && group != "" {
		return []string{DeleteAnnotation, own}
	}
	return []string{DeleteAnnotation}
}

// Marked reports whether annotations of a Machine, or of its Node, mark it to be deleted first. marks are the result of Marks;
// DeleteAnnotation counts in any case.
func Marked(annotations map[string]string, marks ...string) bool {
	_, marked := annotations[DeleteAnnotation]
	return marked || slices.ContainsFunc(marks, func(key string) bool { _, marked := annotations[key]; return marked })
}

// Of returns the input of a set's plan for a Machine. marks are the result of Marks; without any, only DeleteAnnotation counts. It does not
// retain the state.
func Of(state *contract.MachineState, set types.UID, marks ...string) Machine {
	m := Machine{
		Name: state.Key.Name, UID: state.UID, Created: state.Created, Deleting: !state.Deleting.IsZero(), Priority: DefaultPriority,
		Updating: state.UpdatingInPlace(), Paused: state.Paused(), Slot: SlotOf(&state.Metadata, set),
		Moved: contract.ReadInPlace(state.Annotations).State == contract.InPlaceMoved,
		Unhealthy: state.Node.Name == "" || hasStatus(state, conditionNodeHealthy, metav1.ConditionFalse) ||
			hasStatus(state, contract.ConditionHealthCheckSucceeded, metav1.ConditionFalse),
		Ready:     hasStatus(state, contract.ConditionReady, metav1.ConditionTrue),
		Available: hasStatus(state, contract.ConditionAvailable, metav1.ConditionTrue),
	}
	m.Marked = Marked(state.Annotations, marks...)
	m.Ailing, m.recovered = Ailing(state), recovered(state)
	_, m.remediateFirst = state.Annotations[contract.RemediateAnnotation]
	owner := meta.FindStatusCondition(state.Conditions, contract.ConditionOwnerRemediated)
	m.remediating = owner != nil && owner.Status == metav1.ConditionFalse && owner.Reason == contract.ReasonMachineDeleting
	if m.Available {
		m.availableSince = meta.FindStatusCondition(state.Conditions, contract.ConditionAvailable).LastTransitionTime.Time
	}
	if text, found := state.Annotations[MarkedAtAnnotation]; found {
		if at, err := time.Parse(time.RFC3339, text); err == nil {
			m.Marked, m.markedAt = true, at
		}
	}
	if n, err := strconv.Atoi(state.Annotations[PriorityAnnotation]); err == nil {
		m.Priority = n
	}
	return m
}

// Ailing reports whether a health check has marked a Machine for its owner to replace: the check has failed, and the owner has not reported
// the replacement yet. Rule: Cluster API's MachineSet controller.
func Ailing(state *contract.MachineState) bool {
	return hasStatus(state, contract.ConditionHealthCheckSucceeded, metav1.ConditionFalse) &&
		hasStatus(state, contract.ConditionOwnerRemediated, metav1.ConditionFalse)
}

// Unreachable reports whether the conditions of a Machine show that its workload cluster does not respond. A paused Machine's are outdated.
func Unreachable(state *contract.MachineState) bool {
	return !state.Paused() && slices.ContainsFunc(state.Conditions, func(c metav1.Condition) bool {
		return (c.Type == contract.ConditionNodeReady || c.Type == conditionNodeHealthy) && c.Status == metav1.ConditionUnknown &&
			c.Reason == contract.ReasonConnectionDown
	})
}

// recovered reports whether the owner's condition remains on a Machine that its health check no longer finds unhealthy. Without a verdict,
// as with the annotation skip-remediation, only the owner's own condition is obsolete.
func recovered(state *contract.MachineState) bool {
	owner := meta.FindStatusCondition(state.Conditions, contract.ConditionOwnerRemediated)
	if owner == nil || owner.Status != metav1.ConditionFalse {
		return false
	}
	if check := meta.FindStatusCondition(state.Conditions, contract.ConditionHealthCheckSucceeded); check != nil {
		return check.Status == metav1.ConditionTrue
	}
	return owner.Reason == contract.ReasonRemediationDeferred || owner.Reason == contract.ReasonCannotBeRemediated
}

// SlotOf returns the slot that an object was created for, 0 for an object that was not created for this set.
func SlotOf(m *contract.Metadata, set types.UID) int64 {
	stamp := ReadStamp(m.Annotations)
	if stamp.Set != set || stamp.Slot >= maxSlot/2 {
		return 0
	}
	return stamp.Slot
}

func hasStatus(state *contract.MachineState, kind string, status metav1.ConditionStatus) bool {
	return meta.IsStatusConditionPresentAndEqual(state.Conditions, kind, status)
}

// TrueFirst orders by a property: values that have it come first.
func TrueFirst(a, b bool) int {
	if a == b {
		return 0
	}
	if a {
		return -1
	}
	return 1
}

// before orders two times, the earlier first; the zero time is later than every other.
func before(a, b time.Time) int {
	return cmp.Or(TrueFirst(!a.IsZero(), !b.IsZero()), a.Compare(b))
}
