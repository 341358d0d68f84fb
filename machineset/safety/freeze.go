package safety

import (
	"cmp"
	"fmt"
	"time"

	"github.com/machinist-dev/machinist/contract"
)

// Limits say when a set is frozen and thawed. The zero value is Gardener's.
type Limits struct {
	// Up is how many Machines beyond those that a rollout may have freeze a set. Default 2. Flag --safety-up.
	Up int
	// Down is how many fewer than that thaw it. Default 1. Flag --safety-down.
	Down int
}

// settledAfter is the age from which a Machine counts as wanted where it is not known what the set has wanted before, as after a restart.
const settledAfter = 10 * time.Minute

// Set is what Evaluate looks at. It is not changed.
type Set struct {
	// Desired is spec.replicas; absent while it is not known: then nothing changes.
	Desired contract.Opt[int]
	// Deployment: a MachineDeployment controls the set, wants Ceiling Machines with its surge, and Ceiling is absent while that is not known:
	// then nothing changes.
	Deployment bool
	Ceiling    contract.Opt[int]
	// Machines are those that the set controls by its UID, whatever their labels, those that it may adopt: it selects them, no other
	// controls them, and they are not being deleted; and those that it has made and released.
	Machines []Member
	// Freezing is how it is now, and Unfreeze says that a person asks for the end of that, at the set or at its deployment.
	Freezing Freezing
	Unfreeze bool
	// Mark is Verdict.Mark of the last evaluation; absent after a restart.
	Mark   contract.Opt[int]
	Limits Limits
	Now    time.Time
}

// Member is a Machine that counts.
type Member struct {
	// Created is when it was created; zero counts as now.
	Created  time.Time
	Deleting bool
}

// Action is what to do with a set or a deployment.
type Action uint8

// Values of Action.
const (
	// Keep leaves it as it is.
	Keep Action = iota
	// Freeze sets the label, and Thaw removes it.
	Freeze
	Thaw
)

// Verdict is the result of Evaluate and of Follow.
type Verdict struct {
	Action Action
	// Reason and Message are those of the condition Frozen, and of an event; empty with Keep, Reason also with Thaw.
	Reason, Message string
	// Mark is to be remembered for the next evaluation; absent when nothing is known.
	Mark contract.Opt[int]
	// Count is how many Machines count; at high the set freezes, and at low it thaws.
	Count, high, low int
}

// Evaluate decides about one set. The set is frozen at twice the desired number and Limits.Up, and for a set of a deployment what that
// may have with its surge, and Limits.Up; but never less than Mark allows. Rule: Gardener's checkAndFreezeORUnfreezeMachineSets.
func Evaluate(s Set) Verdict {
	desired, known := s.Desired.Get()
	ceiling, read := s.Ceiling.Get()
	thaws := s.Freezing != NotFrozen && s.Unfreeze
	if !thaws && (!known || (s.Deployment && !read)) {
		return Verdict{Mark: s.Mark}
	}
	v, accepted := s.bounds(max(desired, 0), max(ceiling, 0))
	switch {
	case thaws:
		v.Action, v.Message = Thaw, "A person has asked for it"
	case s.Freezing == NotFrozen && !s.Unfreeze && v.Count >= v.high:
		v.Action, v.Reason = Freeze, ReasonOverShooting
		v.Message = fmt.Sprintf("There are %d Machines, and the set may have fewer than %d: it creates none until there are at most %d",
			v.Count, v.high, v.low)
	case s.Freezing == FrozenByGuard && v.Count <= v.low:
		v.Action, v.Message = Thaw, fmt.Sprintf("There are %d Machines, at most %d", v.Count, v.low)
	}
	if s.Unfreeze { // what is there is wanted, also when a person has thawed the set a moment ago
		v.Mark = contract.Some(max(v.Mark.Or(0), accepted))
	}
	return v
}

// bounds returns the numbers of a set, and the mark at which what is there is wanted. The Machines that it wants and that are yet to be
// created are wanted too, beside those in deletion that count.
func (s Set) bounds(desired, ceiling int) (v Verdict, accepted int) {
	up, down := cmp.Or(max(s.Limits.Up, 0), 2), cmp.Or(max(s.Limits.Down, 0), 1)
	high := 2*desired + up
	if s.Deployment {
		high = max(ceiling, desired) + up
	}
	live, settled, surplus := s.count(desired, s.Now.Add(-settledAfter))
	room := surplus + high - desired
	v.Count, accepted = live+surplus, max(live, desired)+room
	before, known := s.Mark.Get()
	if !known && s.Freezing == NotFrozen {
		before = max(settled, desired) + room
	}
	v.high = max(high, before)
	v.low = max(v.high-down, desired)
	v.Mark = contract.Some(max(high, min(before, accepted)))
	return v, accepted
}

// count returns how many Machines live, how many of them were created before a time, and how many of those in deletion count: those beyond
// the number of Machines that the set wants, because each is replaced once.
func (s Set) count(desired int, before time.Time) (live, settled, surplus int) {
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

// Follow decides about one deployment: it is frozen while one of its sets is, whose sorted names are frozen. freezing is how it is now. The
// request of a person to unfreeze stays until the sets have followed it. Rule: Gardener's syncMachineDeploymentFreezeState.
func Follow(freezing Freezing, unfreeze bool, frozen []string) Verdict {
	switch {
	case len(frozen) > 0 && freezing == NotFrozen && !unfreeze:
		return Verdict{Action: Freeze, Reason: ReasonMachineSetFrozen, Message: fmt.Sprintf("The set %s is frozen", frozen[0])}
	case len(frozen) > 0:
		return Verdict{}
	case unfreeze:
		return Verdict{Action: Thaw, Message: "A person has asked for it"}
	case freezing == FrozenByGuard:
		return Verdict{Action: Thaw, Message: "None of its sets is frozen"}
	}
	return Verdict{}
}
