package machinepool

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
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
	// Leaving reports whether a Node of an instance is about to leave, Drained whether a Node was drained, and Listed whether the list of
	// instances as it was read names that of a Node: a Node also counts while that list is not believed.
	Leaving, Drained, Listed func(*corev1.Node) bool
	// CanDrain is false without a Drainer; Excluded: by annotation of the pool.
	CanDrain, Excluded bool
}

// takesBack reports whether a Node that is not about to leave says that it is, and its instance stays.
func (f *leavingFacts) takesBack(node *corev1.Node) bool {
	return (f.Drained(node) || hasMark(node)) && f.Listed(node)
}

// leavingPlan is what to do about them. Drains are in the order in which they are begun. Stay are Nodes that say that they were to
// leave, and do not. Release are Nodes that are not drained, for which what has marked them may wait.
type leavingPlan struct{ Drain, Delete, Stay, Release []*corev1.Node }

// planLeaving: the Node of an instance that is about to leave is drained. A Node whose instance has left is deleted, and drained before
// that while its kubelet still answers: the instance may still run, with its pods. A Node whose instance stays loses its marks: pods are
// scheduled to it again. An instance that is not listed may have ended, and its Node keeps them.
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
			if f.takesBack(node) {
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

// isListed returns a function that reports whether the list of instances names that of a Node.
func (p *Scope) isListed() func(*corev1.Node) bool {
	rules := p.env.options.Matching
	keys := sync.OnceValue(func() sets.Set[string] { return keysOf(p.listed, rules) }) // few Nodes are asked about, in few passes
	return func(node *corev1.Node) bool { return keys().Has(rules.Key(node.Spec.ProviderID)) }
}

// removeNodes drains the Nodes of instances that leave, deletes those whose instance has left, and removes the marks of those that stay.
func (p *Scope) removeNodes(ctx context.Context) error {
	if !p.actsOnNodes() {
		return nil
	}
	retired, unconfirmed := p.confirmRetired(ctx)
	plan := planLeaving(leavingFacts{
		Nodes: p.match.Nodes, Retired: retired, CanDrain: p.canDrain(), Excluded: p.isExcluded(),
		Leaving: p.env.options.Policy.Leaving, Drained: p.wasDrained, Listed: p.isListed(),
	})
	leaving, unread := p.withoutClaimed(ctx, plan.Drain)
	gone := uidsOf(retired)
	undrained := p.drain(ctx, leaving, time.Time{}, func(node *corev1.Node) error {
		if gone.Has(node.UID) {
			plan.Delete = append(plan.Delete, node)
			return nil
		}
		return p.sayDrained(ctx, node)
	})
	_, undeleted := p.deleteNodes(ctx, p.notBehind(plan.Delete))
	return errors.Join(unconfirmed, unread, undrained, undeleted, p.release(ctx, plan.Release), p.takeBack(ctx, plan.Stay))
}

// confirmRetired returns the Nodes whose instance has left the pool as the API server confirms: the first list of a process may be older
// than what the process before it has read.
func (p *Scope) confirmRetired(ctx context.Context) ([]*corev1.Node, error) {
	confirmed := p.mem().confirmed
	isNew := func(node *corev1.Node) bool { return !confirmed.Has(node.UID) }
	if !slices.ContainsFunc(p.match.Retired, isNew) {
		return p.match.Retired, nil
	}
	current, err := p.infrastructureIsCurrent(ctx)
	if !current {
		return slices.DeleteFunc(slices.Clone(p.match.Retired), isNew), err
	}
	for _, node := range p.match.Retired {
		confirmed.Insert(node.UID)
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

// release marks Nodes that are excluded from drains as drained: what has marked them may wait for that.
func (p *Scope) release(ctx context.Context, nodes []*corev1.Node) error {
	return p.eachNode(p.notBehind(nodes), func(node *corev1.Node) error { return p.sayDrained(ctx, node) })
}

// takeBack removes the marks of Nodes whose instances stay, and uncordons them. The API server confirms which instances leave: a provider
// may already have read that a Node was drained.
func (p *Scope) takeBack(ctx context.Context, nodes []*corev1.Node) error {
	known := p.infraRead || p.infrastructure.Presence == external.NotReferenced
	if nodes = p.notBehind(nodes); !known || len(nodes) == 0 {
		return nil
	}
	if current, err := p.infrastructureIsCurrent(ctx); err != nil || !current {
		return err
	}
	nodes = p.someNow(nodes)
	for _, node := range nodes {
		p.mem().drained.Delete(node.UID)
		p.mem().confirmed.Delete(node.UID)
	}
	return p.eachNode(nodes, func(node *corev1.Node) error {
		if !hasMark(node) {
			return nil // it was only remembered
		}
		return p.operate(ctx, node, takeBackPatch(node))
	})
}

// notBehind returns the Nodes that are as this process has written them.
func (p *Scope) notBehind(nodes []*corev1.Node) []*corev1.Node {
	return slices.DeleteFunc(slices.Clone(nodes), func(node *corev1.Node) bool { return p.env.frame.Writer.Behind(node) })
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

// wasDrained reports whether a Node was drained, as this process knows or its annotation says. The annotation of a Node that this process
// has written since may be one that it has removed. Where Nodes are drained, one that was uncordoned since is not: pods may be on it again.
func (p *Scope) wasDrained(node *corev1.Node) bool {
	if p.canDrain() && !node.Spec.Unschedulable {
		return false
	}
	says := node.Annotations[contract.DrainedAnnotation] == string(node.UID)
	return p.mem().drained.Has(node.UID) || says && !p.env.frame.Writer.Behind(node)
}
