package machinepool

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/contract/external"
	"github.com/machinist-dev/machinist/drain/runner"
	"github.com/machinist-dev/machinist/noderef"
	"github.com/machinist-dev/machinist/noderef/cluster"
)

// Nodes finds the Nodes of one cluster. nodeindex.Index implements it.
type Nodes interface {
	noderef.Lookup
	// HasSynced is false while the Nodes are not known; then no Node is missing, it is unread.
	HasSynced() bool
}

// Drainer carries out drains. runner.Runner implements it.
type Drainer interface {
	// Step moves the drain of one Node on, without waiting, and says where it stands.
	Step(context.Context, runner.Request) (runner.Result, error)
	// Release ends the interest in a Node.
	Release(node string)
}

// Workload is how the Nodes of one cluster are reached. That of package machine has the same parts and more, so that one connection
// serves both.
type Workload struct {
	// Nodes finds Nodes. It should be a pointer, such as a *nodeindex.Index, and another one for another connection: that is how a
	// Reconciler sees that it has to listen anew. Its events wake pools if it has a Source as a nodeindex.Index does.
	Nodes Nodes
	// Client writes Nodes; its writes must not wait for a server that does not answer. In Ports it defaults to Ports.Client.
	Client client.Client
	// APIReader reads from the cluster's API server itself, to make sure that a recorded Node which the index does not have is really gone.
	// Nil: Client, which may read a cache that is as far behind as the index. In Ports it defaults to Ports.APIReader where Client is not set.
	APIReader client.Reader
	// Drainer drains Nodes; nil means that Nodes are not drained. One that has a Source as a runner.Runner does wakes pools.
	Drainer Drainer
	// Volumes is asked whether volumes are still attached to a Node without pods; nil means that they are not waited for. Package machine
	// has one, for the same connection. [SetupWithManager] and [SetupWorkload] have none.
	Volumes Volumes
}

func (w Workload) reader() client.Reader {
	if w.APIReader != nil {
		return w.APIReader
	}
	return w.Client
}

// NodesOf returns what Ports.NodesOf asks for, from connections that hold a Workload. Ports.WorkloadEvents is the method Source of
// cs. The function makes no request and waits for nothing.
func NodesOf(cs *cluster.Clusters[Workload]) func(types.NamespacedName) (Workload, error) {
	return func(key types.NamespacedName) (Workload, error) {
		view, err := cs.Get(key)
		if err == nil && view.Behind(schema.GroupKind{Kind: "Node"}) { // they are those of before an outage
			return view.Value, fmt.Errorf("read Nodes: %w", view.Problem)
		}
		if err == nil && view.Problem != nil && (view.Value.Nodes == nil || !view.Value.Nodes.HasSynced()) {
			return view.Value, fmt.Errorf("%w: Nodes of cluster %s cannot be listed: %w; check that the user of its kubeconfig may get, list and watch Nodes",
				cluster.ErrNotSynced, key, view.Problem)
		}
		return view.Value, err
	}
}

var errNoCluster = errors.New("the MachinePool names no cluster, and this controller has none of its own for such pools: name the pool's cluster")

// workloadOf looks up how a cluster is reached now, and has its Nodes wake pools.
func (r *Reconciler) workloadOf(key types.NamespacedName) (Workload, error) {
	switch {
	case key != types.NamespacedName{}:
		w, err := r.ports.NodesOf(key)
		r.events.follow(key, w)
		if err == nil && (w.Nodes == nil || w.Client == nil) {
			err = fmt.Errorf("NodesOf has no Nodes or no Client for cluster %s, and no error", key)
		}
		return w, err
	case r.ports.Workload.Nodes == nil:
		return Workload{}, errNoCluster
	}
	return r.ports.Workload, nil
}

// isUnread reports whether an error says only that a cluster cannot be read now, which ends with an event.
func isUnread(err error) bool {
	return errors.Is(err, cluster.ErrNotConnected) || errors.Is(err, cluster.ErrNotSynced) || errors.Is(err, errNoCluster)
}

// unreadProblem is what conditions say about Nodes that cannot be read.
func unreadProblem(err error) external.Problem {
	switch {
	case err == nil:
		return external.Problem{Reason: ReasonInspectionFailed, Message: "The Nodes of the cluster are not listed yet"}
	case errors.Is(err, cluster.ErrNotConnected):
		return external.Problem{Reason: ReasonConnectionDown, Message: err.Error()}
	case isUnread(err):
		return external.Problem{Reason: ReasonInspectionFailed, Message: err.Error()}
	}
	return external.Problem{Reason: ReasonInternalError, Message: seeLogs}
}
