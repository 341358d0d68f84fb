package machine

import (
	"context"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/internal/engine"
)

// Condition types of a Machine. Types, reasons and messages are those of Cluster API's v1beta2 Machine, so that its dashboards and tools
// work. Problems that Cluster API only logs have their own reasons here, such as external.ReasonCRDNotFound. From its first status on, a
// Machine that is not paused has
//
//   - BootstrapConfigReady and InfrastructureReady, which mirror the Ready condition of the referenced objects. Without StepInfrastructure,
//     and with the default StepPhase, InfrastructureReady reports that no step has called Scope.SetInfrastructureReady;
//   - NodeReady and NodeHealthy, which report the conditions of the Node, or what the Machine waits for before there is a Node;
//   - Updating, from the annotations that the owner of the Machine sets, or from a step of your own; it makes the phase Updating;
//   - Deleting, which names the stage of a deletion, and Paused, which is Unknown when the Cluster does not exist or cannot be read because
//     of a problem that a person can fix;
//   - Ready, which summarizes Deleting, Updating, BootstrapConfigReady, InfrastructureReady, NodeHealthy, HealthCheckSucceeded if it is
//     present, and the readiness gates of the Machine: problems first, then unknown conditions. In a deletion it reports only the stage. If
//     a step of your own fails, or the API server rejects a label or taint of the Node, the Machine cannot become Ready: the reason is
//     InternalError, with the text of the error. A Machine that is Ready stays Ready, with that text;
//   - Available, which is True when the Machine has been Ready for spec.minReadySeconds;
//   - UpToDate, which the owner of the Machine sets: for a Machine of a MachineDeployment, the reconciler of the MachineDeployment.
//
// A Warning event reports the start of a problem, and a Normal event an action. There is one event for each transition, even if two
// conditions report it.
// the same.
const (
	ConditionNodeHealthy = "NodeHealthy" // the Node is ready and without pressure
)

// Reasons of conditions that Cluster API uses too.
const (
	ReasonNotYetReported    = "NotYetReported"     // the condition has not been set yet
	ReasonNodeReady         = "NodeReady"          // the Node is Ready
	ReasonNodeNotReady      = "NodeNotReady"       // the Node is not Ready
	ReasonNodeReadyUnknown  = "NodeReadyUnknown"   // the Node does not report whether it is Ready, or its kubelet has stopped reporting
	ReasonNodeHealthy       = "NodeHealthy"        // the Node is healthy
	ReasonNodeNotHealthy    = "NodeNotHealthy"     // a condition of the Node is unhealthy; the message names it
	ReasonNodeHealthUnknown = "NodeHealthyUnknown" // a condition of the Node is unknown
	ReasonNodeDeleted       = "NodeDeleted"        // the recorded Node has been deleted
	ReasonNodeDoesNotExist  = "NodeDoesNotExist"   // no Node with the provider ID has joined yet

	ReasonWaitingForMinReadySeconds = "WaitingForMinReadySeconds" // the Machine is Ready, but not for minReadySeconds
	ReasonNotUpdating               = "NotUpdating"               // no update is in progress
	ReasonInPlaceUpdating           = "InPlaceUpdating"           // an updater changes the Machine in place
	ReasonInPlaceUpdateFailed       = "InPlaceUpdateFailed"       // an updater has reported a failure

	ReasonWaitingForPreDrainHook     = "WaitingForPreDrainHook"     // an annotation delays the drain
	ReasonWaitingForVolumeDetach     = "WaitingForVolumeDetach"     // volumes are still attached to the Node
	ReasonWaitingForPreTerminateHook = "WaitingForPreTerminateHook" // an annotation delays the deletion of the infrastructure
)

// Reasons for problems that Cluster API only logs as errors. A person can fix each of them; the Machine then continues without further
// action. Reasons about referenced objects are in package contract/pass.
const (
	// ReasonProviderIDMissing: the infrastructure is provisioned, but its provider ID is empty or identifies no instance.
	ReasonProviderIDMissing = "ProviderIDMissing"
	// ReasonInfrastructureNotReported: there is no StepInfrastructure, and no step has called Scope.SetInfrastructureReady.
	ReasonInfrastructureNotReported = "InfrastructureNotReported"
)

// problems are the reasons that cause a Warning event when a condition changes to them. A missing object is a problem only while
// the Machine is not being deleted.
func problems(deleting bool) []string {
	all := append(engine.Problems(), ReasonProviderIDMissing)
	if !deleting {
		all = append(all, contract.ReasonDeleted, ReasonNodeDeleted)
	}
	return all
}

// notReported is the message of a condition that has not been set.
const notReported = "Condition not yet reported"

// Reasons and actions of the events that the reconciler records on a Machine. An event is recorded after the write that it reports, so that
// a repeated pass does not record it again.
const (
	EventNodeMatched = "SuccessfulSetNodeRef" // the Node of the Machine was found and recorded
	EventNodeDrained = "SuccessfulDrainNode"  // the Node was drained before its deletion
	actionMatchNode  = "MatchNode"
	actionDrainNode  = "DrainNode"
)

// conditionsStep sets the conditions that summarize other conditions. It does not change the conditions of a paused Machine.
func conditionsStep(_ context.Context, s *Scope) (Result, error) {
	if s.Paused() {
		return Result{}, nil
	}
	s.keepUnread()
	s.assertDeleting()
	if _, found := engine.Find(s.Asserted, contract.ConditionUpdating); !found {
		s.Assert(decideUpdating(&s.State))
	}
	s.assertMissing()
	s.assertProvisioned()
	s.assertReady()
	return Result{RequeueAfter: s.assertAvailable()}, nil
}

// assertDeleting sets Deleting to False on a Machine that is not being deleted. In a deletion for which no step has set a stage, it sets
// Deleting to True.
func (s *Scope) assertDeleting() {
	switch {
	case !s.Deleting():
		s.Assert(engine.Condition(contract.ConditionDeleting, metav1.ConditionFalse, contract.ReasonNotDeleting, ""))
	case !s.IsTrue(contract.ConditionDeleting):
		s.Assert(engine.Condition(contract.ConditionDeleting, metav1.ConditionTrue, contract.ReasonDeleting, "Deletion started"))
	}
}

// assertMissing sets required conditions that no pass has set yet to Unknown. A condition that no step in the list sets stays missing.
func (s *Scope) assertMissing() {
	for _, sets := range setBySteps() {
		if _, found := s.Condition(sets.condition); !found && !slices.Contains(s.env.neverSet, sets.condition) {
			s.Assert(engine.Condition(sets.condition, metav1.ConditionUnknown, ReasonNotYetReported, notReported))
		}
	}
}

// assertProvisioned explains why the phase does not become Running when no object represents the infrastructure.
func (s *Scope) assertProvisioned() {
	c, found := s.Condition(contract.ConditionInfrastructureReady)
	if !s.env.withoutInfrastructure || s.Deleting() || (found && c.Reason != ReasonInfrastructureNotReported) {
		return
	}
	switch {
	case s.State.InfrastructureReady.Or(false) && found:
		s.Assert(engine.Condition(contract.ConditionInfrastructureReady, metav1.ConditionTrue, contract.ReasonReady, ""))
	case !s.State.InfrastructureReady.Or(false) && s.State.Node.Name != "":
		s.Assert(engine.Condition(contract.ConditionInfrastructureReady, metav1.ConditionUnknown, ReasonInfrastructureNotReported,
			"The phase waits for a step that calls Scope.SetInfrastructureReady, in every pass once the machine is there, "+
				"because there is no step "+StepInfrastructure))
	}
}

func (s *Scope) assertReady() {
	facts := readyFacts{
		Conditions: slices.Concat(s.Asserted, s.Stored), Gates: s.State.ReadinessGates, Deleting: s.Deleting(), NeverSet: s.env.neverSet,
		Failures: s.failures,
	}
	before, _ := engine.Find(s.Stored, contract.ConditionReady)
	facts.Before = before.Status
	if lost := s.NotKept(); lost != "" {
		facts.Failures = append(facts.Failures, "* "+lost)
	}
	s.Assert(decideReady(facts))
}

// assertAvailable sets Available and returns the time until a ready Machine becomes available. An available Machine stays available while
// it is ready, even if the clock of this process is behind the clock that set the condition.
func (s *Scope) assertAvailable() time.Duration {
	ready, _ := engine.Find(s.Asserted, contract.ConditionReady)
	since, now := s.Now, s.Now
	if before, found := engine.Find(s.Stored, contract.ConditionReady); found && before.Status == ready.Status {
		since = before.LastTransitionTime.Time
	}
	if before, found := engine.Find(s.Stored, contract.ConditionAvailable); found && before.Status == metav1.ConditionTrue {
		now = later(now, before.LastTransitionTime.Time)
	}
	c, again := decideAvailable(ready.Status, since, s.State.MinReady.Or(0), now)
	s.Assert(c)
	return again
}

// decideUpdating reads the annotations that the owner of the Machine sets.
func decideUpdating(state *contract.MachineState) metav1.Condition {
	if state.UpdatingInPlace() {
		return engine.Condition(contract.ConditionUpdating, metav1.ConditionTrue, ReasonInPlaceUpdating, "In-place update in progress")
	}
	return engine.Condition(contract.ConditionUpdating, metav1.ConditionFalse, ReasonNotUpdating, "")
}
