package cluster

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	ctrlcluster "sigs.k8s.io/controller-runtime/pkg/cluster"
)

// View is what is known of a cluster at one moment.
type View[T any] struct {
	// Key is the namespace and the name of the cluster.
	Key types.NamespacedName
	// Connected means that the API server answered when it was last asked, and that nothing has gone wrong since.
	Connected bool
	// Synced means that the first lists of the cache were complete once on this connection, and that it has read what happened while
	// the server was lost. Before that, what is not found may exist.
	Synced bool
	// Reason says why the cluster is not connected.
	Reason Reason
	// LastSeen is when the API server last gave a sign of life: an answer, a watch event or a bookmark. Zero means never
	// since the cluster was first asked for, or was asked for again after it was unused.
	LastSeen time.Time
	// Since is when Connected became what it is.
	Since time.Time
	// Problem is what does not work although the cluster is connected: a list that is refused, or a new kubeconfig that
	// leads nowhere while the old one still works. It matches ErrNotSynced for as long as the cache may not show yet what
	// happened while the server was lost. It is nil when the cluster is not connected.
	Problem error

	// Cluster is the connection: client, cache, mapper. It is nil until there was one, and stays when the server is lost.
	// Its client reads from the cache, which must have an informer of the kind, and never waits for it: before the first
	// list the error matches ErrNotSynced. Writes and live reads fail at once while the cluster is not connected, matching
	// ErrNotConnected. Callers that make their own clients pass GetHTTPClient along, or they bypass all that, and keep
	// credentials that were exchanged since.
	Cluster ctrlcluster.Cluster
	// Value is what Options.Setup returned for this connection; zero while Cluster is nil.
	Value T

	behind *behindError
}

// Behind reports whether the cache may not show yet what happened to objects of a kind while the server was lost. Where it is true,
// Synced is false; where Synced is false for another reason, their informer tells whether their first list is complete.
func (v View[T]) Behind(kind schema.GroupKind) bool {
	return v.behind != nil && slices.Contains(v.behind.kinds, kind)
}

// state is what views are made of. It is replaced as a whole when something changes.
type state[T any] struct {
	session *session[T] // nil while there is none
	reason  Reason
	err     *NotConnectedError // nil when connected
	since   time.Time
	seen    time.Time // what earlier connections heard
	synced  bool
	behind  *behindError // the cache may not show yet what happened during an outage
	problem error
}

func (s *state[T]) lastSeen() time.Time {
	if s.session != nil {
		if at := s.session.lastSeen(); at.After(s.seen) {
			return at
		}
	}
	return s.seen
}

func (s *state[T]) view(key types.NamespacedName) View[T] {
	v := View[T]{
		Key: key, Connected: s.reason == ReasonNone, Synced: s.synced && s.behind == nil, Reason: s.reason,
		LastSeen: s.lastSeen(), Since: s.since, Problem: s.problem, behind: s.behind,
	}
	if s.behind != nil && v.Connected {
		v.Problem = s.behind
	}
	if s.session != nil {
		v.Cluster, v.Value = s.session.cluster, s.session.value
	}
	return v
}
