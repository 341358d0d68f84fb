package scale

import (
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/machinist-dev/machinist/contract"
)

// Keys of sets and deployments, of any API group.
const (
	// FreezeLabel, with the value True, keeps a set from creating Machines and a deployment from starting a step that creates some.
	FreezeLabel = "machinist.dev/freeze"
	// FrozenByAnnotation says why the label was set without a person: its value is a reason of the condition Frozen. Without it the label
	// is a person's, and stays until a person removes it or asks to unfreeze. The step of the freeze removes an annotation that has no label.
	FrozenByAnnotation = "machinist.dev/frozen-by"
	// UnfreezeAnnotation of a set, or of a deployment for all its sets, with any value, ends a freeze. It is removed when that is done.
	UnfreezeAnnotation = "machinist.dev/unfreeze"
)

// Keys of the kinds of Gardener, which have those above too. Rule: machine-controller-manager's pkg/controller/machine_safety.go.
const (
	GardenerGroup              = "machine.sapcloud.io"
	GardenerFreezeLabel        = "freeze"
	GardenerUnfreezeAnnotation = "safety.machine.sapcloud.io/unfreeze"
)

// frozenValue is the value of the labels. Rule: Gardener's.
const frozenValue = "True"

// ConditionFrozen says that a set creates nothing, or that a deployment has such a set. It exists only while its status is True. The names
// are Gardener's.
const (
	ConditionFrozen        = "Frozen"                     // the set creates nothing
	ReasonOverShooting     = "OverShootingReplicaCount"   // the set has many more Machines than desired
	ReasonMachineSetFrozen = "MachineDeploymentStateSync" // a set of the deployment is frozen
	ReasonFrozen           = "Frozen"                     // of a hold: a label says so
)

// Freezing says whether an object is frozen, and by whom.
type Freezing uint8

// Values of Freezing.
const (
	NotFrozen Freezing = iota
	// FrozenByGuard: a number of Machines has frozen it, and another one thaws it.
	FrozenByGuard
	// FrozenByPerson: only a person thaws it.
	FrozenByPerson
)

// FreezingOf reads the labels of an object of an API group. A label with a value that is not false counts: a value that cannot be read
// fails safe. The annotation or the condition says that it is FrozenByGuard, of this module or of Gardener's own controller: one of them
// may have been taken away.
func FreezingOf(group string, m *contract.Metadata, conditions []metav1.Condition) Freezing {
	on := isOn(m.Labels, FreezeLabel) || (group == GardenerGroup && isOn(m.Labels, GardenerFreezeLabel))
	_, ours := m.Annotations[FrozenByAnnotation]
	for _, c := range conditions {
		ours = ours || (c.Type == ConditionFrozen && (c.Reason == ReasonOverShooting || c.Reason == ReasonMachineSetFrozen))
	}
	switch {
	case !on:
		return NotFrozen
	case ours:
		return FrozenByGuard
	}
	return FrozenByPerson
}

func isOn(labels map[string]string, key string) bool {
	text, found := labels[key]
	value, err := strconv.ParseBool(text)
	return found && (value || err != nil)
}

// AsksToUnfreeze reports whether a person asks to end a freeze.
func AsksToUnfreeze(group string, m *contract.Metadata) bool {
	_, general := m.Annotations[UnfreezeAnnotation]
	_, gardener := m.Annotations[GardenerUnfreezeAnnotation]
	return general || (gardener && group == GardenerGroup)
}

// FreezeLabels returns the changes of the labels and annotations of an object of an API group that freeze it for a reason. The empty reason
// thaws it, and removes the request for that.
func FreezeLabels(group, reason string) contract.MetadataUpdate {
	u := contract.MetadataUpdate{Labels: map[string]contract.Change[string]{}, Annotations: map[string]contract.Change[string]{}}
	label, by := contract.SetTo(frozenValue), contract.SetTo(reason)
	if reason == "" {
		label, by = contract.Cleared[string](), contract.Cleared[string]()
		u.Annotations[UnfreezeAnnotation] = by
	}
	u.Labels[FreezeLabel], u.Annotations[FrozenByAnnotation] = label, by
	if group == GardenerGroup {
		u.Labels[GardenerFreezeLabel] = label
		if reason == "" {
			u.Annotations[GardenerUnfreezeAnnotation] = by
		}
	}
	return u
}
