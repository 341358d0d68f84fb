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
// Nodes that have not been Ready for silentFor. leaves reports whether something requests now that a Node leaves; that it was drained is no
// such request: its mark may be gone. again is when the first Node will have been silent for that long; zero for never.
func unbelievable(
	pool *contract.MachinePoolState, m *matching, leaves func(*corev1.Node) bool, now time.Time,
) (standing []*corev1.Node, again time.Duration) {
	if len(pool.ProviderIDs) == 0 && pool.Replicas == contract.Some(int32(0)) {
		return nil, 0
	}
	if slices.ContainsFunc(m.Nodes, func(node *corev1.Node) bool { return slices.Contains(pool.Nodes, refOf(node)) }) {
		return nil, 0
	}
	for _, node := range m.free(m.Retired) {
		left := silentIn(node, now)
		if left <= 0 || node.DeletionTimestamp != nil || leaves(node) {
			continue
		}
		standing, again = append(standing, node), engine.Soonest(again, left)
	}
	return standing, again
}

// holdsList holds a list that is unbelievable, of a pool that lives: the instances stay those of the recorded Nodes, and a condition says
// why and what a person can do.
func (p *Scope) holdsList() {
	if !p.infrastructure.Usable() || p.Deleting() {
		return
	}
	held, again := unbelievable(&p.State, &p.match, p.env.options.Policy.Leaving, p.Now)
	if len(held) == 0 {
		return
	}
	p.Requeue(again)
	p.Assert(engine.Condition(contract.ConditionInfrastructureReady, metav1.ConditionFalse, ReasonInstancesHeld, fmt.Sprintf(
		"%s %s lists %d instances, and none of them has one of the recorded Nodes, of which %d answer: %s. "+
			"No Node is drained or deleted for it. "+
			"If the form of the provider IDs has changed, change it back, or let Options.Matching take both forms for equal. "+
			"If the instances were replaced, annotate those Nodes with %s, or delete them", p.infrastructure.Ref.Kind,
		p.infrastructure.Ref.Name, len(p.State.ProviderIDs), len(held), engine.Named(mapped(held, (*corev1.Node).GetName)),
		DeleteMachineAnnotation)))
	p.State.ProviderIDs, p.complete = mapped(held, func(node *corev1.Node) string { return node.Spec.ProviderID }), false
	p.Update.ProviderIDs = contract.Change[[]string]{}
}
