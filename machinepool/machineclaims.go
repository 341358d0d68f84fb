package machinepool

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/contract/pass"
	"github.com/machinist-dev/machinist/noderef"
)

// machineKeys are the keys under which a Machine is found that claims a Node.
func (r *Reconciler) machineKeys(obj client.Object) []string {
	var m contract.MachineState
	if err := r.kinds.Machine.Adapter.Read(obj, &m); err != nil {
		return nil // it reports itself what is wrong with it
	}
	name := m.ClusterName
	if name == "" {
		name = m.Labels[contract.ClusterNameLabel]
	}
	var keys []string
	cluster := r.workloads.ClusterOf(m.Key.Namespace, name)
	if id := r.options.Matching.Key(m.ProviderID); id != "" {
		keys = append(keys, instanceKey(cluster, id))
	}
	if m.Node.Name != "" {
		keys = append(keys, nodeKey(cluster, m.Node.Name))
	}
	return keys
}

// claimsNode reports whether a Machine claims a Node: it has the Machine's provider ID, or the Machine has recorded it.
func claimsNode(m *contract.MachineState, node *corev1.Node, rules noderef.Rules) bool {
	recorded := m.Node.Name == node.Name && (m.Node.UID == "" || m.Node.UID == node.UID)
	return recorded || rules.Same(m.ProviderID, node.Spec.ProviderID)
}

// unclaimed divides Nodes into those that the pool cordons, drains and deletes, and those that a Machine of another owner claims: the
// controller of that Machine handles them. Where Machines cannot be read, the pool handles no Node.
func (p *Scope) unclaimed(ctx context.Context, nodes []*corev1.Node) (free, claimed []*corev1.Node, err error) {
	if !p.env.kinds.knowsMachines() {
		return nodes, nil, nil
	}
	for _, node := range nodes {
		taken, err := p.claimedByMachine(ctx, node)
		if err != nil {
			return nil, nil, err
		}
		if taken {
			claimed = append(claimed, node)
			continue
		}
		free = append(free, node)
	}
	return free, claimed, nil
}

func (p *Scope) claimedByMachine(ctx context.Context, node *corev1.Node) (bool, error) {
	cluster, rules := p.env.clusterOf(&p.State), p.env.options.Matching
	keys := []string{nodeKey(cluster, node.Name)}
	if id := rules.Key(node.Spec.ProviderID); id != "" {
		keys = append(keys, instanceKey(cluster, id))
	}
	var taken bool
	var failed error
	for _, key := range keys {
		list := pass.NewList(p.env.kinds.Machine)
		err := p.env.frame.Ports.Cache.List(ctx, list, client.InNamespace(cluster.Namespace), client.MatchingFields{p.env.frame.IndexName(): key},
			client.UnsafeDisableDeepCopy)
		if err == nil {
			err = pass.EachObject(list, func(obj client.Object) {
				loses, unknown := p.losesTo(ctx, obj, node)
				taken, failed = taken || loses, cmp.Or(failed, unknown)
			})
		}
		if err = cmp.Or(err, failed); err != nil {
			return false, fmt.Errorf("list Machines that claim Node %s: %w", node.Name, err)
		}
	}
	return taken, nil
}

// losesTo reports whether a Machine claims a Node that leaves the pool. The pool's own Machines do not count.
func (p *Scope) losesTo(ctx context.Context, obj client.Object, node *corev1.Node) (bool, error) {
	var m contract.MachineState
	if err := p.env.kinds.Machine.Adapter.Read(obj, &m); err != nil {
		return false, nil //nolint:nilerr // the Machine itself reports what is wrong with it
	}
	if !claimsNode(&m, node, p.env.options.Matching) {
		return false, nil
	}
	owned, err := p.owns(ctx, obj)
	return err == nil && !owned, err
}

// spareClaimed excludes Nodes that Machines claim: those whose instance has left the pool and, in a deletion, all.
func (p *Scope) spareClaimed(ctx context.Context) error {
	retired, _, err := p.unclaimed(ctx, p.match.Retired)
	if err != nil {
		return err
	}
	p.match.Retired = retired
	if p.Deleting() {
		p.match.Nodes, _, err = p.unclaimed(ctx, p.match.Nodes)
	}
	return err
}

// withoutClaimed leaves out Nodes of the pool's instances that Machines claim, and remembers them for the status.
func (p *Scope) withoutClaimed(ctx context.Context, nodes []*corev1.Node) ([]*corev1.Node, error) {
	free, claimed, err := p.unclaimed(ctx, nodes)
	for _, node := range claimed {
		p.match.OfMachines = append(p.match.OfMachines, node.Name)
	}
	slices.Sort(p.match.OfMachines)
	return free, err
}
