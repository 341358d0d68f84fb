package cluster

import (
	"context"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	ctrlcluster "sigs.k8s.io/controller-runtime/pkg/cluster"
)

// Access says how clusters are reached. [Secrets], [Same] and [AccessFunc] implement it.
type Access interface {
	// Target says how to reach one cluster. It may take its time, for it is called in the background; ctx ends when the
	// answer is no longer wanted. When nothing is known of the cluster, the error matches ErrNoKubeconfig; errors that
	// match ErrInvalidKubeconfig or ErrUnsafeKubeconfig mean that asking again soon is of no use. It must be safe for
	// concurrent use.
	Target(ctx context.Context, cluster types.NamespacedName) (Target, error)
}

// Target is how a cluster is reached: either Config or Running is set.
type Target struct {
	// Config is a client configuration. It is copied. Its rate limits, timeout and user agent are replaced by those of
	// the Options; dialer, proxy and wrappers are kept. What it names (files, plugins) is used: see ParseKubeconfig.
	Config *rest.Config
	// Version changes when Config does. When it stays the same, so does the connection. When it changes and only a token, a password or
	// a client certificate is new, the connection goes on with that. Where Config has a plugin, or functions other than Proxy, which
	// cannot be compared, the connection is made anew.
	Version string
	// Running is a cluster that another component starts and stops, such as the manager. It counts as connected.
	Running ctrlcluster.Cluster
}

// Notifier is an Access that tells when a target changes. Without it, targets are asked for again whenever a connection is
// lost or refused, and every five minutes where the target is Running; a change of credentials that still work goes unnoticed.
// With it they are asked for every five minutes while a connection is lost, should an event have been missed.
type Notifier interface {
	// Notify is called once, before the first Target, and returns without waiting for events. It calls changed until ctx
	// ends, never before it returns an error. gone means that the cluster that was there is not there any more, even if
	// another one of the same name has taken its place: its connection is closed at once.
	Notify(ctx context.Context, changed func(cluster types.NamespacedName, gone bool)) error
}

// AccessFunc is a function as an [Access].
type AccessFunc func(ctx context.Context, cluster types.NamespacedName) (Target, error)

// Target implements [Access].
func (f AccessFunc) Target(ctx context.Context, cluster types.NamespacedName) (Target, error) {
	return f(ctx, cluster)
}

// Same returns an Access that answers every question with one running cluster, such as a manager: the Nodes are where the
// Machines are.
func Same(running ctrlcluster.Cluster) Access {
	return AccessFunc(func(context.Context, types.NamespacedName) (Target, error) {
		return Target{Running: running}, nil
	})
}
