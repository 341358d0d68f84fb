package machinepool

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/contract/external"
	"github.com/machinist-dev/machinist/contract/pass"
	"github.com/machinist-dev/machinist/drain/runner"
	"github.com/machinist-dev/machinist/noderef"
	"github.com/machinist-dev/machinist/noderef/workload"
)

// leavingFacts are the inputs of planLeaving.
type leavingFacts struct {
	// Nodes are those of instances, and Retired those whose instance has left.
	Nodes, Retired []*corev1.Node
	// Leaving reports whether a Node of an instance is about to leave, and Drained whether a Node was drained.
	Leaving, Drained func(*corev1.Node) bool
	// CanDrain is false without a Drainer; Excluded: by annotation of the pool.
	CanDrain, Excluded bool
}

// leavingPlan is what to do about them. Drains are in the order in which they are begun. Stay are Nodes that say that they were to
// leave, and do not. Release are Nodes that are not drained, and whose instances wait for that.
type leavingPlan struct{ Drain, Delete, Stay, Release []*corev1.Node }

// planLeaving: the Node of an instance that is about to leave is drained. A Node whose instance has left is deleted, and drained before
// that while its kubelet still answers: the instance may still run, with its pods. A Node whose instance stays loses its marks: pods are
// scheduled to it again.
func planLeaving(f leavingFacts) leavingPlan {
	var plan leavingPlan
	for _, node := range f.Retired {
		switch {
		case node.DeletionTimestamp != nil:
		case f.CanDrain && noderef.Ready(node) && !f.Drained(node):
			plan.Drain = append(plan.Drain, node)
		default:
			plan.Delete = append(plan.Delete, node)
		}
	}
	for _, node := range f.Nodes {
		switch {
		case node.DeletionTimestamp != nil:
		case !f.Leaving(node):
			if f.Drained(node) || hasMark(node) {
				plan.Stay = append(plan.Stay, node)
			}
		case f.CanDrain && !f.Drained(node):
			plan.Drain = append(plan.Drain, node)
		case f.Excluded && !f.Drained(node):
			plan.Release = append(plan.Release, node)
		}
	}
	return plan
}

// leavingIDs returns the instances that the provider reports as about to leave, by the keys of their IDs.
func leavingIDs(annotations map[string]string, rules noderef.Rules) map[string]struct{} {
	keys := map[string]struct{}{}
	for id := range strings.SplitSeq(annotations[contract.LeavingInstancesAnnotation], ",") {
		if key := rules.Key(strings.TrimSpace(id)); key != "" {
			keys[key] = struct{}{}
		}
	}
	return keys
}

// canDrain reports whether Nodes of this pool are drained at all.
func (p *Scope) canDrain() bool {
	return p.workload.Drainer != nil && !p.env.options.Policy.NoDrain && !p.isExcluded()
}

// isExcluded reports whether an annotation of the pool excludes its Nodes from drains.
func (p *Scope) isExcluded() bool {
	_, excluded := p.State.Annotations[contract.ExcludeDrain]
	return excluded
}

// wasDrained reports whether a Node was drained, as its annotation says or this process knows.
func (p *Scope) wasDrained(node *corev1.Node) bool {
	_, known := p.mem().drained[node.UID]
	return known || node.Annotations[contract.DrainedAnnotation] == string(node.UID)
}

// removeNodes drains the Nodes of instances that leave, deletes those whose instance has left, and removes the marks of those that stay.
func (p *Scope) removeNodes(ctx context.Context) error {
	if !p.actsOnNodes() {
		return nil
	}
	retired, err := p.confirmRetired(ctx)
	facts := leavingFacts{
		Nodes: p.match.Nodes, Retired: retired, Drained: p.wasDrained, CanDrain: p.canDrain(), Excluded: p.isExcluded(), Leaving: p.isLeaving(),
	}
	plan := planLeaving(facts)
	var unread error
	plan.Drain, unread = p.withoutClaimed(ctx, plan.Drain)
	err = errors.Join(err, unread)
	gone := make(map[types.UID]struct{}, len(retired))
	for _, node := range retired {
		gone[node.UID] = struct{}{}
	}
	err = errors.Join(err, p.drain(ctx, plan.Drain, time.Time{}, func(node *corev1.Node) error {
		if _, left := gone[node.UID]; left {
			plan.Delete = append(plan.Delete, node)
			return nil
		}
		return p.sayDrained(ctx, node)
	}))
	_, deleted := p.deleteNodes(ctx, plan.Delete)
	return errors.Join(err, p.release(ctx, plan.Release), deleted, p.takeBack(ctx, plan.Stay))
}

// release marks Nodes that are excluded from drains as drained: a provider that has named their instances waits for that.
func (p *Scope) release(ctx context.Context, nodes []*corev1.Node) error {
	return p.each(len(nodes), func(i int) error {
		if p.env.frame.Writer.Behind(nodes[i]) {
			return nil
		}
		return p.sayDrained(ctx, nodes[i])
	})
}

// confirmRetired returns the Nodes whose instance has left the pool as the API server confirms: the first list of a process may be older
// than what the process before it has read.
func (p *Scope) confirmRetired(ctx context.Context) ([]*corev1.Node, error) {
	confirmed := p.mem().confirmed
	isNew := func(node *corev1.Node) bool {
		_, known := confirmed[node.UID]
		return !known
	}
	if !slices.ContainsFunc(p.match.Retired, isNew) {
		return p.match.Retired, nil
	}
	current, err := p.infrastructureIsCurrent(ctx)
	if !current {
		return slices.DeleteFunc(slices.Clone(p.match.Retired), isNew), err
	}
	for _, node := range p.match.Retired {
		confirmed[node.UID] = struct{}{}
	}
	return p.match.Retired, nil
}

// infrastructureIsCurrent asks the API server whether the InfraMachinePool is as this pass has read it from the cache. If it is not, its
// event is on the way.
func (p *Scope) infrastructureIsCurrent(ctx context.Context) (bool, error) {
	read := p.infrastructure.Object
	if read == nil {
		return p.infrastructure.Presence == external.NotReferenced, nil
	}
	obj := &metav1.PartialObjectMetadata{}
	obj.SetGroupVersionKind(p.infrastructure.GVK)
	err := p.env.frame.Ports.APIReader.Get(ctx, client.ObjectKeyFromObject(read), obj)
	if err != nil && !external.SaysGone(err) {
		return false, fmt.Errorf("make sure of %s %s: %w", p.infrastructure.Ref.Kind, p.infrastructure.Ref.Name, err)
	}
	current := err == nil && obj.UID == read.GetUID() && obj.ResourceVersion == read.GetResourceVersion()
	if !current {
		p.Requeue(external.AbsenceRetry)
	}
	return current, nil
}

// isLeaving returns a function that reports whether a Node is about to leave, by the provider's list or by its own mark.
func (p *Scope) isLeaving() func(*corev1.Node) bool {
	rules, marked := p.env.options.Matching, p.env.options.Policy.Leaving
	var listed map[string]struct{}
	if p.infrastructure.Object != nil {
		listed = leavingIDs(p.infrastructure.Object.GetAnnotations(), rules)
	}
	return func(node *corev1.Node) bool {
		_, leaves := listed[rules.Key(node.Spec.ProviderID)]
		return leaves || marked(node)
	}
}

// deleteNodes deletes Nodes that no deletion was asked for yet, and reports whether any of these was refused: a conflict is no error.
func (p *Scope) deleteNodes(ctx context.Context, nodes []*corev1.Node) (refused bool, err error) {
	asked := p.mem().asked
	nodes = slices.DeleteFunc(slices.Clone(nodes), func(node *corev1.Node) bool {
		_, already := asked[node.UID]
		return already || node.DeletionTimestamp != nil
	})
	nodes = byRefusal(nodes, p.mem().refused)
	if len(nodes) > maxNodeWrites {
		nodes = nodes[:maxNodeWrites]
		p.Requeue(atOnce)
	}
	err = p.eachNode(nodes, func(node *corev1.Node) error { return p.deleteNode(ctx, node) })
	var names []string
	for _, node := range nodes {
		if _, failed := p.mem().refused[node.UID]; !failed {
			asked[node.UID] = struct{}{}
			names = append(names, node.Name)
		}
	}
	if len(names) > 0 {
		p.Eventf(corev1.EventTypeNormal, EventNodeDeleted, pass.ActionReconcile, "%s", pass.Named(names))
	}
	return len(names) < len(nodes), err
}

// drain continues drains. All Nodes are cordoned first, so that no pod moves from one leaving Node to another; then a few are drained at a
// time, and a Node that is stuck gives its turn to another one that waits. With a zero start each Node has a limit of its own, which counts
// from its first turn. It calls done for Nodes that are drained, or whose limit is reached.
func (p *Scope) drain(ctx context.Context, nodes []*corev1.Node, start time.Time, done func(*corev1.Node) error) error {
	mem, patience := p.mem(), p.env.options.Policy.StuckAfter
	keep := make(map[string]struct{}, p.env.options.Policy.MaxDraining)
	nodes = inTurn(nodes, mem.turns, p.isExpired(start), patience, p.Now)
	begin := 0
	if start.IsZero() {
		begin = p.env.options.Policy.MaxDraining
	}
	err := p.cordon(ctx, nodes, begin)
	for _, node := range nodes {
		if len(keep) == p.env.options.Policy.MaxDraining {
			break
		}
		keep[node.Name] = struct{}{}
		if !node.Spec.Unschedulable {
			continue // its event is on the way
		}
		over, stepErr := p.step(ctx, node, start)
		if stepErr == nil && over {
			if stepErr = done(node); stepErr == nil { // otherwise it is done again
				mem.drained[node.UID] = struct{}{}
				delete(keep, node.Name)
			}
		}
		if errors.Is(stepErr, errAgain) || workload.IsUnread(stepErr) {
			p.Requeue(pass.ConflictRetry)
			stepErr = nil
		}
		err = errors.Join(err, stepErr)
	}
	mem.release(keep)
	p.Requeue(mem.passOn(nodes, keep, patience, p.Now))
	return err
}

// isExpired returns a function that reports whether the limit of a Node's drain is reached, whether or not it has a turn now.
func (p *Scope) isExpired(start time.Time) func(*corev1.Node) bool {
	limit := p.drainLimit()
	return func(node *corev1.Node) bool {
		began := start
		if began.IsZero() {
			began = p.mem().turns[node.UID].Began
		}
		if at, err := time.Parse(time.RFC3339, node.Annotations[contract.DrainStartedAnnotation]); err == nil && start.IsZero() {
			began = at
		}
		return reached(began, limit, p.Now)
	}
}

// drainLimit returns how long the drain of a Node may take, zero for no limit. A drain policy that gives up sets a limit too.
func (p *Scope) drainLimit() time.Duration {
	limit, gives := p.State.Template.NodeDrainTimeout.Or(0), p.env.options.Policy.DrainPolicy.AbandonsAfter()
	if limit <= 0 || (gives > 0 && gives < limit) {
		return gives
	}
	return limit
}

// step continues the drain of one Node, and reports whether it is over.
func (p *Scope) step(ctx context.Context, node *corev1.Node, start time.Time) (bool, error) {
	drainer, policy := p.workload.Drainer, p.env.options.Policy
	since := p.mem().takes(node.UID, p.Now)
	p.mem().drains(drainer, node.Name)
	limit := p.drainLimit()
	if start.IsZero() {
		var err error
		if start, err = p.begun(ctx, node, since, limit); err != nil {
			return false, err
		}
	}
	if limit > 0 && !p.Now.Before(start.Add(limit)) {
		p.Eventf(corev1.EventTypeWarning, EventDrainFailed, pass.ActionReconcile,
			"Node %s was not drained within %s: going on without", node.Name, limit)
		return true, nil
	}
	result, err := drainer.Step(ctx, runner.Request{
		Node: node, Owner: p.State.Key, Rules: policy.DrainRules, Policy: policy.DrainPolicy, StartedAt: start,
	})
	if err != nil {
		return false, fmt.Errorf("drain Node %s: %w", node.Name, err)
	}
	p.mem().turns[node.UID] = p.mem().turns[node.UID].steps(result.Counts, p.Now)
	gone := result.Abandoned
	if gone {
		p.Eventf(corev1.EventTypeWarning, EventDrainFailed, pass.ActionReconcile,
			"Node %s was not drained: given up by the drain policy: going on without", node.Name)
	}
	if result.Done {
		gone, err = p.volumesGone(ctx, node)
	}
	if gone && result.Done {
		p.Eventf(corev1.EventTypeNormal, EventNodeDrained, pass.ActionReconcile, "success draining Node %s", node.Name)
	}
	if gone || err != nil {
		return gone, err
	}
	p.Requeue(result.RequeueAfter)
	if limit > 0 {
		p.Requeue(max(start.Add(limit).Sub(p.Now), time.Second))
	}
	return false, nil
}

// volumesGone reports whether a Node without pods has no volume to wait for: when an instance is deleted with a volume attached, the pods'
// replacements wait for that volume for minutes. Rule: Cluster API's Machine controller.
func (p *Scope) volumesGone(ctx context.Context, node *corev1.Node) (bool, error) {
	_, excluded := p.State.Annotations[contract.ExcludeVolumeDetach]
	if excluded || p.workload.Volumes == nil {
		return true, nil
	}
	limit := p.State.Template.NodeVolumeDetachTimeout.Or(0)
	began := p.mem().detaches(p.workload.Volumes, node.Name, p.Now)
	if reached(began, limit, p.Now) { // whether volumes can be read or not
		p.Eventf(corev1.EventTypeWarning, EventVolumesLeft, pass.ActionReconcile,
			"Volumes of Node %s were not detached within %s: going on without", node.Name, limit)
		return true, nil
	}
	result, err := p.workload.Volumes.StepVolumes(ctx, runner.VolumeRequest{
		Node: node, Owner: p.State.Key, Rules: p.env.options.Policy.DrainRules, StartedAt: began, Timeout: limit,
	})
	p.requeueAt(began, limit)
	message := result.Message
	if err != nil {
		message = pass.Bounded("* "+err.Error(), pass.MaxNoteLength)
		err = fmt.Errorf("wait for the volumes of Node %s: %w", node.Name, err)
	}
	if err != nil || !result.Done {
		if p.attached == nil {
			p.attached = map[string]string{}
		}
		p.attached[node.Name] = message
		p.Requeue(result.RequeueAfter)
	}
	return result.Done && err == nil, err
}

// detaches records that volumes of a Node are waited for, and returns since when.
func (r *recollection) detaches(v workload.Volumes, node string, now time.Time) time.Time {
	r.volumes = v
	if _, known := r.detaching[node]; !known {
		r.detaching[node] = now
	}
	return r.detaching[node]
}
