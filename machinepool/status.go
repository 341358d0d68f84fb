package machinepool

import (
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/contract/external"
	"github.com/machinist-dev/machinist/phases"
)

// statusFacts are what the status of a pool depends on.
type statusFacts struct {
	// Desired is the desired number of instances, absent when the pool has none.
	Desired contract.Opt[int32]
	// Observed is how many instances the provider reports, absent when it reports none.
	Observed contract.Opt[int32]
	// Listed is how many instances have a provider ID.
	Listed int32
	// Counts count instances by Nodes, or by Machines where those represent them; Known is true when they could be counted.
	Counts counts
	Known  bool
	// NodeReady counts by Nodes in any case; where they are not known, what was counted last.
	NodeReady int32
	Match     *matching
	// Unread is why they could not be counted.
	Unread external.Problem

	Deleting, Failed, BootstrapReady, InfrastructureReady, HasNodes, ManagedElsewhere bool
	// Unhealthy are the Machines that are to be replaced, and Foreign the InfraMachines whose name a Machine of another owner has.
	Unhealthy, Foreign []string
}

// desired is the number that scaling conditions compare with: zero for a pool that is being deleted.
func (f *statusFacts) desired() (int32, bool) {
	if f.Deleting {
		return 0, true
	}
	return f.Desired.Get()
}

// actual is the number of instances, as far as it is reported.
func (f *statusFacts) actual() int32 { return max(f.Observed.Or(0), f.Listed) }

// phase computes the phase.
func (f *statusFacts) phase() phases.Decision {
	desired, sized := f.Desired.Get()
	facts := phases.PoolFacts{
		Deleting: f.Deleting, Failed: f.Failed, BootstrapReady: f.BootstrapReady, InfrastructureReady: f.InfrastructureReady,
		HasNode: f.HasNodes, Sized: sized, ManagedElsewhere: f.ManagedElsewhere,
	}
	facts.TooFew = sized && f.NodeReady < desired
	facts.TooMany = sized && !facts.TooFew && max(f.NodeReady, f.actual()) > desired
	return phases.MachinePool().Compute(facts)
}

// conditions are those that sum the pool up. Words are those of Cluster API's MachineSet where it has the condition.
func (f *statusFacts) conditions() []metav1.Condition {
	return []metav1.Condition{f.available(), f.machinesReady(), f.machinesUpToDate(), f.scalingUp(), f.scalingDown(), f.remediating()}
}

const waitingForReplicas = "Waiting for spec.replicas set"

func (f *statusFacts) available() metav1.Condition {
	desired, sized := f.Desired.Get()
	switch {
	case !sized:
		return condition(ConditionAvailable, metav1.ConditionUnknown, ReasonWaitingForReplicasSet, waitingForReplicas)
	case !f.InfrastructureReady:
		return condition(ConditionAvailable, metav1.ConditionFalse, ReasonNotAvailable, "The infrastructure is not provisioned yet")
	case !f.Known:
		return f.unread(ConditionAvailable)
	case f.Counts.Available < desired:
		return condition(ConditionAvailable, metav1.ConditionFalse, ReasonNotAvailable,
			fmt.Sprintf("%d available replicas, at least %d required", f.Counts.Available, desired))
	}
	return condition(ConditionAvailable, metav1.ConditionTrue, ReasonAvailable, "")
}

func (f *statusFacts) unread(kind string) metav1.Condition {
	if f.Unread == (external.Problem{}) { // the Nodes are known, and the Machines are not; an empty reason is refused
		return condition(kind, metav1.ConditionUnknown, ReasonInternalError, seeLogs)
	}
	return condition(kind, metav1.ConditionUnknown, f.Unread.Reason, f.Unread.Message)
}

// machinesReady tells what is wrong with instances, by name.
func (f *statusFacts) machinesReady() metav1.Condition {
	if !f.Known {
		return f.unread(ConditionMachinesReady)
	}
	reason, lines := ReasonNotReady, []string(nil)
	if len(f.Counts.NotReady) > 0 {
		lines = append(lines, "* Not ready: "+named(f.Counts.NotReady))
	}
	if m := f.Match; m != nil {
		if len(m.Missing) > 0 {
			lines = append(lines, "* Without a Node: "+named(m.Missing))
		}
		if len(m.Claimed) > 0 {
			reason = ReasonNodeClaimed
			lines = append(lines, "* Named by another pool too, so that no pool uses their Nodes: "+named(m.Claimed)+"; let each instance be in one pool")
		}
		if len(m.OfMachines) > 0 {
			reason = ReasonNodeClaimed
			lines = append(lines, "* With a Node that is to leave and that a Machine claims: "+named(m.OfMachines)+"; let each instance be in the pool or have a Machine")
		}
		if len(m.Ambiguous) > 0 {
			reason = ReasonAmbiguousNode
			lines = append(lines, "* With several Nodes: "+named(m.Ambiguous)+"; delete those that are wrong")
		}
	}
	if len(f.Foreign) > 0 {
		reason = ReasonMachineNameTaken
		lines = append(lines, "* Without a Machine, because one of the name exists and is not this MachinePool's: "+named(f.Foreign)+
			"; delete it, or have the provider name the InfraMachine otherwise")
	}
	if missing := f.Observed.Or(0) - f.Listed; missing > 0 {
		lines = append(lines, fmt.Sprintf("* Without a provider ID: %d", missing))
	}
	switch {
	case len(lines) > 0:
		return condition(ConditionMachinesReady, metav1.ConditionFalse, reason, strings.Join(lines, "\n"))
	case f.actual() == 0:
		return condition(ConditionMachinesReady, metav1.ConditionTrue, ReasonNoReplicas, "")
	}
	return condition(ConditionMachinesReady, metav1.ConditionTrue, ReasonReady, "")
}

func (f *statusFacts) machinesUpToDate() metav1.Condition {
	switch {
	case !f.Known:
		return f.unread(ConditionMachinesUpToDate)
	case len(f.Counts.Outdated) > 0:
		return condition(ConditionMachinesUpToDate, metav1.ConditionFalse, ReasonNotUpToDate, "* Not up to date: "+named(f.Counts.Outdated))
	case f.actual() == 0:
		return condition(ConditionMachinesUpToDate, metav1.ConditionTrue, ReasonNoReplicas, "")
	}
	return condition(ConditionMachinesUpToDate, metav1.ConditionTrue, ReasonUpToDate, "")
}

func (f *statusFacts) scalingUp() metav1.Condition {
	desired, sized := f.desired()
	switch {
	case !sized:
		return condition(ConditionScalingUp, metav1.ConditionUnknown, ReasonWaitingForReplicasSet, waitingForReplicas)
	case f.actual() < desired:
		return condition(ConditionScalingUp, metav1.ConditionTrue, ReasonScalingUp,
			fmt.Sprintf("Scaling up from %d to %d replicas", f.actual(), desired))
	}
	return condition(ConditionScalingUp, metav1.ConditionFalse, ReasonNotScalingUp, "")
}

func (f *statusFacts) scalingDown() metav1.Condition {
	desired, sized := f.desired()
	switch {
	case !sized:
		return condition(ConditionScalingDown, metav1.ConditionUnknown, ReasonWaitingForReplicasSet, waitingForReplicas)
	case f.actual() > desired:
		return condition(ConditionScalingDown, metav1.ConditionTrue, ReasonScalingDown,
			fmt.Sprintf("Scaling down from %d to %d replicas", f.actual(), desired))
	}
	return condition(ConditionScalingDown, metav1.ConditionFalse, ReasonNotScalingDown, "")
}

func (f *statusFacts) remediating() metav1.Condition {
	if len(f.Unhealthy) == 0 {
		return condition(ConditionRemediating, metav1.ConditionFalse, ReasonNotRemediating, "")
	}
	return condition(ConditionRemediating, metav1.ConditionTrue, ReasonRemediating, "* To be replaced: "+named(f.Unhealthy))
}
