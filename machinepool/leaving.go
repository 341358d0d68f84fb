package machinepool

import (
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/internal/engine"
	"github.com/machinist-dev/machinist/internal/external"
	"github.com/machinist-dev/machinist/noderef"
	"github.com/machinist-dev/machinist/noderef/cluster"
	"github.com/machinist-dev/machinist/noderef/propagate"
)

// act is the action for an instance and its Node in a pool that is not being deleted.
type act uint8

const (
	// noAction: the instance stays as it is.
	noAction act = iota
	// servesAgain: the marks are removed from the Node, and it is uncordoned if the pool cordoned it, because its instance stays.
	servesAgain
	// isMachines: the instance is leaving, and the controller of the Machine that claims its Node does the rest.
	isMachines
	// drains: the Node is drained. marksDrained: it is marked as drained without a drain. deletes: it is deleted.
	drains
	marksDrained
	deletes
	// deleting: the Node is being deleted.
	deleting
)

// leavingFacts are the facts for the decisions about all instances.
type leavingFacts struct {
	// Leaving reports whether the instance of a Node is leaving; Drained reports whether a Node was drained.
	Leaving, Drained func(*corev1.Node) bool
	// Listed: the counted instances are those that the provider lists.
	Listed bool
	// CanDrain is false without a Drainer. Excluded: an annotation of the pool excludes drains.
	CanDrain, Excluded bool
}

func (f leavingFacts) decide(one instance) act {
	switch {
	case one.State == here:
		return f.decideListed(one.Node, one.OfMachine)
	case one.State == retired && !one.OfMachine: // a Machine's controller handles its Node, even if the pool no longer records it
		return f.decideRetired(one.Node)
	}
	return noAction // it has no Node, or one that the pool must not touch
}

// decideListed decides about a listed instance: the Node of a leaving one is drained. If drains are excluded it is marked as drained at
// once, because the program that marked it may wait for that.
func (f leavingFacts) decideListed(node *corev1.Node, ofMachine bool) act {
	switch leaves := f.Leaving(node); {
	case node.DeletionTimestamp != nil:
	case !leaves && f.Listed && hasMark(node):
		return servesAgain
	case !leaves || f.Drained(node) || !f.CanDrain && !f.Excluded:
	case ofMachine:
		return isMachines
	case f.CanDrain:
		return drains
	default:
		return marksDrained
	}
	return noAction
}

// decideRetired decides about an instance that is no longer listed: its Node is deleted. It is drained before that while its kubelet still
// responds, because the instance may still run, with its pods.
func (f leavingFacts) decideRetired(node *corev1.Node) act {
	switch {
	case node.DeletionTimestamp != nil:
		return deleting
	case f.CanDrain && noderef.Ready(node) && !f.Drained(node):
		return drains
	}
	return deletes
}

// removeNodes drains the Nodes of leaving instances, deletes Nodes whose instance is no longer listed, and removes the marks of those that
// stay. The API server confirms the list of instances first: the first list of a process may be older than the one that an earlier process
// has read, and a provider may already have read that a Node was drained.
func (p *Scope) removeNodes(ctx context.Context) error {
	if !p.nodesKnown {
		return nil
	}
	facts := leavingFacts{
		Leaving: p.env.options.Policy.Leaving, Drained: p.wasDrained, CanDrain: p.canDrain(), Excluded: p.excludes(contract.ExcludeDrain),
		Listed: p.complete || p.infrastructure.Presence == external.NotReferenced,
	}
	nodes := map[act][]*corev1.Node{}
	for _, one := range p.instances {
		do := facts.decide(one)
		nodes[do] = append(nodes[do], one.Node)
	}
	defer p.reportLeaving(nodes)
	if len(nodes[servesAgain])+len(p.instances.in(retired).free()) > 0 {
		if current, err := p.infrastructureIsCurrent(ctx); err != nil || !current {
			return err
		}
	}
	_, undrained := p.drain(ctx, nodes[drains])
	return errors.Join(undrained, p.deleteNodes(ctx, nodes[deletes]),
		p.eachNode(nodes[marksDrained], func(node *corev1.Node) error { return p.markDrained(ctx, node) }),
		p.eachNode(nodes[servesAgain], func(node *corev1.Node) error { return p.removeMarks(ctx, node) }))
}

// reportLeaving adds the reasons that leaving Nodes wait for to the problems of the pass.
func (p *Scope) reportLeaving(nodes map[act][]*corev1.Node) {
	namesOf := func(do act) []string { return mapped(nodes[do], (*corev1.Node).GetName) }
	p.problems.add(contract.ReasonNotReady, "With a Node that is being drained", namesOf(drains), p.waiting)
	p.problems.add(contract.ReasonNotReady, "With a Node that is being deleted", namesOf(deleting), "")
	if !p.ledByMachines() {
		p.problems.add(contract.ReasonNodeClaimed, "With a Node that is to leave and that a Machine claims", namesOf(isMachines),
			"; let each instance be in the pool or have a Machine")
	}
}

// infrastructureIsCurrent confirms with the API server that the InfraMachinePool is as this pass has read it from the cache. Otherwise an
// event will follow.
func (p *Scope) infrastructureIsCurrent(ctx context.Context) (bool, error) {
	read := p.infrastructure.Object
	if read == nil {
		return p.infrastructure.Presence == external.NotReferenced, nil
	}
	live, err := external.ConfirmSame(ctx, p.env.frame.Ports.APIReader, p.infrastructure.GVK, p.key(read.GetName()), read.GetUID())
	current := live != nil && live.ResourceVersion == read.GetResourceVersion()
	if err == nil && !current {
		p.Requeue(external.AbsenceRetry)
	}
	return current, err
}

// canDrain reports whether Nodes of this pool are drained at all.
func (p *Scope) canDrain() bool {
	return p.workload.Drainer != nil && !p.excludes(contract.ExcludeDrain)
}

// excludes reports whether an annotation of the pool excludes its Nodes from drains, or from waits for their volumes.
func (p *Scope) excludes(key string) bool {
	_, excluded := p.State.Annotations[key]
	return excluded
}

// wasDrained reports whether a Node is marked as drained. A mark on a Node that this process has written since does not count, because the
// write may have removed it. If Nodes are drained, a Node that was uncordoned since does not count either, because it may have pods again.
func (p *Scope) wasDrained(node *corev1.Node) bool {
	return (node.Spec.Unschedulable || !p.canDrain()) && !p.env.frame.Writer.Behind(node) &&
		isMarkedDrained(node)
}

// propagate sends each Node that lacks values of the template one patch, which applies only to the version that was read. If Machines
// represent the instances, the Machine controller does that.
func (p *Scope) propagate(ctx context.Context) error {
	if !p.nodesKnown || p.ledByMachines() {
		return nil
	}
	template := &p.State.Template
	desired := propagate.Desired{
		Labels: template.Labels, Annotations: template.Annotations, Taints: engine.NodeTaints(template.Taints),
		Owner: propagate.Owner{
			Namespace: p.State.Key.Namespace, Cluster: p.State.ClusterName,
			ControllerKind: p.env.kinds.Pool.GVK.Kind, ControllerName: p.State.Key.Name,
		},
	}
	return p.eachNode(p.instances.in(here).nodes(), func(node *corev1.Node) error {
		patch, differs := p.env.options.Propagation.Diff(node, desired)
		if !differs || node.DeletionTimestamp != nil || p.env.frame.Writer.Behind(node) {
			return nil
		}
		return p.workload.PatchNode(ctx, p.env.frame.Writer, node, types.JSONPatchType, patch.JSON())
	})
}

// eachNode calls a function for several Nodes.
func (p *Scope) eachNode(nodes []*corev1.Node, do func(*corev1.Node) error) error {
	_, err := each(p, nodes, do)
	return err
}

// deleteNodes deletes Nodes. In a pool that is not being deleted, a Node is deleted only in the version that was read: its kubelet may
// respond again, or another process may have uncordoned it.
func (p *Scope) deleteNodes(ctx context.Context, nodes []*corev1.Node) error {
	staying := slices.DeleteFunc(slices.Clone(nodes), func(node *corev1.Node) bool { return node.DeletionTimestamp != nil })
	deleted, err := each(p, staying, func(node *corev1.Node) error {
		return deleteOne(ctx, p.workload.Client, "Node "+node.Name, node, !p.Deleting())
	})
	if len(deleted) > 0 {
		p.event(EventNodeDeleted, "%s", engine.Named(mapped(deleted, (*corev1.Node).GetName)))
	}
	return err
}

// deleteOne requests the deletion of an object by its UID. asRead: only in the version that was read. The error for an object that is gone
// matches engine.ErrStale.
func deleteOne(ctx context.Context, c client.Client, name string, obj client.Object, asRead bool) error {
	only := client.Preconditions{UID: new(obj.GetUID())}
	if asRead {
		only.ResourceVersion = new(obj.GetResourceVersion())
	}
	err := c.Delete(ctx, obj, only)
	switch {
	case external.IsGone(err):
		return engine.ErrStale
	case err != nil:
		return fmt.Errorf("delete %s: %w", name, err)
	}
	return nil
}

// isOld reports whether an error only means that an object has changed, and must be read again soon.
func isOld(err error) bool {
	return engine.IsStale(err) || errors.Is(err, cluster.ErrNodeChanged)
}

// each calls a function for several objects, and returns those for which it succeeds. After an error that only means that an object must be
// read again, it requests another pass. It ends after a request that timed out, because each further one could take as long.
func each[T any](p *Scope, all []T, do func(T) error) (done []T, failed error) {
	for _, one := range all {
		err := do(one)
		switch {
		case err == nil:
			done = append(done, one)
		case isOld(err):
			p.Requeue(engine.ConflictRetry)
		default:
			failed = errors.Join(failed, err)
		}
		if utilnet.IsTimeout(err) {
			break
		}
	}
	return done, failed
}

// mapped returns the results of a function for each object, in order.
func mapped[T, R any](all []T, of func(T) R) []R {
	some := make([]R, 0, len(all))
	for _, one := range all {
		some = append(some, of(one))
	}
	return some
}
