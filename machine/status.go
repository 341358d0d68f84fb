package machine

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/contract/external"
	"github.com/machinist-dev/machinist/contract/pass"
	"github.com/machinist-dev/machinist/drain"
	"github.com/machinist-dev/machinist/noderef"
	"github.com/machinist-dev/machinist/phases"
)

// conditionsStep sets the conditions that summarize others. It does not change a paused Machine's conditions.
func conditionsStep(ctx context.Context, s *Scope) (Result, error) {
	if s.Paused() {
		return Result{}, nil
	}
	unread := s.keepUnread()
	s.assertDeleting()
	s.Assert(s.updating())
	s.assertMissing()
	s.assertProvisioned()
	measured, err := s.assertUpToDate(ctx)
	ready := s.assertReady()
	available := s.assertAvailable()
	return Result{RequeueAfter: pass.Soonest(pass.Soonest(unread, measured), pass.Soonest(ready, available))}, err
}

// assertDeleting sets Deleting to False on a Machine that is not being deleted, or reports that the deletion has begun when no step has
// set a stage.
func (s *Scope) assertDeleting() {
	if s.State.Deleting.IsZero() {
		s.Assert(pass.Condition(contract.ConditionDeleting, metav1.ConditionFalse, contract.ReasonNotDeleting, ""))
		return
	}
	if c, found := s.Condition(contract.ConditionDeleting); !found || c.Status != metav1.ConditionTrue {
		s.Assert(pass.Condition(contract.ConditionDeleting, metav1.ConditionTrue, contract.ReasonDeleting, "Deletion started"))
	}
	s.assertLeft()
}

// assertMissing sets conditions that neither this pass nor an earlier one has set, because a missing condition can look like one that does
// not matter. Conditions that no step in the list sets stay missing.
func (s *Scope) assertMissing() {
	for _, kind := range []string{
		contract.ConditionPaused, contract.ConditionBootstrapConfigReady, contract.ConditionInfrastructureReady, contract.ConditionNodeReady,
		ConditionNodeHealthy,
	} {
		if _, found := s.Condition(kind); !found && !slices.Contains(s.env.neverSet, kind) {
			s.Assert(pass.Condition(kind, metav1.ConditionUnknown, ReasonNotYetReported, notReported))
		}
	}
}

// assertProvisioned explains why the phase does not become Running when no object represents the infrastructure.
func (s *Scope) assertProvisioned() {
	c, found := s.Condition(contract.ConditionInfrastructureReady)
	if !s.env.withoutInfrastructure || !s.State.Deleting.IsZero() || (found && c.Reason != ReasonInfrastructureNotReported) {
		return
	}
	switch {
	case s.State.InfrastructureReady.Or(false) && found:
		s.Assert(pass.Condition(contract.ConditionInfrastructureReady, metav1.ConditionTrue, contract.ReasonReady, ""))
	case !s.State.InfrastructureReady.Or(false) && s.State.Node.Name != "":
		s.Assert(pass.Condition(contract.ConditionInfrastructureReady, metav1.ConditionUnknown, ReasonInfrastructureNotReported,
			"The phase waits for a step that calls Scope.SetInfrastructureReady, in every pass once the machine is there, "+
				"because there is no step "+StepInfrastructure))
	}
}

// all returns the conditions of the Machine as they will be; the first of a type counts.
func (s *Scope) all() []metav1.Condition {
	all := make([]metav1.Condition, 0, len(s.Stored)+len(s.Asserted))
	return append(append(all, s.Asserted...), s.Stored...)
}

// stepFailure is the error of a step of the embedder.
type stepFailure struct {
	step string
	err  error
}

// maxFailureLength is the maximum length of a step's error in Ready.
const maxFailureLength = 1024

// failureLines returns the lines of Ready about failed steps. While a step keeps failing, its line keeps the text of the first error: many
// errors differ in each attempt, for example by a request number, and would cause a write each.
func failureLines(failures []stepFailure, before string) []string {
	said := strings.Split(before, "\n")
	lines := make([]string, 0, len(failures))
	for _, f := range failures {
		start := "* Step " + f.step + " failed: "
		line := start + pass.Bounded(strings.Join(strings.Fields(f.err.Error()), " "), maxFailureLength)
		if at := slices.IndexFunc(said, func(text string) bool { return strings.HasPrefix(text, start) }); at >= 0 {
			line = said[at]
		}
		lines = append(lines, line)
	}
	return lines
}

// assertReady returns when Ready changes with time.
func (s *Scope) assertReady() time.Duration {
	facts := readyFacts{Conditions: s.all(), Gates: s.State.ReadinessGates, Deleting: !s.State.Deleting.IsZero(), NeverSet: s.env.neverSet}
	before, _ := pass.Find(s.Stored, contract.ConditionReady)
	facts.Before, facts.Failures = before.Status, failureLines(s.failures, before.Message)
	if s.lost != "" {
		facts.Failures = append(facts.Failures, "* "+s.lost)
	}
	var again time.Duration
	if facts.Deleting {
		stage, _ := s.Condition(contract.ConditionDeleting)
		facts.Stage, again = decideStage(stageFacts{
			Reason: stage.Reason, Deleting: s.State.Deleting, DrainStarted: s.State.DrainStarted,
			Blockers: s.Blockers, Counts: ptr.Deref(s.waiting, drain.Counts{}), Now: s.Now,
		})
	}
	s.Assert(decideReady(facts))
	return again
}

// assertAvailable returns when a Machine that is ready becomes available. An available Machine stays available while it is ready: a
// process whose clock is behind that of the previous one would compute a shorter time.
func (s *Scope) assertAvailable() time.Duration {
	ready, _ := pass.Find(s.Asserted, contract.ConditionReady)
	since, now := s.Now, s.Now
	if before, found := pass.Find(s.Stored, contract.ConditionReady); found && before.Status == ready.Status {
		since = before.LastTransitionTime.Time
	}
	if before, found := pass.Find(s.Stored, contract.ConditionAvailable); found && before.Status == metav1.ConditionTrue {
		now = later(now, before.LastTransitionTime.Time)
	}
	c, again := decideAvailable(ready.Status, since, s.State.MinReady.Or(0), now)
	s.Assert(c)
	return again
}

// decideUpdating reads the annotations that the owner of the Machine sets.
func decideUpdating(state *contract.MachineState) metav1.Condition {
	if state.UpdatingInPlace() {
		return pass.Condition(ConditionUpdating, metav1.ConditionTrue, ReasonInPlaceUpdating, "In-place update in progress")
	}
	return pass.Condition(ConditionUpdating, metav1.ConditionFalse, ReasonNotUpdating, "")
}

// updating returns the condition Updating of this pass. It sets the fields that a policy leaves empty, because the API server would reject
// them.
func (s *Scope) updating() metav1.Condition {
	decide := s.env.options.Policy.Updating
	if decide == nil {
		return decideUpdating(&s.State)
	}
	c := decide(&s.State)
	c.Type = ConditionUpdating
	switch {
	case c.Status == "":
		c.Status = metav1.ConditionUnknown
		fallthrough
	case c.Reason == "" && c.Status == metav1.ConditionUnknown:
		c.Reason = ReasonNotYetReported
	case c.Reason == "" && c.Status == metav1.ConditionTrue:
		c.Reason = ReasonUpdating
	case c.Reason == "":
		c.Reason = ReasonNotUpdating
	}
	return c
}

// isUnreadYet reports whether an object is unread for a reason that a person cannot fix.
func isUnreadYet(e external.Object) bool {
	reason := e.Problem.Reason
	return e.Presence == external.Unread && (reason == "" || reason == external.ReasonCacheNotSynced)
}

// keepUnread restores the conditions of referenced objects that this pass could not read, for Options.ConnectionGrace from the first such
// pass on, and returns the rest of that duration.
func (s *Scope) keepUnread() time.Duration {
	since := s.env.memory.unreadSince(s.State.Key)
	kept, left := pass.SpareUnread(s.Stored, s.Asserted, func(c metav1.Condition) bool {
		return (c.Type == contract.ConditionBootstrapConfigReady && isUnreadYet(s.Bootstrap)) ||
			(c.Type == contract.ConditionInfrastructureReady && isUnreadYet(s.Infrastructure))
	}, &since, s.Now, s.env.options.ConnectionGrace)
	s.env.memory.setUnreadSince(s.State.Key, since)
	s.Asserted = kept
	return left
}

// PhaseStep returns the step that computes the phase in the dialect of a table, from facts of a pass:
//
//	steps, err := machine.Replace(machine.Steps(), machine.StepPhase, machine.PhaseStep(phases.Kubermatic(), machine.KubermaticFacts))
//
// The facts are read once in every pass, at its end, also of one that failed; they see what the pass has decided and must not change the
// Scope. ClusterAPIFacts, KubermaticFacts and GardenerFacts return the facts that follow from a Machine; wrap one to add facts that only
// you know, or write your own for a table of your own.
//
// The decision, with its reason and what is waited for, is in Scope.Phase from then on, for a closing step behind this one; a change
// is logged at level 1. The phase of a paused Machine stays as it is. A nil table or function makes a step that New refuses.
func PhaseStep[F comparable](table *phases.Table[F], facts func(*Scope) F) Step {
	step := Step{Name: StepPhase, On: pass.InBoth, Closing: true}
	if table == nil || facts == nil {
		return step
	}
	step.Run = func(ctx context.Context, s *Scope) (Result, error) {
		if s.Paused() {
			return Result{}, nil
		}
		before := s.State.Phase
		s.Phase = table.Compute(facts(s))
		s.SetPhase(string(s.Phase.Phase))
		if s.State.Phase != before {
			logr.FromContextOrDiscard(ctx).V(1).Info("phase", "from", before, "to", s.Phase.Phase, "reason", s.Phase.Reason,
				"waitingFor", s.Phase.Waiting)
		}
		return Result{}, nil
	}
	return step
}

// ClusterAPIFacts are the facts of a pass for the dialects of Cluster API.
func ClusterAPIFacts(s *Scope) phases.Facts {
	return phases.Facts{
		Deleting:            !s.State.Deleting.IsZero(),
		BootstrapReady:      s.State.BootstrapReady.Or(false),
		InfrastructureReady: s.State.InfrastructureReady.Or(false),
		HasProviderID:       noderef.ValidProviderID(s.State.ProviderID),
		HasNode:             s.State.Node.Name != "",
		Updating:            s.IsTrue(ConditionUpdating),
		Failed:              s.failureReported(),
	}
}

// KubermaticInitializers is the annotation that stops Kubermatic's machine-controller from acting on a Machine while it is not empty.
const KubermaticInitializers = "machine-controller.kubermatic.io/initializers"

// KubermaticFacts are the facts of a pass for Kubermatic's dialect, as far as they follow from a Machine.
//
//   - Valid: bootstrap data or an instance exists, and neither is created from an invalid spec; or the Driver of WithDriver has accepted
//     the spec. If you validate earlier, set it.
//   - Held: the Machine has KubermaticInitializers, or is paused; PhaseStep leaves a paused one as it is.
//   - NodeWasReady: the Node is Ready, or the status remembers that the Machine was Running with this Node. If that write was lost,
//     the Machine is Joining until the Node is Ready again.
//   - Gone: the finalizer is removed in this pass. The phase is visible only if there are other finalizers.
func KubermaticFacts(s *Scope) phases.KubermaticFacts {
	f := phases.KubermaticFacts{
		Deleting:     !s.State.Deleting.IsZero(),
		Failed:       s.failureReported(),
		Held:         s.Paused() || s.State.Annotations[KubermaticInitializers] != "",
		HasInstance:  s.hasInstance(),
		HasAddresses: len(s.State.Addresses) > 0,
		HasNode:      s.State.Node.Name != "",
		NodeWasReady: s.IsTrue(contract.ConditionNodeReady) || s.remembers(phases.Running),
	}
	f.Valid = f.HasInstance || s.validated.Or(s.State.BootstrapReady.Or(false))
	f.Gone = f.Deleting && !slices.Contains(s.State.Finalizers, s.env.options.Finalizer)
	return f
}

// GardenerFacts are the facts of a pass for Gardener's dialect, as far as they follow from a Machine.
//
//   - CreateFailed: a failure was recorded (Scope.SetFailure) and there is no instance. Clear it before the next attempt.
//   - Healthy: NodeReady and NodeHealthy are True; Policy.Health says what the latter asks for.
//   - Joined: the status remembers a phase that only a Machine whose Node was healthy has.
//   - WasFailed: the status remembers that the Machine was Failed with this Node.
//   - UpdateStarted: the condition Updating is True; UpdateFailed: with ReasonInPlaceUpdateFailed. The end of an update that succeeded is
//     a healthy Node.
//
// NoTarget, StaleNode, Blocked and the two timeouts are never set: they follow from the landscape, from the Node's past and taints, and
// from the clock. If you add a timeout, request another pass when it ends (Result.RequeueAfter in a step of your own).
func GardenerFacts(s *Scope) phases.GardenerFacts {
	f := phases.GardenerFacts{
		Deleting:      !s.State.Deleting.IsZero(),
		HasInstance:   s.hasInstance(),
		Healthy:       s.IsTrue(contract.ConditionNodeReady) && s.IsTrue(ConditionNodeHealthy),
		UpdateStarted: s.IsTrue(ConditionUpdating),
	}
	f.CreateFailed = s.failureReported() && !f.HasInstance
	f.Joined = s.remembers(phases.Running, phases.Unknown, phases.InPlaceUpdating, phases.InPlaceUpdateSuccessful, phases.InPlaceUpdateFailed)
	f.WasFailed = s.remembers(phases.Failed)
	updating, _ := s.Condition(ConditionUpdating)
	f.UpdateFailed = f.UpdateStarted && updating.Reason == ReasonInPlaceUpdateFailed
	return f
}

func (s *Scope) failureReported() bool {
	return s.State.FailureReason != "" || s.State.FailureMessage != ""
}

func (s *Scope) hasInstance() bool {
	return noderef.ValidProviderID(s.State.ProviderID) || s.State.InfrastructureReady.Or(false)
}

// remembers reports whether the stored phase is one that a Machine only reaches with its Node. The earlier phase of a Machine is recorded
// nowhere else; after a change of its Node in this pass it does not count.
func (s *Scope) remembers(words ...phases.Phase) bool {
	return s.State.Node.Name != "" && s.Update.Node.Keeps() && slices.Contains(words, phases.Phase(s.State.Phase))
}
