package scale

import (
	"slices"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/machinist-dev/machinist/contract"
)

// Keys of sets and deployments, of any API group.
const (
	// FreezeLabel prevents a set from creating Machines, and a deployment from starting a step that creates some. If its value is a reason of
	// the condition Frozen, this module has written it. Any other value but false, such as True, is a person's, and stays until a person
	// removes it or requests to unfreeze.
	FreezeLabel = "machinist.dev/freeze"
	// UnfreezeAnnotation of a set, or of a deployment for all its sets, with any value, ends a freeze. It is removed afterwards.
	UnfreezeAnnotation = "machinist.dev/unfreeze"
)

// Keys of Gardener's kinds, which have the keys above too. Rule: machine-controller-manager's pkg/controller/machine_safety.go.
const (
	GardenerGroup              = "machine.sapcloud.io"
	GardenerFreezeLabel        = "freeze"
	GardenerUnfreezeAnnotation = "safety.machine.sapcloud.io/unfreeze"
)

// gardenerFrozen is the value of GardenerFreezeLabel. Rule: Gardener's.
const gardenerFrozen = "True"

// ConditionFrozen reports that a set creates nothing, or that a deployment has such a set. It exists only while its status is True. The
// names are Gardener's.
const (
	ConditionFrozen        = "Frozen"                     // the set creates nothing
	ReasonOverShooting     = "OverShootingReplicaCount"   // the set has many more Machines than desired
	ReasonMachineSetFrozen = "MachineDeploymentStateSync" // a set of the deployment is frozen
	ReasonFrozen           = "Frozen"                     // the reason of a hold because of a label
)

// Freezing is whether an object is frozen, and by whom.
type Freezing uint8

// Values of Freezing.
const (
	NotFrozen Freezing = iota
	// FrozenByGuard: a number of Machines has frozen the object, and another number thaws it.
	FrozenByGuard
	// FrozenByPerson: only a person thaws the object.
	FrozenByPerson
)

// FreezingOf reads the labels of an object of an API group. A label with a value other than false counts, so that an invalid value fails
// safe. The value of FreezeLabel shows whose it is; for Gardener's label alone, the condition does.
func FreezingOf(group string, m *contract.Metadata, conditions []metav1.Condition) Freezing {
	own, gardener := isOn(m.Labels, FreezeLabel), group == GardenerGroup && isOn(m.Labels, GardenerFreezeLabel)
	ours := own && isFreezeReason(m.Labels[FreezeLabel])
	if !own {
		ours = slices.ContainsFunc(conditions, func(c metav1.Condition) bool { return c.Type == ConditionFrozen && isFreezeReason(c.Reason) })
	}
	switch {
	case !own && !gardener:
		return NotFrozen
	case ours:
		return FrozenByGuard
	}
	return FrozenByPerson
}

func isFreezeReason(text string) bool {
	return text == ReasonOverShooting || text == ReasonMachineSetFrozen
}

func isOn(labels map[string]string, key string) bool {
	text, found := labels[key]
	value, err := strconv.ParseBool(text)
	return found && (value || err != nil)
}

// UnfreezeRequested reports whether an annotation requests the end of a freeze.
func UnfreezeRequested(group string, m *contract.Metadata) bool {
	_, general := m.Annotations[UnfreezeAnnotation]
	_, gardener := m.Annotations[GardenerUnfreezeAnnotation]
	return general || (gardener && group == GardenerGroup)
}

// FreezeLabels returns the changes of the labels of an object of an API group that freeze it for a reason. The empty reason thaws it, and
// removes the annotation that requests it.
func FreezeLabels(group, reason string) contract.MetadataUpdate {
	u := contract.MetadataUpdate{Labels: map[string]contract.Change[string]{}, Annotations: map[string]contract.Change[string]{}}
	own, gardener := contract.SetTo(reason), contract.SetTo(gardenerFrozen)
	if reason == "" {
		own, gardener = contract.Cleared[string](), contract.Cleared[string]()
		u.Annotations[UnfreezeAnnotation] = own
	}
	u.Labels[FreezeLabel] = own
	if group == GardenerGroup {
		u.Labels[GardenerFreezeLabel] = gardener
		if reason == "" {
			u.Annotations[GardenerUnfreezeAnnotation] = gardener
		}
	}
	return u
}
