package scale

import (
	"cmp"
	"fmt"
	"time"

	"github.com/machinist-dev/machinist/contract"
)

// FreezeLimits are the thresholds for freezing and thawing a set. The zero value is Gardener's.
type FreezeLimits struct {
	// Up is the number of Machines, beyond what a rollout may have, that freezes a set. Default 2. Flag --safety-up.
	Up int
	// Down is how many fewer Machines than that thaw it. Default 1. Flag --safety-down.
	Down int
}

// settledAfter is the age from which a Machine counts as desired if the earlier desired number is unknown, as after a restart.
const settledAfter = 10 * time.Minute

// FreezeFacts are the inputs of Overshoot: a set, and for each Machine when it was created (zero counts as now) and whether it is being
// deleted. They are not changed.
type FreezeFacts struct {
	// Desired is spec.replicas; while it is absent, nothing changes.
	Desired contract.Opt[int]
	// Deployment: a MachineDeployment controls the set. Ceiling is the number of Machines that it wants, with its surge; while it is absent,
	// nothing changes.
	Deployment bool
	Ceiling    contract.Opt[int]
	// Machines are those that the set controls by its UID, whatever their labels; those that it may adopt, which it selects, have no other
	// controller and are not being deleted; and those that it has created and released.
	Machines []Machine
	// Freezing is the present state. Unfreeze: an annotation of the set or its deployment requests the end of the freeze.
	Freezing Freezing
	Unfreeze bool
	// Mark is FreezeVerdict.Mark of the last evaluation; absent after a restart.
	Mark   contract.Opt[int]
	Limits FreezeLimits
	Now    time.Time
}

// FreezeAction is the action for a set or a deployment.
type FreezeAction uint8

// Values of FreezeAction.
const (
	// Keep changes nothing.
	Keep FreezeAction = iota
	// Freeze sets the label, and Thaw removes it.
	Freeze
	Thaw
)

// FreezeVerdict is the result of Overshoot and of FollowFreeze.
type FreezeVerdict struct {
	Action FreezeAction
	// Reason and Message are those of the condition Frozen and of an event; both empty with Keep, Reason also with Thaw.
	Reason, Message string
	// Mark must be remembered for the next evaluation; absent when the facts are unknown.
	Mark contract.Opt[int]
	// count is the number of Machines that count; at high the set freezes, and at low it thaws.
	count, high, low int
}

// Overshoot decides about one set. A set is frozen at twice the desired number plus Limits.Up; a set of a deployment at the number that the
// deployment may have with its surge, plus Limits.Up; never below Mark. Rule: Gardener's checkAndFreezeORUnfreezeMachineSets.
func Overshoot(s FreezeFacts) FreezeVerdict {
	desired, known := s.Desired.Get()
	ceiling, read := s.Ceiling.Get()
	thaws := s.Freezing != NotFrozen && s.Unfreeze
	if !thaws && (!known || (s.Deployment && !read)) {
		return FreezeVerdict{Mark: s.Mark}
	}
	v, accepted := s.bounds(max(desired, 0), max(ceiling, 0))
	switch {
	case thaws:
		v.Action, v.Message = Thaw, "A person has requested it"
	case s.Freezing == NotFrozen && !s.Unfreeze && v.count >= v.high:
		v.Action, v.Reason = Freeze, ReasonOverShooting
		v.Message = fmt.Sprintf("There are %d Machines, and the set may have fewer than %d: it creates none until there are at most %d",
			v.count, v.high, v.low)
	case s.Freezing == FrozenByGuard && v.count <= v.low:
		v.Action, v.Message = Thaw, fmt.Sprintf("There are %d Machines, at most %d", v.count, v.low)
	}
	if s.Unfreeze { // existing Machines are desired, even if a person has thawed the set a moment ago
		v.Mark = contract.Some(max(v.Mark.Or(0), accepted))
	}
	return v
}

// bounds returns the numbers of a set, and the mark at which the existing Machines count as desired. That includes Machines still to be
// created, and those in deletion that count.
func (s FreezeFacts) bounds(desired, ceiling int) (v FreezeVerdict, accepted int) {
	up, down := cmp.Or(max(s.Limits.Up, 0), 2), cmp.Or(max(s.Limits.Down, 0), 1)
	high := 2*desired + up
	if s.Deployment {
		high = max(ceiling, desired) + up
	}
	live, settled, surplus := s.count(desired, s.Now.Add(-settledAfter))
	room := surplus + high - desired
	v.count, accepted = live+surplus, max(live, desired)+room
	before, known := s.Mark.Get()
	if !known && s.Freezing == NotFrozen {
		before = max(settled, desired) + room
	}
	v.high = max(high, before)
	v.low = max(v.high-down, desired)
	v.Mark = contract.Some(max(high, min(before, accepted)))
	return v, accepted
}

// count returns how many Machines are alive, how many of them were created before a time, and how many of those in deletion count: those
// beyond the desired number of Machines, because each is replaced once.
func (s FreezeFacts) count(desired int, before time.Time) (live, settled, surplus int) {
	for _, m := range s.Machines {
		if m.Deleting {
			surplus++
			continue
		}
		live++
		if !m.Created.IsZero() && m.Created.Before(before) {
			settled++
		}
	}
	return live, settled, max(surplus-desired, 0)
}

// FollowFreeze decides about one deployment: it is frozen while one of its sets is; frozen are the sorted names of these sets. freezing is
// the present state. A person's request to unfreeze stays until the sets have followed it. Rule: Gardener's
// syncMachineDeploymentFreezeState.
func FollowFreeze(freezing Freezing, unfreeze bool, frozen []string) FreezeVerdict {
	switch {
	case len(frozen) > 0 && freezing == NotFrozen && !unfreeze:
		return FreezeVerdict{Action: Freeze, Reason: ReasonMachineSetFrozen, Message: fmt.Sprintf("The set %s is frozen", frozen[0])}
	case len(frozen) > 0:
		return FreezeVerdict{}
	case unfreeze:
		return FreezeVerdict{Action: Thaw, Message: "A person has requested it"}
	case freezing == FrozenByGuard:
		return FreezeVerdict{Action: Thaw, Message: "None of its sets is frozen"}
	}
	return FreezeVerdict{}
}
