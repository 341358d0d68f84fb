package runner

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/drain"
)

// Look reads the input of a [drain.Planner] for a drain: the Pods of the named Nodes, in the order of the names, and the
// PodDisruptionBudgets of all Namespaces. It makes one list of the Pods of each Node, and one of the budgets. c needs permission to list
// both in the whole cluster. With a client that does not cache, the lists are consistent reads; a cache needs an index of the field
// spec.nodeName.
//
// The facts have no requests in flight, which only a running drain has. A Node that does not exist has no Pods. The error wraps that of the
// API server. Look changes nothing and is safe for concurrent use.
func Look(ctx context.Context, c client.Reader, nodes ...string) ([]drain.NodePods, drain.Facts, error) {
	found := make([]drain.NodePods, 0, len(nodes))
	for _, node := range nodes {
		var pods corev1.PodList
		if err := c.List(ctx, &pods, client.MatchingFields{byNode: node}); err != nil {
			return nil, drain.Facts{}, fmt.Errorf("list pods of node %s: %w", node, err)
		}
		found = append(found, drain.NodePods{Node: node, Pods: pointers(pods.Items)})
	}
	var budgets policyv1.PodDisruptionBudgetList
	if err := c.List(ctx, &budgets); err != nil {
		return nil, drain.Facts{}, fmt.Errorf("list poddisruptionbudgets: %w", err)
	}
	return found, drain.Facts{Budgets: pointers(budgets.Items)}, nil
}

func pointers[T any](items []T) []*T {
	out := make([]*T, 0, len(items))
	for i := range items {
		out = append(out, &items[i])
	}
	return out
}
