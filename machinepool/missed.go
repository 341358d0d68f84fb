package machinepool

import (
	"context"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/contract/pass"
	"github.com/machinist-dev/machinist/noderef"
)

// maxNodeReads bounds how many Nodes one pass asks the API server for.
const maxNodeReads = 20

// isStill reports whether what the API server has by the name of a recorded Node is the pool's: the recorded one, or an instance of the
// pool that has registered again.
func isStill(node *corev1.Node, ref contract.NodeRef, ids []string, rules noderef.Rules) bool {
	if node.UID == ref.UID && ref.UID != "" {
		return true
	}
	return slices.ContainsFunc(ids, func(id string) bool { return rules.Same(id, node.Spec.ProviderID) })
}

// planMissed parts recorded Nodes that the index does not have into those to ask the API server for in this pass and those for the next
// one. It leaves out those that are known to be gone.
func planMissed(
	missed []contract.NodeRef, gone map[contract.NodeRef]struct{}, asked map[types.UID]struct{},
) (now, later []contract.NodeRef) {
	for _, ref := range missed {
		_, known := gone[ref]
		_, deleted := asked[ref.UID]
		switch {
		case known || (deleted && ref.UID != ""):
		case len(now) < maxNodeReads:
			now = append(now, ref)
		default:
			later = append(later, ref)
		}
	}
	return now, later
}

// confirmMissed confirms with one request each that recorded Nodes which the index does not have are gone: the index may be behind. Until
// then they stay recorded, and the deletion of their instances waits.
func (p *Scope) confirmMissed(ctx context.Context) {
	mem := p.mem()
	now, later := planMissed(p.match.missed, mem.gone, mem.asked)
	gone := make([]bool, len(now))
	err := p.each(len(now), func(i int) (err error) {
		gone[i], err = p.workload.IsGone(ctx, now[i].Name, func(live *corev1.Node) bool {
			return isStill(live, now[i], p.ids, p.env.options.Matching)
		})
		return err
	})
	known := make(map[contract.NodeRef]struct{}, len(p.match.missed))
	for _, ref := range p.match.missed {
		known[ref] = struct{}{}
	}
	unconfirmed := later
	for i, ref := range now {
		if !gone[i] {
			unconfirmed = append(unconfirmed, ref)
		}
	}
	for _, ref := range unconfirmed {
		delete(known, ref)
	}
	mem.gone = known
	p.match.kept, p.match.missed = append(p.match.kept, unconfirmed...), unconfirmed
	mem.misses(len(unconfirmed) > 0, p.Now)
	if len(unconfirmed) == 0 {
		return
	}
	names := make([]string, 0, len(unconfirmed))
	for _, ref := range unconfirmed {
		names = append(names, ref.Name)
	}
	slices.Sort(names)
	p.missed = "The recorded Nodes are not known to be gone: " + pass.Named(names)
	if err != nil {
		first, _, _ := strings.Cut(err.Error(), "\n")
		p.missed += ": " + first
	}
	again := claimedRetry // a safety net: the event of a Node that is there is on the way
	switch {
	case len(unconfirmed) == len(later):
		again = atOnce
	case p.Deleting():
		again = pass.BehindRetry
	}
	p.Requeue(again)
}

// missedHolds reports whether a stage waits until it is known that recorded Nodes are gone, and no longer than its limit; zero and below
// are for ever.
func (p *Scope) missedHolds(limit time.Duration) bool {
	since := p.mem().missedSince
	if p.missed == "" || reached(since, limit, p.Now) {
		return false
	}
	p.requeueAt(since, limit)
	return true
}
