package machinepool

import (
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/contract/external"
	"github.com/machinist-dev/machinist/contract/pass"
	"github.com/machinist-dev/machinist/phases"
)

// Reasons of conditions and of the stages of a deletion that only pools have. The others, and the types of conditions, are those of package
// contract: the ones that Cluster API has announced for MachinePools in v1beta2 and does not write, and Paused.
const (
	ReasonNotAvailable = "NotAvailable"
	// ReasonWaitingForMachineDeletion is the first stage of a deletion.
	ReasonWaitingForMachineDeletion = "WaitingForMachineDeletion"
	// ReasonInstancesHeld: the provider lists instances none of which has a recorded Node, while those Nodes are Ready. Nothing is done
	// for that list until a person confirms it (ConfirmedInstancesAnnotation), or the Nodes have not been Ready for five minutes.
	ReasonInstancesHeld = "InstancesHeld"
	// ReasonMachineNameTaken: the InfraMachine of an instance gets no Machine, because a Machine of another owner has its name.
	ReasonMachineNameTaken = "MachineNameTaken"
)

// problems are the reasons of conditions that a person has to act on: a condition that changes to one of them is a Warning event.
func problems() []string { return append(pass.Problems(), ReasonMachineNameTaken, ReasonInstancesHeld) }

// statusFacts are the inputs of the phase and the conditions.
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
		return pass.Condition(contract.ConditionAvailable, metav1.ConditionUnknown, contract.ReasonWaitingForReplicasSet, waitingForReplicas)
	case !f.InfrastructureReady:
		return pass.Condition(contract.ConditionAvailable, metav1.ConditionFalse, ReasonNotAvailable, "The infrastructure is not provisioned yet")
	case !f.Known:
		return f.unread(contract.ConditionAvailable)
	case f.Counts.Available < desired:
		return pass.Condition(contract.ConditionAvailable, metav1.ConditionFalse, ReasonNotAvailable,
			fmt.Sprintf("%d available replicas, at least %d required", f.Counts.Available, desired))
	}
	return pass.Condition(contract.ConditionAvailable, metav1.ConditionTrue, contract.ReasonAvailable, "")
}

func (f *statusFacts) unread(kind string) metav1.Condition {
	if f.Unread == (external.Problem{}) { // the Nodes are known, and the Machines are not; an empty reason is refused
		return pass.Condition(kind, metav1.ConditionUnknown, contract.ReasonInternalError, pass.SeeLogs)
	}
	return pass.Condition(kind, metav1.ConditionUnknown, f.Unread.Reason, f.Unread.Message)
}

// machinesReady names the instances that have a problem.
func (f *statusFacts) machinesReady() metav1.Condition {
	if !f.Known {
		return f.unread(contract.ConditionMachinesReady)
	}
	reason, lines := contract.ReasonNotReady, []string(nil)
	if len(f.Counts.NotReady) > 0 {
		lines = append(lines, "* Not ready: "+pass.Named(f.Counts.NotReady))
	}
	if m := f.Match; m != nil {
		if len(m.Missing) > 0 {
			lines = append(lines, "* Without a Node: "+pass.Named(m.Missing))
		}
		if len(m.Claimed) > 0 {
			reason = contract.ReasonNodeClaimed
			lines = append(lines, "* Named by another pool too, so that no pool uses their Nodes: "+
				pass.Named(m.Claimed)+"; let each instance be in one pool")
		}
		if len(m.OfMachines) > 0 {
			reason = contract.ReasonNodeClaimed
			lines = append(lines, "* With a Node that is to leave and that a Machine claims: "+
				pass.Named(m.OfMachines)+"; let each instance be in the pool or have a Machine")
		}
		if len(m.Ambiguous) > 0 {
			reason = contract.ReasonAmbiguousNode
			lines = append(lines, "* With several Nodes: "+pass.Named(m.Ambiguous)+"; delete those that are wrong")
		}
	}
	if len(f.Foreign) > 0 {
		reason = ReasonMachineNameTaken
		lines = append(lines, "* Without a Machine, because one of the name exists and is not this MachinePool's: "+pass.Named(f.Foreign)+
			"; delete it, or have the provider name the InfraMachine otherwise")
	}
	if missing := f.Observed.Or(0) - f.Listed; missing > 0 {
		lines = append(lines, fmt.Sprintf("* Without a provider ID: %d", missing))
	}
	switch {
	case len(lines) > 0:
		return pass.Condition(contract.ConditionMachinesReady, metav1.ConditionFalse, reason, strings.Join(lines, "\n"))
	case f.actual() == 0:
		return pass.Condition(contract.ConditionMachinesReady, metav1.ConditionTrue, contract.ReasonNoReplicas, "")
	}
	return pass.Condition(contract.ConditionMachinesReady, metav1.ConditionTrue, contract.ReasonReady, "")
}

func (f *statusFacts) machinesUpToDate() metav1.Condition {
	switch {
	case !f.Known:
		return f.unread(contract.ConditionMachinesUpToDate)
	case len(f.Counts.Outdated) > 0:
		return pass.Condition(contract.ConditionMachinesUpToDate, metav1.ConditionFalse, contract.ReasonNotUpToDate,
			"* Not up to date: "+pass.Named(f.Counts.Outdated))
	case f.actual() == 0:
		return pass.Condition(contract.ConditionMachinesUpToDate, metav1.ConditionTrue, contract.ReasonNoReplicas, "")
	}
	return pass.Condition(contract.ConditionMachinesUpToDate, metav1.ConditionTrue, contract.ReasonUpToDate, "")
}

func (f *statusFacts) scalingUp() metav1.Condition {
	desired, sized := f.desired()
	switch {
	case !sized:
		return pass.Condition(contract.ConditionScalingUp, metav1.ConditionUnknown, contract.ReasonWaitingForReplicasSet, waitingForReplicas)
	case f.actual() < desired:
		return pass.Condition(contract.ConditionScalingUp, metav1.ConditionTrue, contract.ReasonScalingUp,
			fmt.Sprintf("Scaling up from %d to %d replicas", f.actual(), desired))
	}
	return pass.Condition(contract.ConditionScalingUp, metav1.ConditionFalse, contract.ReasonNotScalingUp, "")
}

func (f *statusFacts) scalingDown() metav1.Condition {
	desired, sized := f.desired()
	switch {
	case !sized:
		return pass.Condition(contract.ConditionScalingDown, metav1.ConditionUnknown, contract.ReasonWaitingForReplicasSet, waitingForReplicas)
	case f.actual() > desired:
		return pass.Condition(contract.ConditionScalingDown, metav1.ConditionTrue, contract.ReasonScalingDown,
			fmt.Sprintf("Scaling down from %d to %d replicas", f.actual(), desired))
	}
	return pass.Condition(contract.ConditionScalingDown, metav1.ConditionFalse, contract.ReasonNotScalingDown, "")
}

func (f *statusFacts) remediating() metav1.Condition {
	if len(f.Unhealthy) == 0 {
		return pass.Condition(contract.ConditionRemediating, metav1.ConditionFalse, contract.ReasonNotRemediating, "")
	}
	return pass.Condition(contract.ConditionRemediating, metav1.ConditionTrue, contract.ReasonRemediating,
		"* To be replaced: "+pass.Named(f.Unhealthy))
}

// failure is a problem that does not go away by itself, for Cluster API's deprecated failureReason and failureMessage.
type failure struct{ Reason, Message string }

// reasonInvalidConfiguration is Cluster API's word for an object that cannot work as it is.
const reasonInvalidConfiguration = "InvalidConfiguration"

const maxFailureReasonLength = 250 // the schema allows 256

// failureOf is the failure that a referenced object reports, in the words that Cluster API gives it.
func failureOf(e external.Object, reason, message string) failure {
	if message != "" {
		message = fmt.Sprintf("Failure detected from referenced resource %v with name %q: %s", e.GVK, e.Ref.Name, message)
	}
	return failure{pass.Bounded(reason, maxFailureReasonLength), pass.Bounded(message, pass.MaxMessageLength)}
}

// finding is the failure of one referenced object, absent while the object was not read.
type finding = contract.Opt[failure]

// decideFailure returns the failure that the pool reports: the first one that is found. It ends when no object reports one any more; while
// an object was not read, an earlier failure stays.
func decideFailure(before failure, findings ...finding) failure {
	unread := false
	for _, one := range findings {
		f, known := one.Get()
		if known && f != (failure{}) {
			return f
		}
		unread = unread || !known
	}
	if unread {
		return before
	}
	return failure{}
}

// selector returns the selector of a pool's Machines, as text. The scale subresource returns it: the HorizontalPodAutoscaler does not
// scale a Scale without a selector. It is the same whether the provider creates Machines or not.
func selector(pool *contract.MachinePoolState) string {
	set := labels.Set{contract.PoolNameLabel: contract.LabelValue(pool.Key.Name)}
	if pool.ClusterName != "" {
		set[contract.ClusterNameLabel] = pool.ClusterName
	}
	return set.String() // sorted
}

// keepsSelector reports whether pools of a kind have a place for it. Cluster API's have none.
func keepsSelector(kind contract.MachinePoolKind) bool {
	const some = "a=b"
	pool := kind.New()
	var u contract.MachinePoolUpdate
	u.SelectorText = contract.SetTo(some)
	var state contract.MachinePoolState
	return kind.Adapter.Write(pool, u) == nil && kind.Adapter.Read(pool, &state) == nil && state.SelectorText == some
}
