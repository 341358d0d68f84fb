package deployment

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/internal/engine"
	"github.com/machinist-dev/machinist/internal/external"
	"github.com/machinist-dev/machinist/internal/patch"
	"github.com/machinist-dev/machinist/machineset/rollout"
	"github.com/machinist-dev/machinist/machineset/scale"
)

// defaultHistory is how many old sets are retained if neither the deployment nor Kinds define it. Rule: the default of revisionHistoryLimit
// in Cluster API v1beta1 and in Kubermatic.
const defaultHistory = 1

// decide makes the plan, once in a pass.
func (s *Scope) decide() {
	if s.planned {
		return
	}
	s.planned = true
	strategy, err := strategyOf(&s.State)
	order, wrong := scale.ParseOrder(s.State.DeletionOrder)
	if err = errors.Join(err, wrong); err != nil {
		s.Hold(ReasonStrategyUnreadable, err.Error())
	}
	frozen := s.frozen()
	s.facts = rollout.Facts{
		Strategy: strategy, Order: order, Paused: s.State.RolloutPaused || frozen, After: s.State.RolloutAfter, Now: s.Now,
		Holds: s.missing,
	}
	if desired, known := s.State.Replicas.Get(); known {
		s.facts.Desired = contract.Some(int(desired))
	}
	if limit := s.State.RevisionHistoryLimit; limit.Found() || !s.env.kinds.AllRevisions {
		s.facts.HistoryLimit = contract.Some(int(limit.Or(defaultHistory)))
	}
	for _, one := range s.observed {
		set := one.facts(s.env.marks)
		set.Frozen = frozen || s.inPlace() && one.lacks()
		s.facts.Sets = append(s.facts.Sets, set)
	}
	s.plan = rollout.Plan(s.facts)
	if hold := s.changed(); hold != "" {
		s.facts.Holds = append(s.facts.Holds, hold)
		s.plan = rollout.Plan(s.facts)
	}
	if frozen {
		s.plan.Blocked = append(s.plan.Blocked, "the deployment or a set of it is frozen and creates no Machines")
	}
	if s.State.RollbackTo.Found() && s.State.RolloutPaused {
		s.plan.Blocked = append(s.plan.Blocked, "the rollback waits until the rollout is resumed")
	}
}

// frozen reports whether the deployment, or one of its sets, has a freeze label. Then a rollout does not continue, because it would delete
// Machines that nothing replaces, and no set is scaled up.
func (s *Scope) frozen() bool {
	own := scale.FreezingOf(s.env.kinds.Deployment.GVK.Group, &s.State.Metadata, s.State.Conditions)
	return own != scale.NotFrozen || len(s.frozenSets()) > 0
}

// isNew reports whether the controller of a set without Machines has not observed it yet, so that it is unknown whether it can create.
func (m *set) isNew() bool {
	seen := m.State.ObservedGeneration > 0 || len(m.State.Conditions) > 0 || m.State.ObservedReplicas.Found()
	old := m.State.ObservedGeneration > 0 && m.State.ObservedGeneration < m.Generation
	return len(m.machines) == 0 && (!seen || old)
}

// isBlocked reports whether the set could not create a Machine. Its condition ScalingUp then has a specific reason, even if the set has as
// many Machines as desired. A creation that the deployment itself has disabled does not count.
func (m *set) isBlocked() bool {
	c, found := engine.Find(m.State.Conditions, contract.ConditionScalingUp)
	return found && m.Annotations[scale.DisableCreateAnnotation] != "true" && !slices.Contains([]string{
		contract.ReasonScalingUp, contract.ReasonNotScalingUp, contract.ReasonWaitingForReplicasSet, contract.ReasonInternalError,
	}, c.Reason)
}

// goesOn reports whether the rollout deletes outdated Machines, or lets others delete them.
func (s *Scope) goesOn() bool { return !s.facts.Paused && !s.plan.Stalled }

// limits returns the limits for a set's replacement of marked Machines. While another set has Machines, or may get some, it replaces no
// available one, because the rollout counts all of them. The same applies to a set with fewer Machines than the deployment wants, as when
// it is frozen. A rollout that replaces all Machines also replaces the marked ones of outdated sets. Otherwise the set deletes them, and
// the current one creates others, or the set itself while the rollout does not continue.
func (s *Scope) limits(of types.UID) (l scale.RemediationLimits) {
	current, settled := s.plan.Current.UID, len(s.plan.Replicas) == 0 && !s.plan.Create.Found()
	for _, one := range s.observed {
		whole := one.UID == current && one.State.Replicas.Or(0) >= s.State.Replicas.Or(0)
		settled = settled && (whole || one.UID != current && len(one.machines) == 0 && one.State.Replicas.Or(0) == 0)
	}
	if of != current && s.goesOn() {
		if kind := s.facts.Strategy.Type; kind == rollout.RollingUpdate || kind == rollout.Recreate {
			return scale.RemediationLimits{Outdated: true}
		}
		l.Elsewhere = true
	}
	if settled {
		l.MaxUnavailable = s.facts.Strategy.MaxUnavailable
	}
	if limit, limited := s.State.RemediationMaxInFlight.Get(); limited {
		n, _ := intstr.GetScaledValueFromIntOrPercent(&limit, int(s.State.Replicas.Or(1)), true) // 0 for an invalid limit
		l.MaxInFlight = new(max(n, 0))
	}
	return l
}

// strategyOf returns the strategy of a deployment. The error describes an invalid strategy.
func strategyOf(d *contract.MachineDeploymentState) (rollout.Strategy, error) {
	kind := rollout.Type(cmp.Or(d.RolloutType, contract.RolloutRolling))
	known := []rollout.Type{rollout.RollingUpdate, rollout.OnDelete, rollout.Recreate}
	if d.RolloutType == contract.RolloutInPlace {
		known = []rollout.Type{rollout.InPlaceAuto, rollout.InPlaceManual}
		kind = rollout.Type("InPlace" + cmp.Or(d.InPlaceOrchestration, contract.OrchestrationAuto))
	}
	if !slices.Contains(known, kind) {
		return rollout.Strategy{}, fmt.Errorf("rollout type %q with the orchestration %q: want one of [RollingUpdate OnDelete Recreate], or %s "+
			"with %s or %s", d.RolloutType, d.InPlaceOrchestration,
			contract.RolloutInPlace, contract.OrchestrationAuto, contract.OrchestrationManual)
	}
	return rollout.Resolve(kind, d.MaxSurge, d.MaxUnavailable, int(max(d.Replicas.Or(0), 0)))
}

// revision returns the revision of a set, 0 when it has no valid one.
func (m *set) revision() int64 {
	n, err := strconv.ParseInt(m.Annotations[contract.RevisionAnnotation], 10, 64)
	if err != nil {
		return 0
	}
	return max(n, 0)
}

// facts returns the input of a plan for a set. marks are the result of scale.Marks.
func (m *set) facts(marks []string) rollout.Set {
	f := rollout.Set{
		Name: m.Key.Name, UID: m.UID, Created: m.Created, MadeFor: scale.ReadStamp(m.Annotations).After, Revision: m.revision(),
		Matches: len(m.diff) == 0, Replicas: int(m.State.Replicas.Or(0)), Deleting: !m.Deleting.IsZero(), Reserved: m.reserved,
		Stuck: m.isBlocked(), Unseen: m.isNew(), Machines: make([]rollout.Machine, 0, len(m.machines)),
	}
	for _, one := range m.machines {
		is := scale.Of(one.State, m.UID, marks...)
		is.Available = is.Available && !slices.Contains(m.replaced, is.Name)
		state, to := m.inPlaceOf(one.State)
		f.Machines = append(f.Machines, rollout.Machine{Machine: is, Mine: mine(one.State, marks), InPlace: state, InPlaceSet: to})
	}
	return f
}

// rolloutStep carries out the plan: a new set, marks on Machines, and the replicas of sets. It waits while its caches are older than the
// writes of this process or the one before it.
func rolloutStep(ctx context.Context, s *Scope) (engine.Result, error) {
	s.decide()
	if left := s.facts.After.Sub(s.Now); left > 0 { // a rollout begins then without another change
		s.Requeue(max(left, time.Second))
	}
	if s.plan.Current.UID != "" {
		s.ChangeAnnotation(contract.RevisionAnnotation, contract.SetTo(strconv.FormatInt(s.plan.Revision, 10)))
	}
	if s.behind() {
		return engine.Result{RequeueAfter: engine.BehindRetry}, nil
	}
	if len(s.children.Holds) > 0 {
		return engine.Result{}, nil
	}
	if !s.plan.Create.Found() { // the reserved name of a set whose creation has failed, and that is no longer needed, is removed
		settled := s.children.Settle()
		err := s.children.WriteLedger(ctx, s.children.Abandon(settled, len(settled.Pending)))
		if err != nil || len(s.plan.Replicas)+len(s.plan.Unmark)+len(s.plan.InPlace) == 0 {
			return engine.Result{}, err
		}
	}
	return s.carryOut(ctx)
}

// carryOut makes the changes of the plan, after the API server has confirmed the facts that they depend on.
func (s *Scope) carryOut(ctx context.Context) (engine.Result, error) {
	if current, err := s.confirmed(ctx); err != nil || !current {
		return engine.Result{}, err
	}
	if current, err := s.confirmMachines(ctx); err != nil || !current {
		return engine.Result{}, err
	}
	// If a set is lowered while a Machine still has its mark, the set would delete that Machine.
	unmarked := func(m machine) bool { return s.plan.Unmark[m.UID] }
	if err := s.mark(ctx, unmarked, contract.Cleared[string]()); err != nil {
		return engine.Result{}, err
	}
	if s.plan.Create.Found() { // no Machine is deleted for a set that may never exist
		return engine.Result{}, s.createSet(ctx)
	}
	var errs []error
	for _, one := range s.plan.Replicas {
		errs = append(errs, s.scaleSet(ctx, one))
	}
	return engine.Result{}, errors.Join(append(errs, s.updateInPlace(ctx))...)
}

// behind reports whether the cache has a set or a Machine in a version before this process's write.
func (s *Scope) behind() bool {
	w := s.env.frame.Writer
	return slices.ContainsFunc(s.observed, func(one *set) bool {
		return w.Behind(one.Object) || slices.ContainsFunc(one.machines, func(m machine) bool { return w.Behind(m.Object) })
	})
}

// createSet reserves a name and creates the set with the current template, or resumes a creation.
func (s *Scope) createSet(ctx context.Context) error {
	if err := s.children.AwaitRestored(ctx, 1); err != nil || len(s.children.Holds) > 0 {
		return err
	}
	naming, _ := scale.NewNaming(s.State.UID, s.State.Key.Name, s.State.ClusterName, "") // only a template can be wrong
	ledger := s.children.Settle()
	create := func(_ context.Context, e scale.Entry) (client.Object, bool, error) {
		set, err := s.newSet(e)
		return set, true, err
	}
	return s.children.Grow(ctx, ledger, max(0, 1-len(ledger.Pending)), naming, create)
}

// scaleSet marks the Machines to delete, and changes the replicas of a set on the version that was read. A set that is gone is not an
// error. The reasons of events are Cluster API's.
func (s *Scope) scaleSet(ctx context.Context, change rollout.Change) error {
	const action = "ScaleMachineSet"
	of := s.setBy(change.UID)
	var u contract.MachineSetUpdate
	u.Replicas = contract.SetTo(int32(change.To))
	u.Annotations = of.receive()
	err := s.markVictims(ctx, change)
	if err == nil {
		_, err = engine.Write(ctx, s.env.frame.Writer, s.env.kinds.Set, of.Object, u)
	}
	switch {
	case external.IsGone(err):
		return nil
	case err == nil:
		s.Eventf(corev1.EventTypeNormal, "SuccessfulScale", action, "Scaled %s %q from %d to %d replicas",
			s.env.kinds.Set.GVK.Kind, of.Key.Name, change.From, change.To)
	case !patch.Retryable(err):
		s.Eventf(corev1.EventTypeWarning, "FailedScale", action, "Failed to scale %s %q: %v",
			s.env.kinds.Set.GVK.Kind, of.Key.Name, err)
		s.plan.Blocked = append(s.plan.Blocked, engine.Bounded(contract.SteadyText(
			fmt.Sprintf("scale %s %s to %d: %v", s.env.kinds.Set.GVK.Kind, of.Key.Name, change.To, err)), engine.MaxNoteLength))
	}
	return err
}

// send writes an update of an object on the version that was read. An object that is gone is not an error.
func send[S, U any](ctx context.Context, s *Scope, kind contract.KindOf[S, U], obj contract.Object, u U) error {
	if _, err := engine.Write(ctx, s.env.frame.Writer, kind, obj, u); err != nil && !external.IsGone(err) {
		return err
	}
	return nil
}
