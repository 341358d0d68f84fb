package machine

import (
	"context"
	"errors"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/noderef"
	"github.com/machinist-dev/machinist/noderef/cluster"
	"github.com/machinist-dev/machinist/noderef/nodeindex"
)

// Workload is how the Nodes of one cluster are reached.
type Workload struct {
	// Nodes finds Nodes. It should be a pointer, such as a *nodeindex.Index, and another one for another connection: that is
	// how a Reconciler sees that it has to listen anew. Its events wake Machines if it has a Source as a nodeindex.Index does.
	Nodes Nodes
	// Client writes Nodes; its writes must not wait for a server that does not answer.
	Client client.Client
	// Drainer drains Nodes; nil means that Nodes are not drained.
	Drainer Drainer
	// LastSeen is when the cluster last gave a sign of life; zero for never, or when that is not known.
	LastSeen time.Time
	// Since is when the cluster became connected, or not connected; zero when that is not known.
	Since time.Time
}

var errNoCluster = errors.New("the Machine names no cluster, and this controller has none of its own for such Machines: name the Machine's cluster")

// NodesOf returns what Ports.NodesOf asks for, from the connections of cs. Ports.WorkloadEvents is its method Source:
//
//	ports.NodesOf, ports.WorkloadEvents = machine.NodesOf(cs), cs.Source
//
// The function makes no request and waits for nothing.
func NodesOf(cs *cluster.Clusters[Workload]) func(types.NamespacedName) (Workload, error) {
	return func(key types.NamespacedName) (Workload, error) {
		view, err := cs.Get(key)
		w := view.Value
		w.LastSeen, w.Since = view.LastSeen, view.Since
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
		drainer, err := newDrainer(c)
		if err != nil {
			return Workload{}, fmt.Errorf("drain runner: %w", err)
		}
		c.Go(func(ctx context.Context) { _ = drainer.Start(ctx) }) // when it has ended, its Step says so
		return Workload{Nodes: nodes, Client: c.GetClient(), Drainer: drainer}, nil
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
	return Workload{Nodes: r.ports.Nodes, Client: r.ports.NodeClient, Drainer: r.ports.Drainer}, nil
}

// isUnread reports whether an error says only that a cluster cannot be read now, which ends with an event.
func isUnread(err error) bool {
	return errors.Is(err, cluster.ErrNotConnected) || errors.Is(err, cluster.ErrNotSynced) || errors.Is(err, errNoCluster)
}

// unread says why the Nodes are not known.
func (s *Scope) unread() string {
	switch {
	case s.NodesErr != nil:
		return s.NodesErr.Error()
	case s.cluster != types.NamespacedName{}:
		return "Waiting for the first list of Nodes of cluster " + s.cluster.String()
	default:
		return "Waiting for the first list of Nodes"
	}
}

// isTold reports whether an event wakes the Machine when its Nodes, which are unread, can be read.
func (s *Scope) isTold() bool { return s.NodesErr != nil || s.cluster != types.NamespacedName{} }

// nodesUnread says of a Machine that its Node could not be looked for. Its events wake the Machine when that changes: nothing
// is tried again here.
func (s *Scope) nodesUnread() (Result, error) {
	if !s.isTold() {
		return Result{}, nil // for a moment, at the start
	}
	var down *cluster.NotConnectedError
	said, found := s.Condition(ConditionNodeReady)
	d := decideUnread(unreadFacts{
		Down: errors.Is(s.NodesErr, cluster.ErrNotConnected), Failed: s.NodesErr != nil && !isUnread(s.NodesErr), Message: s.unread(),
		Early:   errors.As(s.NodesErr, &down) && down.Reason == cluster.ReasonConnecting,
		HasNode: s.State.Node.Name != "", Said: said.Reason, Found: found,
		Since: s.Workload.Since, Now: s.Now, Grace: s.env.options.ConnectionGrace,
	})
	for _, c := range d.Conditions {
		s.Assert(c)
	}
	if s.NodesErr != nil && !isUnread(s.NodesErr) {
		return Result{}, s.NodesErr
	}
	return Result{RequeueAfter: d.Again}, nil
}

// unreadFacts are what is said about a Machine whose Node could not be looked for depends on.
type unreadFacts struct {
	// Down: the cluster is not connected. Failed: it is not known why the Nodes are unread. Otherwise their first list has
	// not come.
	Down, Failed bool
	// Early: the first attempt to connect since this process began is still under way.
	Early   bool
	Message string
	// HasNode: a Node was recorded.
	HasNode bool
	// Said is the reason of the NodeReady condition that is there, if it was Found.
	Said  string
	Found bool
	// Since is when the cluster came to be as it is; for Grace from then on, readiness of Machines with a Node stays.
	Since, Now time.Time
	Grace      time.Duration
}

type unreadDecision struct {
	Conditions []metav1.Condition // none: what is there stays
	Again      time.Duration      // when the conditions have to be said at the latest
}

// decideUnread: a server that restarts, or a process that does, must not change the readiness of every Machine twice, so that
// of Machines with a Node stays for a while. Machines that wait for their Node say at once what for.
func decideUnread(f unreadFacts) unreadDecision {
	if f.Early && f.Found {
		return unreadDecision{}
	}
	reason := ReasonInspectionFailed
	switch {
	case f.Down:
		reason = ReasonConnectionDown
	case f.Failed:
		reason = ReasonInternalError
	}
	keeps := f.HasNode && f.Found && f.Said != ReasonConnectionDown && f.Said != reason
	if left := f.Since.Add(f.Grace).Sub(f.Now); keeps && left > 0 {
		return unreadDecision{Again: left}
	}
	return unreadDecision{Conditions: []metav1.Condition{
		condition(ConditionNodeReady, metav1.ConditionUnknown, reason, f.Message),
		condition(ConditionNodeHealthy, metav1.ConditionUnknown, reason, f.Message),
	}}
}
