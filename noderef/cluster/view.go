package cluster

import (
	"time"

	"k8s.io/apimachinery/pkg/types"
	ctrlcluster "sigs.k8s.io/controller-runtime/pkg/cluster"
)

// View is what is known about a cluster at one moment.
type View[T any] struct {
	// Key is the namespace and the name of the cluster.
	Key types.NamespacedName
	// Connected means that the API server answered the last probe, and that nothing has failed since.
	Connected bool
	// Synced means that the first lists of the cache are complete on this connection. While it is false, an object that is
	// not found may exist.
	Synced bool
	// Reason says why the cluster is not connected.
	Reason Reason
	// LastSeen is the time of the API server's last sign of life: an answer, a watch event or a bookmark. Zero means
	// never since the cluster came into use.
	LastSeen time.Time
	// Problem is what does not work although the cluster is connected: a list that is refused, or a new kubeconfig that
	// does not work while the old one still does. It is nil when the cluster is not connected.
	Problem error
	// UID is the UID of the namespace kube-system, by which a cluster is known again; empty when it is not known.
	UID types.UID

	// Cluster is the connection: client, cache, mapper. It is nil while there is none. Its client reads from the cache,
	// which must have an informer of the kind, and never waits: before the first list the error matches ErrNotSynced.
	// When the connection has ended, all requests fail at once with an error that matches ErrNotConnected. A caller that
	// creates its own clients must use GetHTTPClient: other clients outlive the connection and keep old credentials.
	Cluster ctrlcluster.Cluster
	// Value is the result of Options.Setup for this connection; zero while Cluster is nil.
	Value T
}
