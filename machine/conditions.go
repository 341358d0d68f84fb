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
// work; problems that it only logs have their own reasons here (external.ReasonCRDNotFound and those beside it). From its first
// status on, a Machine that is not paused has
//
//   - BootstrapConfigReady and InfrastructureReady, which mirror the Ready condition of the referenced objects. Without StepInfrastructure,
//     and with the default StepPhase, InfrastructureReady reports that no step has called Scope.SetInfrastructureReady;
//   - NodeReady and NodeHealthy, of the Node, or what the Machine waits for before there is a Node;
//   - Updating, by the annotations that the owner of the Machine sets, or a step of your own; while it is True the phase is Updating too;
//   - Deleting, which names the stage of a deletion, and Paused, which is Unknown when the Cluster does not exist or cannot be read because
//     of a problem that a person can fix;
//   - Ready, which summarizes Deleting, Updating, BootstrapConfigReady, InfrastructureReady, NodeHealthy, HealthCheckSucceeded if it is
//     present, and the readiness gates of the Machine: problems first, then unknown conditions; in a deletion its stage alone. A failed
//     step of your own, and a label or taint that the API server does not accept for the Node, keep a Machine from becoming Ready, with
//     reason InternalError and the text of the error; a Machine that is Ready stays Ready, with that text;
//   - Available, when it has been ready for spec.minReadySeconds;
//   - UpToDate, which the owner of the Machine sets, who knows the template: for one of a MachineDeployment its reconciler.
//
// A Warning event reports the begin of a problem, and a Normal event an action: one for each transition, also when two conditions report
// the same.
const (
	ConditionNodeHealthy = "NodeHealthy" // the Node is ready and without pressure
)

// Reasons of conditions that Cluster API uses too.
const (
	ReasonNotYetReported    = "NotYetReported"     // the condition has not been set yet
	ReasonNodeReady         = "NodeReady"          // the Node is Ready
	ReasonNodeNotReady      = "NodeNotReady"       // the Node is not Ready
	ReasonNodeReadyUnknown  = "NodeReadyUnknown"   // the Node does not say whether it is Ready, or its kubelet has stopped to report
	ReasonNodeHealthy       = "NodeHealthy"        // the Node is healthy
	ReasonNodeNotHealthy    = "NodeNotHealthy"     // a condition of the Node is unhealthy; the message names it
	ReasonNodeHealthUnknown = "NodeHealthyUnknown" // a condition of the Node is unknown
	ReasonNodeDeleted       = "NodeDeleted"        // the Node was recorded and has been deleted
	ReasonNodeDoesNotExist  = "NodeDoesNotExist"   // no Node with the provider ID has joined yet

	ReasonWaitingForMinReadySeconds = "WaitingForMinReadySeconds" // the Machine is Ready, but not for minReadySeconds
	ReasonNotUpdating               = "NotUpdating"               // no update is in progress
	ReasonInPlaceUpdating           = "InPlaceUpdating"           // an updater changes the Machine in place
	ReasonInPlaceUpdateFailed       = "InPlaceUpdateFailed"       // an updater has reported a failure

	ReasonWaitingForPreDrainHook     = "WaitingForPreDrainHook"     // an annotation asks to wait before the drain
	ReasonWaitingForVolumeDetach     = "WaitingForVolumeDetach"     // volumes are still attached to the Node
	ReasonWaitingForPreTerminateHook = "WaitingForPreTerminateHook" // an annotation asks to wait before the infrastructure is deleted
)

// Reasons for problems that Cluster API only logs as errors. A person can fix each of them, and the Machine continues without further
// action. Those about referenced objects are in package contract/pass.
const (
	// ReasonProviderIDMissing: the infrastructure is provisioned but has no provider ID, or one that names no instance.
	ReasonProviderIDMissing = "ProviderIDMissing"
	// ReasonInfrastructureNotReported: there is no StepInfrastructure, and no step has called Scope.SetInfrastructureReady.
	ReasonInfrastructureNotReported = "InfrastructureNotReported"
)

// problems are the reasons that cause a Warning event when a condition changes to them. A missing object is a problem only while
// the Machine is not being deleted.
func problems(deleting bool) []string {
	all := append(engine.Problems(), ReasonProviderIDMissing, ReasonInvalidAnnotation)
	if !deleting {
		all = append(all, contract.ReasonDeleted, ReasonNodeDeleted)
	}
	return all
}

// notReported is the message of a condition that has not been set.
const notReported = "Condition not yet reported"

// Reasons and actions of the events that the reconciler records on a Machine. An event is recorded after the write that it is about, so
// that a repeated pass does not repeat it.
const (
	EventNodeMatched = "SuccessfulSetNodeRef" // the Node of the Machine was found and recorded
	EventNodeDrained = "SuccessfulDrainNode"  // the Node was drained before its deletion
	actionMatchNode  = "MatchNode"
	actionDrainNode  = "DrainNode"
)

// conditionsStep sets the conditions that summarize others. It does not change a paused Machine's conditions.
func conditionsStep(_ context.Context, s *Scope) (Result, error) {
	if s.Paused() {
		return Result{}, nil
	}
	s.keepUnread()
	s.assertDeleting()
	if _, said := engine.Find(s.Asserted, contract.ConditionUpdating); !said {
		s.Assert(decideUpdating(&s.State))
	}
	s.assertMissing()
	s.assertProvisioned()
	s.assertReady()
	return Result{RequeueAfter: s.assertAvailable()}, nil
}

// assertDeleting sets Deleting to False on a Machine that is not being deleted, or reports that the deletion has begun when no step has
// set a stage.
func (s *Scope) assertDeleting() {
	switch {
	case !s.Deleting():
		s.Assert(engine.Condition(contract.ConditionDeleting, metav1.ConditionFalse, contract.ReasonNotDeleting, ""))
	case !s.IsTrue(contract.ConditionDeleting):
		s.Assert(engine.Condition(contract.ConditionDeleting, metav1.ConditionTrue, contract.ReasonDeleting, "Deletion started"))
	}
}

// assertMissing sets conditions that neither this pass nor an earlier one has set, because a missing condition can look like one that does
// not matter. Conditions that no step in the list sets stay missing.
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

// assertAvailable returns when a Machine that is ready becomes available. An available Machine stays available while it is ready: a
// process whose clock is behind that of the previous one would compute a shorter time.
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
