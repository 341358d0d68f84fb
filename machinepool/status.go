package machinepool

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/internal/children"
	"github.com/machinist-dev/machinist/internal/engine"
	"github.com/machinist-dev/machinist/internal/external"
	"github.com/machinist-dev/machinist/noderef"
	"github.com/machinist-dev/machinist/phases"
)

// Reasons of conditions and of the stages of a deletion that only pools have. The others, and the types of conditions, are those of package
// contract: the ones that Cluster API has announced for MachinePools in v1beta2 and does not write, and Paused.
const (
	ReasonNotAvailable = "NotAvailable" // fewer instances are available than desired
	// ReasonWaitingForMachineDeletion is the first stage of a deletion.
	ReasonWaitingForMachineDeletion = "WaitingForMachineDeletion"
	// ReasonInstancesHeld: the provider's list contains none of the instances with a recorded Node, while those Nodes are Ready. The list is
	// ignored until a person marks those Nodes as leaving or deletes them, or they have not been Ready for five minutes.
	ReasonInstancesHeld = "InstancesHeld"
)

// statusFacts are the inputs of the phase and the conditions.
type statusFacts struct {
	// Pool is the state with the decisions of the pass. Its NodeReadyReplicas always count Nodes; while these are unknown, they are the last
	// count.
	Pool *contract.MachinePoolState
	// Desired is the desired number of instances, absent when the pool has none.
	Desired contract.Opt[int32]
	// Listed is how many instances have a provider ID.
	Listed int32
	// Counts count instances by Nodes, or by Machines if those represent them; Known is true when they could be counted.
	Counts    counts
	Known     bool
	Instances instances
	// Problems are the problems that the steps have reported.
	Problems problems
	// Unread is why the instances could not be counted.
	Unread external.Problem
	Failed bool
}

// problems are the lines of the condition MachinesReady; the last one sets the reason.
type problems struct {
	Reason string
	Lines  []string
}

// add adds a line that names instances, unless there are none. what describes them, and more ends the line.
func (all *problems) add(reason, what string, names []string, more string) {
	if len(names) > 0 {
		all.Reason, all.Lines = reason, append(all.Lines, "* "+what+": "+engine.Named(names)+more)
	}
}

// actual returns the reported number of instances.
func (f *statusFacts) actual() int32 { return max(f.Pool.ObservedReplicas.Or(0), f.Listed) }

// phase computes the phase.
func (f *statusFacts) phase() phases.Decision {
	desired, sized := f.Desired.Get()
	ready := f.Pool.NodeReadyReplicas.Or(0)
	facts := phases.PoolFacts{
		Deleting: !f.Pool.Deleting.IsZero(), Failed: f.Failed, BootstrapReady: f.Pool.BootstrapReady.Or(false),
		InfrastructureReady: f.Pool.InfrastructureReady.Or(false), HasNode: len(f.Pool.Nodes) > 0, Sized: sized,
		ManagedElsewhere: f.Pool.ReplicasManagedElsewhere(),
	}
	facts.TooFew = sized && ready < desired
	facts.TooMany = sized && !facts.TooFew && max(ready, f.actual()) > desired
	return phases.MachinePool().Compute(facts)
}

// conditions returns the summarizing conditions of the pool. The texts are those of Cluster API's MachineSet if it has the condition.
func (f *statusFacts) conditions() []metav1.Condition {
	return []metav1.Condition{
		f.available(), f.machinesReady(), f.machinesUpToDate(),
		f.scaling(contract.ConditionScalingUp, contract.ReasonScalingUp, contract.ReasonNotScalingUp, "up", 1),
		f.scaling(contract.ConditionScalingDown, contract.ReasonScalingDown, contract.ReasonNotScalingDown, "down", -1),
	}
}

func (f *statusFacts) available() metav1.Condition {
	why := "The infrastructure is not provisioned yet"
	switch desired, sized := f.Desired.Get(); {
	case !sized:
		return children.WaitingForReplicas(contract.ConditionAvailable)
	case !f.Pool.InfrastructureReady.Or(false):
	case !f.Known:
		return f.unread(contract.ConditionAvailable)
	case f.Counts.Available < desired:
		why = fmt.Sprintf("%d available replicas, at least %d required", f.Counts.Available, desired)
	default:
		return engine.Condition(contract.ConditionAvailable, metav1.ConditionTrue, contract.ReasonAvailable, "")
	}
	return engine.Condition(contract.ConditionAvailable, metav1.ConditionFalse, ReasonNotAvailable, why)
}

func (f *statusFacts) unread(kind string) metav1.Condition {
	why := cmp.Or(f.Unread, logged()) // the Nodes may be known, and the Machines not; an empty reason is rejected
	return engine.Condition(kind, metav1.ConditionUnknown, why.Reason, why.Message)
}

// machinesReady reports the instances that have a problem.
func (f *statusFacts) machinesReady() metav1.Condition {
	all := problems{Reason: contract.ReasonNotReady}
	all.add(contract.ReasonNotReady, "Not ready", f.Counts.NotReady, "")
	all.add(contract.ReasonNotReady, "Without a Node", f.Instances.in(missing).ids(), "")
	all.Reason, all.Lines = cmp.Or(f.Problems.Reason, all.Reason), append(all.Lines, f.Problems.Lines...)
	all.add(contract.ReasonNodeClaimed, "Named by another pool too, so that no pool uses their Nodes", f.Instances.in(claimed).ids(),
		"; let each instance be in one pool")
	all.add(contract.ReasonAmbiguousNode, "With several Nodes", f.Instances.in(ambiguous).ids(), "; delete those that are wrong")
	if unnamed := f.Pool.ObservedReplicas.Or(0) - f.Listed; unnamed > 0 {
		all.Lines = append(all.Lines, fmt.Sprintf("* Without a provider ID: %d", unnamed))
	}
	return f.summed(contract.ConditionMachinesReady, contract.ReasonReady, all)
}

func (f *statusFacts) machinesUpToDate() metav1.Condition {
	var all problems
	all.add(contract.ReasonNotUpToDate, "Not up to date", f.Counts.Outdated, "")
	return f.summed(contract.ConditionMachinesUpToDate, contract.ReasonUpToDate, all)
}

// summed returns a condition about all instances: it is good unless there are problems.
func (f *statusFacts) summed(kind, good string, all problems) metav1.Condition {
	switch {
	case !f.Known:
		return f.unread(kind)
	case len(all.Lines) > 0:
		return engine.Condition(kind, metav1.ConditionFalse, all.Reason, strings.Join(all.Lines, "\n"))
	case f.actual() == 0:
		good = contract.ReasonNoReplicas
	}
	return engine.Condition(kind, metav1.ConditionTrue, good, "")
}

// scaling returns the condition ScalingUp or ScalingDown, which compares with zero in a pool that is being deleted.
func (f *statusFacts) scaling(kind, is, isNot, way string, when int) metav1.Condition {
	desired, sized := f.Desired.Get()
	if !f.Pool.Deleting.IsZero() {
		desired, sized = 0, true
	}
	switch actual := f.actual(); {
	case !sized:
		return children.WaitingForReplicas(kind)
	case cmp.Compare(desired, actual) == when:
		return engine.Condition(kind, metav1.ConditionTrue, is, fmt.Sprintf("Scaling %s from %d to %d replicas", way, actual, desired))
	}
	return engine.Condition(kind, metav1.ConditionFalse, isNot, "")
}

// instanceLabels returns the labels of a pool's Machines and InfraMachines.
func instanceLabels(pool *contract.MachinePoolState) map[string]string {
	all := map[string]string{contract.PoolNameLabel: contract.LabelValue(pool.Key.Name)}
	if pool.ClusterName != "" {
		all[contract.ClusterNameLabel] = pool.ClusterName
	}
	return all
}

// counts are numbers of instances.
type counts struct {
	Ready, Available, UpToDate int32
	// NotReady are the names of Nodes, or Machines, that are not ready, and Outdated those that are not up to date, in their order.
	NotReady, Outdated []string
	// Again is the time after which one more becomes available without an event; zero when none does.
	Again time.Duration
}

// add counts one instance.
func (c *counts) add(name string, ready, available, upToDate bool) {
	if ready {
		c.Ready++
	} else {
		c.NotReady = append(c.NotReady, name)
	}
	if available {
		c.Available++
	}
	if upToDate {
		c.UpToDate++
	} else {
		c.Outdated = append(c.Outdated, name)
	}
}

// countNodes counts by the Nodes of the instances. A Node that is being deleted counts as not ready.
func countNodes(nodes []*corev1.Node, minReady time.Duration, version string, now time.Time) counts {
	var c counts
	for _, node := range nodes {
		ready, left := node.DeletionTimestamp == nil && noderef.Ready(node), time.Duration(0)
		if ready && minReady > 0 {
			left = max(0, readySince(node).Add(minReady).Sub(now))
		}
		c.Again = engine.Soonest(c.Again, left)
		c.add(node.Name, ready, ready && left == 0, contract.IsVersion(node.Status.NodeInfo.KubeletVersion, version))
	}
	return c
}

// readySince returns since when the condition Ready of a Node has its status; zero when the Node has never reported.
func readySince(node *corev1.Node) (at time.Time) {
	for i := range node.Status.Conditions {
		if c := &node.Status.Conditions[i]; c.Type == corev1.NodeReady {
			at = c.LastTransitionTime.Time
		}
	}
	return at
}

// countMachines counts by the conditions of the Machines of the instances, as Cluster API does.
func countMachines(machines []machine, nodes []*corev1.Node, version string) counts {
	var c counts
	kubelets := make(map[string]string, len(nodes))
	for _, node := range nodes {
		kubelets[node.Name] = node.Status.NodeInfo.KubeletVersion
	}
	for _, m := range machines {
		is := func(kind string) bool { return engine.HasStatus(m.State.Conditions, kind, metav1.ConditionTrue) }
		has := cmp.Or(kubelets[m.State.Node.Name], m.State.Version)
		c.add(m.Key.Name, is(contract.ConditionReady), is(contract.ConditionAvailable), m.Deleting.IsZero() && contract.IsVersion(has, version))
	}
	return c
}

// flush writes the pool at the end of a pass. A condition that changes to a problem for a person is a Warning event.
func flush(ctx context.Context, p *Scope, failed error) error {
	return p.Flush(ctx, engine.Writing{Observes: failed == nil && !p.Paused(), Problems: append(engine.Problems(), ReasonInstancesHeld)})
}

// statusStep sets counters, phase and conditions. The scale subresource returns the selector of the pool's Machines: the
// HorizontalPodAutoscaler does not scale a Scale without one. It is the same whether the provider creates Machines or not.
func statusStep(_ context.Context, p *Scope) (Result, error) {
	switch _, staged := engine.Find(p.Asserted, contract.ConditionDeleting); {
	case staged || p.Paused():
	case p.Deleting():
		p.Wait(contract.ReasonDeleting, "Deletion started")
	default:
		p.Assert(engine.Condition(contract.ConditionDeleting, metav1.ConditionFalse, contract.ReasonNotDeleting, ""))
	}
	if !p.nodesKnown && p.unread == (external.Problem{}) { // StepNodes has not run
		return Result{}, nil
	}
	engine.Set(&p.State.SelectorText, labels.Set(instanceLabels(&p.State)).String(), &p.Update.SelectorText) // sorted
	facts := p.statusFacts()
	engine.Set(&p.State.Phase, string(facts.phase().Phase), &p.Update.Phase)
	p.Assert(facts.conditions()...)
	p.sparesUnread()
	return Result{}, nil
}

// sparesUnread does not change conditions for a while when their objects cannot be read any more: a starting process can read nothing, and
// connections recover.
func (p *Scope) sparesUnread() {
	reasons := []string{
		contract.ReasonConnectionDown, contract.ReasonInspectionFailed, contract.ReasonInternalError, external.ReasonCacheNotSynced,
	}
	isUnread := func(c metav1.Condition) bool {
		return c.Status == metav1.ConditionUnknown && slices.Contains(reasons, c.Reason)
	}
	p.SpareUnread(isUnread, &p.mem().unread, p.env.options.ConnectionGrace)
}

// sumFailure sets the failure that is reported now, and reports whether there is one. It ends when no object reports one any more; while an
// object cannot be read, an earlier failure remains.
func (p *Scope) sumFailure() bool {
	f, unread := p.failure, slices.Contains([]external.Presence{p.bootstrap.Presence, p.infrastructure.Presence}, external.Unread)
	if f == (engine.Failure{}) && unread {
		f = engine.Failure{Reason: p.State.FailureReason, Message: p.State.FailureMessage}
	}
	engine.Set(&p.State.FailureReason, f.Reason, &p.Update.FailureReason)
	engine.Set(&p.State.FailureMessage, f.Message, &p.Update.FailureMessage)
	return f != (engine.Failure{})
}

// statusFacts counts, sets the counters, and records the Nodes.
func (p *Scope) statusFacts() statusFacts {
	f := statusFacts{
		Pool: &p.State, Desired: p.State.Replicas,
		Listed: int32(len(instanceIDs(p.State.ProviderIDs, p.env.options.Matching))), //nolint:gosec // memory limits the number
		Unread: p.unread, Known: p.nodesKnown, Instances: p.instances, Problems: p.problems, Failed: p.sumFailure(),
	}
	if !f.Desired.Found() && p.State.ReplicasManagedElsewhere() { // the other component's number is the desired one
		f.Desired = p.State.ObservedReplicas
		if p.infrastructure.Usable() {
			f.Desired = contract.Some(f.actual())
		}
	}
	if p.nodesKnown {
		c := countNodes(p.instances.in(here).nodes(), p.State.Template.MinReady.Or(0), p.State.Template.Version, p.Now)
		p.Requeue(c.Again)
		f.Counts = c
		engine.SetOpt(&p.State.NodeReadyReplicas, c.Ready, &p.Update.NodeReadyReplicas)
		engine.SetOpt(&p.State.NodeAvailableReplicas, c.Available, &p.Update.NodeAvailableReplicas)
		engine.SetOpt(&p.State.UnavailableReplicas, max(f.actual()-c.Available, 0), &p.Update.UnavailableReplicas)
		if refs := p.instances.refs(); !slices.Equal(refs, p.State.Nodes) {
			p.State.Nodes, p.Update.Nodes = refs, contract.SetTo(refs)
		}
	}
	if p.ledByMachines() {
		f.Known = f.Known && p.machines != nil
		if p.machines != nil {
			f.Counts = countMachines(p.machines.own, p.instances.in(here).nodes(), p.State.Template.Version)
		}
	}
	if f.Known {
		engine.SetOpt(&p.State.ReadyReplicas, f.Counts.Ready, &p.Update.ReadyReplicas)
		engine.SetOpt(&p.State.AvailableReplicas, f.Counts.Available, &p.Update.AvailableReplicas)
		engine.SetOpt(&p.State.UpToDateReplicas, f.Counts.UpToDate, &p.Update.UpToDateReplicas)
	}
	return f
}

// Reasons of the events that the reconciler records on a pool.
const (
	// EventNodeDrained: a Node was drained because its instance is leaving.
	EventNodeDrained = "SuccessfulDrainNode"
	// EventNodeDeleted: a Node was deleted because its instance is gone.
	EventNodeDeleted = "SuccessfulDeleteNode"
	// EventMachinesCreated and EventMachineDeleted are about Machines that represent instances.
	EventMachinesCreated = "SuccessfulCreate"
	EventMachineDeleted  = "SuccessfulDelete"
	// EventDrainFailed: a deletion continues without the drain of a Node or of all.
	EventDrainFailed = "FailedDrainNode"

	eventNodeUncordoned     = "NodeUncordoned"          // a Node was made schedulable again during its drain
	eventVolumesLeft        = "NodeVolumesLeftAttached" // volumes were not detached in time
	eventNodeDeletionFailed = "FailedDeleteNode"        // a deletion continues, and Nodes are left
)

// event records an event about a completed action of the pool.
func (p *Scope) event(reason, note string, args ...any) {
	p.Eventf(corev1.EventTypeNormal, reason, engine.ActionReconcile, note, args...)
}

// warn records an event about a failed action of the pool.
func (p *Scope) warn(reason, note string, args ...any) {
	p.Eventf(corev1.EventTypeWarning, reason, engine.ActionReconcile, note, args...)
}
