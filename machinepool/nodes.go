package machinepool

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	utilnet "k8s.io/apimachinery/pkg/util/net"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/internal/engine"
	"github.com/machinist-dev/machinist/internal/external"
	"github.com/machinist-dev/machinist/noderef"
	"github.com/machinist-dev/machinist/noderef/cluster"
)

// claimedRetry is when a pool looks again at Nodes that another pool or a Machine claims too: the other's events do not wake it.
const claimedRetry = 30 * time.Second

// observeNodes finds the pool's Nodes, and records since when they cannot be read. Nodes that cannot be read are no error: an event tells
// when they can.
func (p *Scope) observeNodes(ctx context.Context) error {
	p.observed = true
	key := p.env.clusterOf(&p.State)
	synced, err := p.lookForNodes(ctx, key)
	p.nodesKnown = synced && err == nil
	if p.nodesKnown {
		p.confirmMissed(ctx)
		p.forgetRequests()
	}
	if lasts(&p.mem().nodesUnread, !p.nodesKnown || p.missed != "", p.Now); p.nodesKnown {
		return nil
	}
	p.match, p.unread = matching{}, unreadProblem(key, err)
	if err == nil || cluster.IsUnread(err) {
		p.Requeue(claimedRetry) // a safety net
		return nil
	}
	return fmt.Errorf("read the Nodes of %s %s: %w", p.env.kinds.Pool.GVK.Kind, p.State.Key, err)
}

// lookForNodes finds the pool's Nodes among those of a cluster; synced is false while these are not known. A Node whose claims are not
// known must not be taken.
func (p *Scope) lookForNodes(ctx context.Context, key types.NamespacedName) (synced bool, err error) {
	if p.workload, err = p.env.workloads.Of(key); err == nil {
		err = p.workload.Recognize(&p.State.Metadata)
	}
	if err != nil || !p.workload.Nodes.HasSynced() {
		return false, err
	}
	others := &claims{ctx: ctx, r: p.env, cluster: key}
	facts := matchFacts{
		Pool: p.State.Key, IDs: p.State.ProviderIDs, Complete: true, Recorded: p.State.Nodes, Nodes: p.workload.Nodes,
		Claims: others, Rules: p.env.options.Matching,
	}
	p.match = matchNodes(facts) // also an incomplete list is judged as a whole: the Nodes that it names would be recorded, and speak for it
	if p.match.taken, err = p.takenByMachines(ctx, &p.match); err != nil {
		return false, err
	}
	if p.holdsList(); !p.complete && !p.Deleting() {
		taken := p.match.taken
		facts.IDs, facts.Complete = p.State.ProviderIDs, false
		p.match = matchNodes(facts)
		p.match.taken = taken
	}
	if others.err != nil {
		return false, others.err
	}
	if len(p.match.Claimed) > 0 {
		p.Requeue(claimedRetry)
	}
	if len(p.match.Nodes) > 0 && !p.Deleting() {
		p.workload.Record(&p.State.Metadata, p.ChangeAnnotation)
	}
	return true, nil
}

// unreadProblem returns the reason and message of conditions about Nodes that cannot be read.
func unreadProblem(key types.NamespacedName, err error) external.Problem {
	switch {
	case errors.Is(err, cluster.ErrNotConnected):
		return external.Problem{Reason: contract.ReasonConnectionDown, Message: cluster.Unread(key, err)}
	case err == nil || cluster.IsUnread(err):
		return external.Problem{Reason: contract.ReasonInspectionFailed, Message: cluster.Unread(key, err)}
	}
	return external.Problem{Reason: contract.ReasonInternalError, Message: engine.SeeLogs}
}

// isStill reports whether what the API server has by the name of a recorded Node is the pool's: the recorded one, or an instance of the
// pool that has registered again.
func isStill(node *corev1.Node, ref contract.NodeRef, ids []string, rules noderef.Rules) bool {
	if node.UID == ref.UID && ref.UID != "" {
		return true
	}
	return slices.ContainsFunc(ids, func(id string) bool { return rules.Same(id, node.Spec.ProviderID) })
}

// confirmMissed confirms with one request each that recorded Nodes which the index does not have are gone: the index may be behind. Until
// then they stay recorded, and the deletion of their instances waits.
func (p *Scope) confirmMissed(ctx context.Context) {
	var names []string
	var failed, last error
	for _, ref := range p.match.missed {
		gone := false
		if !utilnet.IsTimeout(last) { // each further request could last as long
			gone, last = p.workload.IsGone(ctx, ref.Name, func(live *corev1.Node) bool {
				return isStill(live, ref, p.State.ProviderIDs, p.env.options.Matching)
			})
		}
		failed = cmp.Or(failed, last)
		if !gone {
			p.match.kept, names = append(p.match.kept, ref), append(names, ref.Name)
		}
	}
	if len(names) == 0 {
		return
	}
	slices.Sort(names)
	p.missed = "The recorded Nodes are not known to be gone: " + engine.Named(names)
	if failed != nil {
		p.missed += ": " + failed.Error()
	}
	p.Requeue(claimedRetry) // a safety net: the event of a Node that is there is on the way
	if p.Deleting() {
		p.Requeue(engine.BehindRetry)
	}
}
