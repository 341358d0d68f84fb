package deployment

import (
	"context"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/internal/children"
	"github.com/machinist-dev/machinist/internal/engine"
	"github.com/machinist-dev/machinist/machineset/scale"
)

// Conditions and reasons that only deployments have. They are Cluster API's, except ConditionProgressing, which Kubernetes' Deployments
// have.
const (
	ConditionAvailable       = "Available"          // as many Machines are available as the strategy requires
	ConditionRollingOut      = "RollingOut"         // Machines are being replaced or updated
	ReasonRollingOut         = "RollingOut"         // the message has the number of remaining Machines, and the reason
	ReasonNotRollingOut      = "NotRollingOut"      // all Machines are up to date
	ReasonNotAvailable       = "NotAvailable"       // fewer Machines are available than the strategy requires
	ConditionProgressing     = "Progressing"        // the rollout advances
	ReasonStrategyUnreadable = "StrategyUnreadable" // the rollout strategy is invalid
)

// statusFacts are the inputs of a deployment's status, in addition to the summary of its Machines.
type statusFacts struct {
	children.Summary

	// outdated is how many Machines are of sets with another template than the deployment's; differs are the fields in which those differ.
	outdated int
	differs  []string
	// blocking are the reasons that the rollout waits for.
	blocking []string
}

// available rule: Cluster API's setAvailableCondition.
func (s *Scope) available(available int32) metav1.Condition {
	desired, known := s.State.Replicas.Get()
	if !known {
		return children.WaitingForReplicas(ConditionAvailable)
	}
	least := desired - int32(s.facts.Strategy.MaxUnavailable)
	if available >= least {
		return engine.Condition(ConditionAvailable, metav1.ConditionTrue, contract.ReasonAvailable, "")
	}
	message := fmt.Sprintf("%d available replicas, at least %d required", available, least)
	if s.Deleting() {
		message = "Deletion in progress"
	}
	return engine.Condition(ConditionAvailable, metav1.ConditionFalse, ReasonNotAvailable, message)
}

// rollingOut reports the differences, and what the rollout waits for. Rule: Cluster API's setRollingOutCondition.
func (f statusFacts) rollingOut() metav1.Condition {
	if f.outdated == 0 && len(f.blocking) == 0 {
		return engine.Condition(ConditionRollingOut, metav1.ConditionFalse, ReasonNotRollingOut, "")
	}
	slices.Sort(f.differs)
	return engine.Condition(ConditionRollingOut, metav1.ConditionTrue, ReasonRollingOut, fmt.Sprintf("Rolling out %d not up-to-date replicas",
		f.outdated)+children.Bullets(slices.Compact(f.differs))+children.Bullets(f.blocking))
}

// unobserved returns the conditions of a deployment whose sets or Machines could not be read.
func unobserved() []metav1.Condition {
	all := children.Unobserved()
	for _, kind := range []string{ConditionAvailable, ConditionRollingOut} {
		all = append(all, engine.Condition(kind, metav1.ConditionUnknown, contract.ReasonInternalError, engine.SeeLogs))
	}
	return all
}

// phaseOf rule: Cluster API's calculateStatus of MachineDeployments.
func phaseOf(desired contract.Opt[int32], deleting bool, replicas int32) string {
	want, known := desired.Get()
	switch {
	case deleting || known && replicas > want:
		return "ScalingDown"
	case !known:
		return "Unknown"
	case replicas < want:
		return "ScalingUp"
	}
	return "Running"
}

// statusStep sets the status. It does not change fields that this pass has not read.
func statusStep(_ context.Context, s *Scope) (engine.Result, error) {
	if s.Paused() || !s.children.Known {
		return engine.Result{}, nil
	}
	facts := s.statusFacts()
	numbers, again := facts.Count()
	s.Assert(facts.Conditions()...)
	s.Assert(s.available(numbers.Available), facts.rollingOut())
	s.Assert(s.progressing(&facts)...)
	u := &s.Update
	if s.hasSelector() {
		u.SelectorText = contract.SetTo(s.children.Selector.String())
	}
	u.ObservedReplicas, u.ReadyReplicas = contract.SetTo(numbers.Replicas), contract.SetTo(numbers.Ready)
	u.AvailableReplicas, u.UpToDateReplicas = contract.SetTo(numbers.Available), contract.SetTo(numbers.UpToDate)
	u.NodeReadyReplicas, u.NodeAvailableReplicas = contract.SetTo(numbers.NodeReady), contract.SetTo(numbers.NodeAvailable)
	u.UnavailableReplicas = contract.SetTo(max(numbers.Replicas-numbers.NodeAvailable, 0))
	u.UpdatedReplicas = contract.SetTo(numbers.Replicas - int32(facts.outdated))
	u.Phase = contract.SetTo(phaseOf(s.State.Replicas, s.Deleting(), numbers.Replicas))
	return engine.Result{RequeueAfter: again}, nil
}

// statusFacts returns the facts of this pass for the status.
func (s *Scope) statusFacts() statusFacts {
	f := statusFacts{Summary: children.Summary{
		Desired: s.State.Replicas, Deleting: s.Deleting(), MinReady: s.State.Template.MinReady.Or(0),
		TemplateLabels: s.State.Template.Labels, Holds: s.templates, Now: s.Now,
	}}
	f.LeftAs = s.env.kinds.Set.GVK.Kind + "s"
	for _, one := range s.observed {
		f.Left = append(f.Left, one.Key.Name)
		for _, m := range one.machines {
			f.Machines = append(f.Machines, m.State)
		}
		if slices.Contains(s.plan.Outdated, one.UID) && len(one.machines) > 0 {
			f.outdated += len(one.machines)
			f.differs = append(f.differs, one.diff...)
		}
	}
	for _, hold := range s.children.Holds {
		if s.planned {
			f.blocking = append(f.blocking, hold.Message)
		}
	}
	f.blocking = append(f.blocking, s.plan.Blocked...)
	if s.plan.Create.Found() && s.children.Refused() != "" {
		f.blocking = append(f.blocking, s.children.Refused())
	}
	for _, held := range s.heldSets() {
		f.Holds = append(f.Holds, scale.Hold{Message: held})
		if f.outdated > 0 {
			f.blocking = append(f.blocking, held)
		}
	}
	return f
}

// Reasons of the condition Progressing. Rule: Kubernetes.
const (
	progressing      = "ReplicaSetUpdated"        // the rollout continues, or its deadline has not passed
	completed        = "NewReplicaSetAvailable"   // nothing is left to do
	deadlineExceeded = "ProgressDeadlineExceeded" // there was no progress for longer than the deadline
	progressPaused   = "DeploymentPaused"         // the deadline does not run while the rollout is paused
)

// progressing returns the condition of a deployment with a progress deadline; a deadline of 0 or less is never exceeded. A completed
// rollout stays completed when a Machine fails or replicas change. Rule: Kubernetes' deployment controller.
func (s *Scope) progressing(facts *statusFacts) []metav1.Condition {
	limit, limited := s.State.ProgressDeadline.Get()
	if !limited || s.Deleting() || !s.planned {
		return nil
	}
	stored, _ := engine.Find(s.Stored, ConditionProgressing)
	left := s.lastChange(stored.Reason).Add(limit).Sub(s.Now)
	status, reason, message := metav1.ConditionTrue, progressing, ""
	switch {
	case s.plan.Complete, stored.Reason == completed && facts.outdated == 0 && s.plan.Current.UID != "":
		reason = completed
	case s.State.RolloutPaused:
		status, reason, message = metav1.ConditionUnknown, progressPaused, "The rollout is paused"
	case limit > 0 && left <= 0:
		status, reason = metav1.ConditionFalse, deadlineExceeded
		message = fmt.Sprintf("Nothing has changed for %s", limit) + children.Bullets(facts.blocking)
	default:
		s.Requeue(max(left, 0))
	}
	return []metav1.Condition{engine.Condition(ConditionProgressing, status, reason, message)}
}

// lastChange returns the last time of a rollout's progress: when it began or was resumed (now, if the stored reason is older), or when a
// set or a Machine was created, became available or was deleted. It survives a restart of the process.
func (s *Scope) lastChange(stored string) time.Time {
	if stored == "" || stored == completed || stored == progressPaused {
		return s.Now
	}
	times := []time.Time{{}}
	since := func(conditions []metav1.Condition, kind string) {
		if c, found := engine.Find(conditions, kind); found && c.Status == metav1.ConditionTrue {
			times = append(times, c.LastTransitionTime.Time)
		}
	}
	since(s.Stored, ConditionProgressing)
	since(s.Stored, ConditionRollingOut)
	for _, one := range s.observed {
		times = append(times, one.Created)
		for _, m := range one.machines {
			times = append(times, m.State.Created, m.State.Deleting)
			since(m.State.Conditions, ConditionAvailable)
		}
	}
	return slices.MaxFunc(times, time.Time.Compare)
}

// heldSets returns what the sets of the deployment wait for: that they are resumed, or the messages of their conditions.
func (s *Scope) heldSets() (texts []string) {
	for _, one := range s.observed {
		name := s.env.kinds.Set.GVK.Kind + " " + one.Key.Name
		if one.Paused() && (len(one.machines) > 0 || one.State.Replicas.Or(0) > 0) {
			texts = append(texts, name+" is paused")
			continue
		}
		for _, kind := range []string{contract.ConditionScalingUp, contract.ConditionScalingDown} {
			c, _ := engine.Find(one.State.Conditions, kind)
			would := kind == contract.ConditionScalingUp && one.UID == s.plan.Current.UID && s.plan.Stalled && one.isBlocked()
			if (c.Status == metav1.ConditionTrue || would) && c.Reason != contract.ReasonScalingUp && c.Reason != contract.ReasonScalingDown {
				texts = append(texts, name+":"+engine.Indented(c.Message))
			}
		}
	}
	return texts
}
