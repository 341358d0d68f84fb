package machinepool

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/internal/engine"
	"github.com/machinist-dev/machinist/noderef"
)

// believeFacts are the inputs of unbelievable.
type believeFacts struct {
	IDs []string
	// Matched are the Nodes of the listed instances, and Retired those of the instances that are not listed any more.
	Matched, Retired []*corev1.Node
	Recorded         []contract.NodeRef
	// Leaves reports whether something requests now that a Node leaves. That it was drained is no such request: its mark may be gone.
	Leaves func(*corev1.Node) bool
	// Wanted is how many instances are desired.
	Wanted contract.Opt[int32]
	Now    time.Time
}

// silentFor is how long a Node is not Ready before its instance counts as gone without other evidence: in an outage, no Node of a cluster
// is Ready for a while.
const silentFor = 5 * time.Minute

// silentIn returns how long it takes until a Node has not been Ready for silentFor, at least.
func silentIn(node *corev1.Node, now time.Time) time.Duration {
	since, found := readySince(node)
	switch {
	case noderef.Ready(node):
		return silentFor
	case !found: // it has never answered
		return 0
	}
	return since.Add(silentFor).Sub(now)
}

// unbelievable returns the Nodes that a list of instances retires, or will retire when it is complete, although the list is probably wrong:
// their kubelets answer or did a moment ago, nothing requests that they leave, and the list names none of the recorded Nodes. A provider
// that changes the form of its IDs writes such a list. It returns none for an empty list of a pool with zero desired replicas, and for
// Nodes that have not been Ready for silentFor. again is when the first Node will have been silent for
// that long; zero for never.
func unbelievable(f believeFacts) (standing []*corev1.Node, again time.Duration) {
	if len(f.IDs) == 0 && f.Wanted == contract.Some(int32(0)) {
		return nil, 0
	}
	if slices.ContainsFunc(f.Matched, func(node *corev1.Node) bool { return slices.Contains(f.Recorded, refOf(node)) }) {
		return nil, 0
	}
	for _, node := range f.Retired {
		left := silentIn(node, f.Now)
		if left <= 0 || node.DeletionTimestamp != nil || f.Leaves(node) {
			continue
		}
		standing, again = append(standing, node), engine.Soonest(again, left)
	}
	return standing, again
}

// mayHold reports whether a list of instances can be held: one because of which Nodes would be drained or deleted.
func (p *Scope) mayHold() bool {
	return p.infraRead && !p.Deleting() && !p.ledByMachines()
}

// holdsUnread keeps the recorded instances while the Nodes cannot be read that decide about a list which names none of these instances.
func (p *Scope) holdsUnread() {
	rules := p.env.options.Matching
	known := keysOf(p.State.ProviderIDs, rules)
	if p.mayHold() && len(p.State.Nodes) > 0 && len(known) > 0 && !known.HasAny(keysOf(p.ids, rules).UnsortedList()...) {
		p.keepInstances(p.State.ProviderIDs)
	}
}

// holdsList holds a list that is unbelievable: the instances stay those of the recorded Nodes, and a condition says why and what a person
// can do.
func (p *Scope) holdsList(facts matchFacts) {
	if !p.mayHold() || len(facts.Recorded) == 0 {
		return
	}
	judged := p.match
	if !facts.Complete { // before it is, the Nodes that it names would be recorded, and speak for it
		whole := facts
		whole.Complete = true
		judged = matchNodes(whole)
	}
	held, again := unbelievable(believeFacts{
		IDs: p.ids, Matched: judged.Nodes, Retired: judged.Retired, Recorded: facts.Recorded, Wanted: p.State.Replicas, Now: p.Now,
		Leaves: p.env.options.Policy.Leaving,
	})
	if len(held) == 0 {
		return
	}
	p.Requeue(again)
	ids := mapped(held, func(node *corev1.Node) string { return node.Spec.ProviderID })
	p.Assert(engine.Condition(contract.ConditionInfrastructureReady, metav1.ConditionFalse, ReasonInstancesHeld, fmt.Sprintf(
		"%s %s lists %d instances, and none of them has one of the recorded Nodes, of which %d answer: %s. "+
			"No Node is drained or deleted for it. "+
			"If the form of the provider IDs has changed, change it back, or let Options.Matching take both forms for equal. "+
			"If the instances were replaced, annotate those Nodes with %s, or delete them", p.infrastructure.Ref.Kind,
		p.infrastructure.Ref.Name, len(p.ids), len(held), engine.Named(mapped(held, (*corev1.Node).GetName)), DeleteMachineAnnotation)))
	p.keepInstances(ids)
	facts.IDs, facts.Complete = p.ids, false
	p.match = matchNodes(facts)
}

// keepInstances replaces the instances that the provider lists, and does not record that list.
func (p *Scope) keepInstances(ids []string) {
	p.ids, p.complete = ids, false
	p.Update.ProviderIDs = contract.Change[[]string]{}
}
