package machinepool

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/internal/external"
	"github.com/machinist-dev/machinist/machineset/scale"
	"github.com/machinist-dev/machinist/noderef"
)

// DeleteMachineAnnotation of a Machine, and here of a Node too, marks what is deleted first. It is scale.DeleteAnnotation, Cluster API's.
const DeleteMachineAnnotation = scale.DeleteAnnotation

// MarkedLeaving reports whether a Node has DeleteMachineAnnotation, or one of marks, with any value. marks are those of scale.Marks for the
// API group of the pool.
func MarkedLeaving(node *corev1.Node, marks ...string) bool {
	return scale.Marked(node.Annotations, marks...)
}

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
// leave, and do not. Release are Nodes that are not drained, for which what has marked them may wait.
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
			if hasMark(node) {
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

// removeNodes drains the Nodes of instances that leave, deletes those whose instance has left, and removes the marks of those that stay.
// The API server confirms which instances are listed: the first list of a process may be older than what the process before it has read,
// and a provider may already have read that a Node was drained.
func (p *Scope) removeNodes(ctx context.Context) error {
	if !p.nodesKnown {
		return nil
	}
	retired := p.match.free(p.match.Retired)
	plan := planLeaving(leavingFacts{
		Nodes: p.match.Nodes, Retired: retired, CanDrain: p.canDrain(), Excluded: p.isExcluded(),
		Leaving: p.env.options.Policy.Leaving, Drained: p.wasDrained,
	})
	if !p.complete && p.infrastructure.Presence != external.NotReferenced { // the instances that are counted may not be those that are listed
		plan.Stay = nil
	}
	if len(retired)+len(plan.Stay) > 0 {
		if current, err := p.infrastructureIsCurrent(ctx); err != nil || !current {
			return err
		}
	}
	for _, node := range plan.Drain {
		if p.match.taken.Has(node.Name) && !p.ledByMachines() {
			p.match.OfMachines = append(p.match.OfMachines, node.Name)
			p.Requeue(claimedRetry)
		}
	}
	_, undrained := p.drain(ctx, p.match.free(plan.Drain))
	return errors.Join(undrained, p.deleteNodes(ctx, plan.Delete),
		// what has marked them may wait for that
		p.eachNode(p.match.free(plan.Release), func(node *corev1.Node) error { return p.sayDrained(ctx, node) }),
		p.eachNode(plan.Stay, func(node *corev1.Node) error { return p.removeMarks(ctx, node) }))
}

// represent reports whether an InfraMachine represents the instance of a Node: it gets a Machine, or has one.
func (m *machines) represent(node *corev1.Node, rules noderef.Rules) bool {
	if m == nil {
		return false
	}
	for _, infra := range m.infra {
		if id, _, _ := unstructured.NestedString(infra.Object, "spec", "providerID"); rules.Same(id, node.Spec.ProviderID) {
			return true
		}
	}
	return false
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

// canDrain reports whether Nodes of this pool are drained at all.
func (p *Scope) canDrain() bool {
	return p.workload.Drainer != nil && !p.isExcluded()
}

// isExcluded reports whether an annotation of the pool excludes its Nodes from drains.
func (p *Scope) isExcluded() bool {
	_, excluded := p.State.Annotations[contract.ExcludeDrain]
	return excluded
}

// wasDrained reports whether a Node says that it was drained. What a Node says that this process has written since may be what it has
// removed. Where Nodes are drained, one that was uncordoned since is not drained: pods may be on it again.
func (p *Scope) wasDrained(node *corev1.Node) bool {
	return (node.Spec.Unschedulable || !p.canDrain()) && !p.env.frame.Writer.Behind(node) &&
		marksDrained(node)
}
