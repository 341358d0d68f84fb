package cluster

import (
	"time"

	"k8s.io/apimachinery/pkg/types"
	ctrlcluster "sigs.k8s.io/controller-runtime/pkg/cluster"
)

// View is the state of a cluster at one moment.
type View[T any] struct {
	// Synced means that the first lists of the cache are complete on this connection. While it is false, an object that is not found may
	// exist.
	Synced bool
	// Reason is why the cluster is not connected. It is empty while the API server answered the last probe and nothing has failed since.
	Reason Reason
	// LastSeen is the time of the API server's last sign of life: a response, a watch event or a bookmark. Zero means never since the cluster
	// came into use.
	LastSeen time.Time
	// Problem is an error of a connected cluster: a rejected list, or a new kubeconfig that does not work while the old one still does. It is
	// nil when the cluster is not connected.
	Problem error
	// UID is the UID of the namespace kube-system, which identifies the cluster; empty when unknown.
	UID types.UID

	// Cluster is the connection: client, cache, mapper. It is nil without a connection. Its client reads from the cache, which must have an
	// informer of the kind, and never waits: before the first list the error matches ErrNotSynced. When the connection has ended, all requests
	// fail at once with an error that matches ErrNotConnected. A caller that creates its own clients must use GetHTTPClient: other clients
	// outlive the connection and use old credentials.
	Cluster ctrlcluster.Cluster
	// Value is the result of Options.Setup for this connection; zero while Cluster is nil.
	Value T
}
