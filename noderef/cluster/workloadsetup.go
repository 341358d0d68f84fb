package cluster

import (
	"context"
	"fmt"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrlcluster "sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/drain/runner"
	"github.com/machinist-dev/machinist/noderef"
)

// WorkloadOptions configure the setup of Workloads. The zero value is ready for use.
type WorkloadOptions struct {
	// Matching must equal Options.Matching of the reconcilers: Nodes are indexed by it.
	Matching noderef.Rules
	// DrainMetrics counts the work of all drain runners. Nil counts nothing.
	DrainMetrics *runner.Metrics
}

// FromManager returns the Workload of the manager's own cluster. It adds the drain runner to the manager. The runner also watches volumes,
// which costs nothing before the first drain. Reconcilers in one manager should share the result.
func (o WorkloadOptions) FromManager(ctx context.Context, mgr manager.Manager) (Workload, error) {
	w, drainer, err := o.workloadOf(ctx, mgr)
	if err == nil {
		err = mgr.Add(drainer)
	}
	return w, err
}

// Setup returns a value for Options.Setup: it adds a Node index and a drain runner with volumes to a connection.
func (o WorkloadOptions) Setup() func(context.Context, *Connection) (Workload, error) {
	return func(ctx context.Context, c *Connection) (Workload, error) {
		w, drainer, err := o.workloadOf(ctx, c)
		if err == nil {
			c.Go(func(ctx context.Context) { _ = drainer.Start(ctx) }) // after its end, Step returns an error
		}
		return w, err
	}
}

func (o WorkloadOptions) workloadOf(ctx context.Context, c ctrlcluster.Cluster) (Workload, *runner.Runner, error) {
	nodes, err := NewNodeIndex(ctx, c.GetCache(), o.Matching)
	if err != nil {
		return Workload{}, nil, err
	}
	drainer, err := runner.NewForCluster(c, o.DrainMetrics)
	if err != nil {
		return Workload{}, nil, err
	}
	return Workload{Nodes: nodes, Client: c.GetClient(), APIReader: c.GetAPIReader(), Drainer: drainer, Volumes: drainer}, drainer, nil
}

// NodesOf returns a value for Ports.NodesOf of a reconciler, from the connections of cs. Their method Source is the value for
// Ports.WorkloadEvents:
//
//	ports.NodesOf, ports.WorkloadEvents = cluster.NodesOf(cs), cs.Source
//
// The function makes no request and does not block.
func NodesOf(cs *Clusters[Workload]) func(types.NamespacedName) (Workload, error) {
	return func(key types.NamespacedName) (Workload, error) {
		view, err := cs.Get(key)
		w := view.Value
		w.UID = view.UID
		if err == nil && view.Problem != nil && (w.Nodes == nil || !w.Nodes.HasSynced()) {
			return w, fmt.Errorf("%w: Nodes of cluster %s cannot be listed: %w; check that the user of its kubeconfig may get, list and watch Nodes",
				ErrNotSynced, key, view.Problem)
		}
		return w, err
	}
}

// WorkloadWiring selects the uses of a Workload that need permissions. With the zero value, Nodes are only read.
type WorkloadWiring struct {
	// Drains: Nodes are drained and volumes waited for, as with WorkloadOptions.FromManager and WorkloadOptions.Setup.
	Drains bool
	// Namespaces: [Workload.NamespaceLabels] is called.
	Namespaces bool
	// Writes: Nodes are labeled, tainted, cordoned and deleted.
	Writes bool
}

// WorkloadPolicyRules returns the permissions that a Workload needs in its cluster: to list and watch Nodes, to get one to confirm that it
// is gone, to drain them, to list and watch Namespaces for their labels, and to patch and delete Nodes.
func WorkloadPolicyRules(w WorkloadWiring) []rbacv1.PolicyRule {
	lists := [][]rbacv1.PolicyRule{{rule("nodes", "get", "list", "watch")}}
	if w.Drains {
		lists = append(lists, runner.PolicyRules())
	}
	if w.Namespaces {
		lists = append(lists, []rbacv1.PolicyRule{rule("namespaces", "list", "watch")})
	}
	if w.Writes {
		lists = append(lists, []rbacv1.PolicyRule{rule("nodes", "patch", "delete")})
	}
	return contract.MergePolicyRules(lists...)
}

func rule(resource string, verbs ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{resource}, Verbs: verbs}
}
