package machinepool

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/contract/external"
	"github.com/machinist-dev/machinist/contract/pass"
	"github.com/machinist-dev/machinist/noderef/cluster"
	"github.com/machinist-dev/machinist/noderef/propagate"
	"github.com/machinist-dev/machinist/noderef/workload"
)

const (
	// claimedRetry is when a pool looks again at Nodes that another pool claims too: the other's events do not wake it.
	claimedRetry = 30 * time.Second
	// maxNodeWrites bounds how many Nodes one pass writes, so that counters are not held up by a burst of Nodes that join.
	maxNodeWrites = 100
	// atOnce asks for a pass right after this one.
	atOnce = time.Millisecond
)

// observeNodes finds the pool's Nodes, and records since when they cannot be read.
func (p *Scope) observeNodes(ctx context.Context) error {
	err := p.lookForNodes(ctx)
	p.mem().sees(p.nodesKnown, p.Now)
	if p.nodesKnown {
		p.forgetGone(p.mem())
	}
	return err
}

// forgetGone limits the memory to existing objects: Nodes and Machines come and go as long as a pool exists.
func (p *Scope) forgetGone(mem *recollection) {
	if len(mem.asked)+len(mem.drained)+len(mem.confirmed)+len(mem.refused) == 0 || (p.env.kinds.makesMachines() && p.machines == nil) {
		return
	}
	objects, retired := map[types.UID]struct{}{}, map[types.UID]struct{}{}
	for _, node := range p.match.Nodes {
		objects[node.UID] = struct{}{}
	}
	for _, node := range p.match.Retired {
		objects[node.UID], retired[node.UID] = struct{}{}, struct{}{}
	}
	for _, e := range []external.Object{p.bootstrap, p.infrastructure} {
		if e.Object != nil {
			objects[e.Object.GetUID()] = struct{}{}
		}
	}
	if p.machines != nil {
		for uid := range p.machines.objects {
			objects[uid] = struct{}{}
		}
	}
	mem.keep(objects, retired)
}

// lookForNodes finds the pool's Nodes. Nodes that cannot be read are no error: an event tells when they can.
func (p *Scope) lookForNodes(ctx context.Context) error {
	key := p.env.clusterOf(&p.State)
	var err error
	p.workload, err = p.env.workloads.Of(key)
	if err != nil || !p.workload.Nodes.HasSynced() {
		p.unread = unreadProblem(key, err)
		p.holdsUnread()
		if err == nil || workload.IsUnread(err) {
			p.Requeue(claimedRetry) // a safety net
			return nil
		}
		return fmt.Errorf("read the Nodes of %s %s: %w", p.env.kinds.Pool.GVK.Kind, p.State.Key, err)
	}
	facts := matchFacts{
		Pool: p.State.Key, IDs: p.ids, Complete: p.complete || p.Deleting(), Recorded: p.State.Nodes, Nodes: p.workload.Nodes,
		Rules: p.env.options.Matching,
	}
	others, err := p.env.claimsIn(ctx, key, p.State.Key)
	if err != nil {
		p.unread = unreadProblem(key, err)
		p.holdsUnread()
		return err
	}
	if others != nil {
		facts.Claims = others
	}
	p.match = matchNodes(facts)
	p.holdsList(facts)
	if err := p.spareClaimed(ctx); err != nil || others.failed() != nil {
		err = errors.Join(err, others.failed())
		p.match, p.unread = matching{}, unreadProblem(key, err)
		p.holdsUnread()
		return err // a Node whose claims are not known must not be taken
	}
	if len(p.match.Claimed) > 0 {
		p.Requeue(claimedRetry)
	}
	if p.env.options.Policy.KeepRetired {
		p.match.Retired = nil
	}
	p.nodesKnown = true
	p.confirmMissed(ctx)
	return nil
}

// unreadProblem returns the reason and message of conditions about Nodes that cannot be read.
func unreadProblem(key types.NamespacedName, err error) external.Problem {
	problem := external.Problem{Reason: contract.ReasonInspectionFailed, Message: workload.Unread(key, err)}
	switch {
	case err == nil:
	case errors.Is(err, cluster.ErrNotConnected):
		problem.Reason = contract.ReasonConnectionDown
	case !workload.IsUnread(err):
		return external.Problem{Reason: contract.ReasonInternalError, Message: pass.SeeLogs}
	}
	return problem
}

// actsOnNodes reports whether the pool writes, drains and deletes Nodes itself. Where Machines represent the instances, the Machine
// controller does that.
func (p *Scope) actsOnNodes() bool { return p.nodesKnown && !p.ledByMachines() }

// propagate sends each Node that lacks something one patch, which only applies to the Node that was read.
func (p *Scope) propagate(ctx context.Context) error {
	if !p.actsOnNodes() {
		return nil
	}
	desired := p.desired()
	var changed []*corev1.Node
	patches := map[types.UID]propagate.Patch{}
	for _, node := range byRefusal(p.match.Nodes, p.mem().refused) {
		if node.DeletionTimestamp != nil {
			continue
		}
		patch, differs := p.env.options.Propagation.Diff(node, desired)
		if !differs || p.env.frame.Writer.Behind(node) {
			continue
		}
		if len(changed) == maxNodeWrites {
			p.Requeue(atOnce)
			break
		}
		changed = append(changed, node)
		patches[node.UID] = patch
	}
	return p.eachNode(changed, func(node *corev1.Node) error {
		return p.patchNode(ctx, node, types.JSONPatchType, patches[node.UID].JSON())
	})
}

// byRefusal puts Nodes whose writes were refused behind the others, the one that was refused last at the end: a pass writes some of
// them, and those that are refused must not hold up the rest.
func byRefusal(nodes []*corev1.Node, refused map[types.UID]time.Time) []*corev1.Node {
	if len(refused) == 0 {
		return nodes
	}
	return slices.SortedStableFunc(slices.Values(nodes), func(a, b *corev1.Node) int { return refused[a.UID].Compare(refused[b.UID]) })
}

// eachNode writes Nodes, a few of them at the same time, and remembers those whose writes were refused.
func (p *Scope) eachNode(nodes []*corev1.Node, do func(*corev1.Node) error) error {
	ok := make([]bool, len(nodes))
	err := p.each(len(nodes), func(i int) error {
		err := do(nodes[i])
		ok[i] = err == nil
		return err
	})
	for i, node := range nodes {
		if ok[i] {
			delete(p.mem().refused, node.UID)
		} else {
			p.mem().refused[node.UID] = p.Now
		}
	}
	return err
}

// desired returns what the pool propagates to its Nodes: the values of its template.
func (p *Scope) desired() propagate.Desired {
	template := &p.State.Template
	d := propagate.Desired{
		Labels: template.Labels, Annotations: template.Annotations,
		Owner: propagate.Owner{
			Namespace: p.State.Key.Namespace, Cluster: p.State.ClusterName,
			ControllerKind: p.env.kinds.Pool.GVK.Kind, ControllerName: p.State.Key.Name,
		},
	}
	for _, t := range template.Taints {
		d.Taints = append(d.Taints, propagate.Taint{
			Taint:       corev1.Taint{Key: t.Key, Value: t.Value, Effect: corev1.TaintEffect(t.Effect)},
			Propagation: propagate.Propagation(t.Propagation),
		})
	}
	return d
}

// patchNode writes a Node. A Node that changed since it was read is reconciled again on its event.
func (p *Scope) patchNode(ctx context.Context, node *corev1.Node, kind types.PatchType, body []byte) error {
	target := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node.Name}}
	err := p.workload.Client.Patch(ctx, target, client.RawPatch(kind, body))
	switch {
	case err == nil:
		p.env.frame.Writer.Wrote(target)
		return nil
	case external.SaysGone(err):
		return nil // its event is on the way
	case propagate.Rejected(err), apierrors.IsConflict(err), workload.IsUnread(err):
		return errAgain
	}
	return fmt.Errorf("write Node %s: %w", node.Name, err)
}

// errAgain means that a Node must be read again soon. No pass returns it.
var errAgain = errors.New("the Node is not as it was read")

// deleteNode requests the deletion of the Node that was read, by its UID.
func (p *Scope) deleteNode(ctx context.Context, node *corev1.Node) error {
	uid := node.UID
	err := p.workload.Client.Delete(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node.Name}}, client.Preconditions{UID: &uid})
	if apierrors.IsConflict(err) {
		return errAgain
	}
	if err != nil && !external.SaysGone(err) {
		return fmt.Errorf("delete Node %s: %w", node.Name, err)
	}
	return nil
}

// each calls a function for several objects, for a few of them at the same time, and joins the errors in the order of the objects.
func (p *Scope) each(n int, do func(i int) error) error {
	errs := make([]error, n)
	next := make(chan int)
	var running sync.WaitGroup
	for range min(n, p.env.options.Parallel) {
		running.Go(func() {
			for i := range next {
				errs[i] = do(i)
			}
		})
	}
	for i := range n {
		next <- i
	}
	close(next)
	running.Wait()
	for i, err := range errs {
		if errors.Is(err, errAgain) {
			p.Requeue(pass.ConflictRetry)
			errs[i] = nil
		}
	}
	return errors.Join(errs...)
}
