package machine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/drain/runner"
	"github.com/machinist-dev/machinist/noderef"
	"github.com/machinist-dev/machinist/noderef/cluster"
	"github.com/machinist-dev/machinist/noderef/nodeindex"
)

// Workload is the access to the Nodes of one cluster. A Machine's Node is found, watched, written and drained in its workload cluster
// only: Nodes of two clusters may have the same names and provider IDs.
type Workload struct {
	// Nodes finds Nodes. It should be a pointer, such as a *nodeindex.Index, and a different one for each connection: a Reconciler listens
	// again when it changes. Its events wake Machines if it has a Source as a nodeindex.Index does.
	Nodes Nodes
	// Client writes Nodes; its writes must not block on a server that does not answer.
	Client client.Client
	// APIReader reads from the cluster's API server, to confirm that a Node which the index does not have is gone. Nil: Client, which may
	// read a cache that is as far behind as the index.
	APIReader client.Reader
	// Drainer drains Nodes; nil means that Nodes are not drained.
	Drainer Drainer
	// Volumes reports whether volumes are still attached to a Node; nil means that the deletion does not wait for them.
	Volumes Volumes
	// LastSeen is the time of the last successful probe of the cluster; zero for none, or when it is unknown.
	LastSeen time.Time
	// Since is when the cluster became connected, or not connected; zero when that is unknown.
	Since time.Time
}

func (w Workload) reader() client.Reader {
	if w.APIReader != nil {
		return w.APIReader
	}
	return w.Client
}

var errNoCluster = errors.New("the Machine names no cluster, and this controller has none of its own for such Machines: name the Machine's cluster")

// NodesOf returns what Ports.NodesOf asks for, from the connections of cs. Ports.WorkloadEvents is its method Source:
//
//	ports.NodesOf, ports.WorkloadEvents = machine.NodesOf(cs), cs.Source
//
// The function makes no request and does not block.
func NodesOf(cs *cluster.Clusters[Workload]) func(types.NamespacedName) (Workload, error) {
	return func(key types.NamespacedName) (Workload, error) {
		view, err := cs.Get(key)
		w := view.Value
		w.LastSeen, w.Since = view.LastSeen, view.Since
		if err == nil && view.Behind(schema.GroupKind{Kind: "Node"}) { // a Node that joined during an outage may be missing
			return w, fmt.Errorf("read Nodes: %w", view.Problem)
		}
		if err == nil && view.Problem != nil && (w.Nodes == nil || !w.Nodes.HasSynced()) {
			return w, fmt.Errorf("%w: Nodes of cluster %s cannot be listed: %w; check that the user of its kubeconfig may get, list and watch Nodes",
				cluster.ErrNotSynced, key, view.Problem)
		}
		return w, err
	}
}

// SetupWorkload returns what cluster.Options.Setup asks for: it puts a Node index for rules, which are Options.Matching, and a
// drain runner on a connection.
func SetupWorkload(rules noderef.Rules) func(context.Context, *cluster.Connection) (Workload, error) {
	return func(ctx context.Context, c *cluster.Connection) (Workload, error) {
		nodes, err := nodeindex.New(ctx, c.GetCache(), nodeindex.Options{Rules: rules})
		if err != nil {
			return Workload{}, err
		}
		drainer, err := runner.NewClusterRunner(c, runner.ClusterOptions{Volumes: true})
		if err != nil {
			return Workload{}, fmt.Errorf("drain runner: %w", err)
		}
		c.Go(func(ctx context.Context) { _ = drainer.Start(ctx) }) // when it has ended, its Step reports that
		return Workload{Nodes: nodes, Client: c.GetClient(), APIReader: c.GetAPIReader(), Drainer: drainer, Volumes: drainer}, nil
	}
}

// clusterOf is the cluster of a Machine's Node; the zero name is that of Ports.Nodes.
func (r *Reconciler) clusterOf(state *contract.MachineState) types.NamespacedName {
	if r.ports.NodesOf == nil || state.ClusterName == "" {
		return types.NamespacedName{}
	}
	return types.NamespacedName{Namespace: state.Key.Namespace, Name: state.ClusterName}
}

// workloadOf looks up how a cluster is reached now, and has its Nodes wake Machines.
func (r *Reconciler) workloadOf(key types.NamespacedName) (Workload, error) {
	switch {
	case key != types.NamespacedName{}:
		w, err := r.ports.NodesOf(key)
		r.nodeEvents.follow(key, w)
		if err == nil && (w.Nodes == nil || w.Client == nil) {
			err = fmt.Errorf("NodesOf has no Nodes or no Client for cluster %s, and no error", key)
		}
		return w, err
	case r.ports.Nodes == nil:
		return Workload{}, errNoCluster
	}
	return Workload{
		Nodes: r.ports.Nodes, Client: r.ports.NodeClient, APIReader: r.ports.NodeReader, Drainer: r.ports.Drainer, Volumes: r.ports.Volumes,
	}, nil
}
