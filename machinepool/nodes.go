package machinepool

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	utilnet "k8s.io/apimachinery/pkg/util/net"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/internal/engine"
	"github.com/machinist-dev/machinist/internal/external"
	"github.com/machinist-dev/machinist/machineset/scale"
	"github.com/machinist-dev/machinist/noderef"
	"github.com/machinist-dev/machinist/noderef/cluster"
)

// claimedRetry is the delay before Nodes that another pool or a Machine claims too are checked again: the other's events wake no pool. The
// same goes for a list of instances that is held.
const claimedRetry = 30 * time.Second

// observeNodes finds the pool's Nodes, and records since when they cannot be read. Nodes that cannot be read are not an error: an event
// follows when they can.
func (p *Scope) observeNodes(ctx context.Context) error {
	key := p.env.clusterOf(&p.State)
	synced, err := p.lookForNodes(ctx, key)
	if p.nodesKnown = synced && err == nil; p.nodesKnown {
		p.confirmMissed(ctx)
		p.forgetRequests()
	} else {
		p.instances, p.unread = nil, unreadProblem(key, err)
		if len(p.State.Nodes)+len(p.State.ProviderIDs) > 0 {
			p.missed = "The Nodes cannot be read: " + p.unread.Message
		}
		p.Requeue(claimedRetry) // a safety net
	}
	p.mem().countUnread(p.missed != "", p.Now)
	if err != nil && !cluster.IsUnread(err) {
		return fmt.Errorf("read the Nodes of %s %s: %w", p.env.kinds.Pool.GVK.Kind, p.State.Key, err)
	}
	return nil
}

// lookForNodes finds the pool's Nodes among those of a cluster; synced is false while these are unknown. A Node whose claims are unknown
// must not be used.
func (p *Scope) lookForNodes(ctx context.Context, key types.NamespacedName) (synced bool, err error) {
	if p.workload, err = p.env.workloads.Of(key); err == nil {
		err = p.workload.Recognize(&p.State.Metadata)
	}
	if err != nil || !p.workload.Nodes.HasSynced() {
		return false, err
	}
	var unread error
	others := func(node *corev1.Node) []noderef.Identity {
		all, err := p.env.claimsOn(ctx, key, node)
		unread = errors.Join(unread, err)
		return all
	}
	p.instances = findInstances(instanceFacts{
		Pool: p.State.Key, IDs: p.State.ProviderIDs, Recorded: p.State.Nodes, Nodes: p.workload.Nodes, Claims: others,
		Rules: p.env.options.Matching,
	})
	if err := cmp.Or(unread, p.leaveToMachines(ctx)); err != nil {
		return false, err
	}
	p.holdsList()
	if !p.complete && !p.Deleting() { // an incomplete list, too, is judged as a whole: its Nodes are recorded
		p.instances.retireNone()
	}
	if len(p.instances.in(claimed)) > 0 {
		p.Requeue(claimedRetry)
	}
	if len(p.instances.in(here)) > 0 && !p.Deleting() {
		p.workload.Record(&p.State.Metadata, p.ChangeAnnotation)
	}
	return true, nil
}

// logged returns the problem of an error that only the log describes.
func logged() external.Problem {
	return external.Problem{Reason: contract.ReasonInternalError, Message: engine.SeeLogs}
}

// unreadProblem returns the reason and message of conditions about Nodes that cannot be read.
func unreadProblem(key types.NamespacedName, err error) external.Problem {
	switch {
	case errors.Is(err, cluster.ErrNotConnected):
		return external.Problem{Reason: contract.ReasonConnectionDown, Message: cluster.Unread(key, err)}
	case err == nil || cluster.IsUnread(err):
		return external.Problem{Reason: contract.ReasonInspectionFailed, Message: cluster.Unread(key, err)}
	}
	return logged()
}

// isStill reports whether the live Node with the name of a recorded Node is the pool's: the recorded Node, or an instance of the pool that
// has registered again.
func isStill(node *corev1.Node, ref contract.NodeRef, ids []string, rules noderef.Rules) bool {
	return ref.UID != "" && node.UID == ref.UID || lists(ids, node, rules)
}

// confirmMissed confirms, with one request each, that recorded Nodes that are missing in the index are gone, because the index may be
// behind. Until then they stay recorded, and the deletion of their instances waits.
func (p *Scope) confirmMissed(ctx context.Context) {
	var names []string
	var failed, last error
	for i := range p.instances {
		one, gone := &p.instances[i], false
		if one.State != missed {
			continue
		}
		if !utilnet.IsTimeout(last) { // each further request could take as long
			gone, last = p.workload.IsGone(ctx, one.Ref.Name, func(live *corev1.Node) bool {
				return isStill(live, one.Ref, p.State.ProviderIDs, p.env.options.Matching)
			})
		}
		failed = cmp.Or(failed, last)
		if !gone {
			one.State, names = kept, append(names, one.Ref.Name)
		}
	}
	if len(names) == 0 {
		return
	}
	p.missed = "The recorded Nodes are not known to be gone: " + engine.Named(names)
	if failed != nil {
		p.missed += ": " + failed.Error()
	}
	p.Requeue(claimedRetry) // a safety net: the event of an existing Node will follow
}

// silentFor is how long a Node is not Ready before its instance counts as gone without other evidence: in an outage, no Node of a cluster
// is Ready for a while.
const silentFor = 5 * time.Minute

// unbelievable returns the Nodes that a list of instances retires, or will retire when it is complete, although the list is probably wrong:
// their kubelets respond or did a moment ago, nothing requests that they leave, and the list contains none of the recorded Nodes. A
// provider that changes the form of its IDs writes such a list. It returns none for an empty list of a pool with zero desired replicas, and
// for Nodes that have not been Ready for silentFor. leaves reports whether a Node is requested to leave now; a completed drain does not
// count, because its mark may be gone.
func (all instances) unbelievable(pool *contract.MachinePoolState, leaves func(*corev1.Node) bool, now time.Time) (held []*corev1.Node) {
	if len(pool.ProviderIDs) == 0 && pool.Replicas == contract.Some(int32(0)) {
		return nil
	}
	if slices.ContainsFunc(all.in(here), func(one instance) bool { return slices.Contains(pool.Nodes, one.Ref) }) {
		return nil
	}
	for _, one := range all.in(retired) {
		responds := noderef.Ready(one.Node) || now.Before(readySince(one.Node).Add(silentFor))
		if responds && !one.OfMachine && one.Node.DeletionTimestamp == nil && !leaves(one.Node) {
			held = append(held, one.Node)
		}
	}
	return held
}

// holdsList holds an unbelievable list of a pool that is not being deleted: the instances remain those of the recorded Nodes, and a
// condition describes the reason and what a person can do.
func (p *Scope) holdsList() {
	if !p.infrastructure.Usable() || p.Deleting() {
		return
	}
	held := p.instances.unbelievable(&p.State, p.env.options.Policy.Leaving, p.Now)
	if len(held) == 0 {
		return
	}
	p.Requeue(claimedRetry) // time alone ends it, too
	p.Assert(engine.Condition(contract.ConditionInfrastructureReady, metav1.ConditionFalse, ReasonInstancesHeld, fmt.Sprintf(
		"%s %s lists %d instances, and none of them has one of the recorded Nodes, of which %d answer: %s. "+
			"No Node is drained or deleted for it. "+
			"If the form of the provider IDs has changed, change it back, or let Options.Matching take both forms for equal. "+
			"If the instances were replaced, annotate those Nodes with %s, or delete them", p.infrastructure.Ref.Kind,
		p.infrastructure.Ref.Name, len(p.State.ProviderIDs), len(held), engine.Named(mapped(held, (*corev1.Node).GetName)),
		scale.DeleteAnnotation)))
	p.instances = p.instances.in(retired, moved, missed, kept) // without the listed ones
	for i := range p.instances {
		if one := &p.instances[i]; slices.Contains(held, one.Node) {
			one.State, one.ID = here, one.Node.Spec.ProviderID
		}
	}
	p.instances.retireNone()
	p.State.ProviderIDs, p.complete, p.Update.ProviderIDs = p.instances.in(here).ids(), false, contract.Change[[]string]{}
}
