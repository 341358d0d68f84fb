package cluster

import (
	"context"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	ctrlcluster "sigs.k8s.io/controller-runtime/pkg/cluster"
)

// Access tells how to reach a cluster. [Secrets], [Same] and [AccessFunc] implement it.
type Access interface {
	// Target returns how to reach one cluster. It is called in the background and may be slow; ctx ends when the result
	// is no longer needed. When nothing is known about the cluster, the error matches ErrNoKubeconfig. An error that
	// matches errInvalidKubeconfig or ErrUnsafeKubeconfig delays the next call. It must be safe for concurrent use.
	Target(ctx context.Context, cluster types.NamespacedName) (Target, error)
}

// Target is a way to reach a cluster: either Config or Running is set.
type Target struct {
	// Config is a client configuration. It is copied. The Options replace its rate limits, timeout and user agent; its
	// dialer, proxy and wrappers are kept. The files and plugins that it names are used: see ParseKubeconfig.
	Config *rest.Config
	// Version changes when Config does. While it is the same, the connection is kept. When it changes and only a token,
	// a password or a client certificate is new, the connection continues with the new one. A Config with a plugin, or
	// with functions other than Proxy, cannot be compared, so the connection is replaced.
	Version string
	// Running is a cluster that another component starts and stops, such as the manager. It counts as connected.
	Running ctrlcluster.Cluster
}

// notifier is an Access that reports changes of a target. Without it, Target is called again whenever a connection is
// lost or refused, and every five minutes if the target is Running; a change of credentials that still work is not
// noticed. With it, Target is called every five minutes while a connection is lost, in case an event was missed.
type notifier interface {
	// notify is called once, before the first Target, and returns without waiting for events. It calls changed until
	// ctx ends, and never before it returns an error. gone means that the cluster no longer exists, even if another one
	// now has its name: its connection is closed at once.
	notify(ctx context.Context, changed func(cluster types.NamespacedName, gone bool)) error
}

// AccessFunc is a function as an [Access].
type AccessFunc func(ctx context.Context, cluster types.NamespacedName) (Target, error)

// Target implements [Access].
func (f AccessFunc) Target(ctx context.Context, cluster types.NamespacedName) (Target, error) {
	return f(ctx, cluster)
}

// Same returns an Access that returns the same running cluster for every name, such as the manager: the Nodes are in
// the cluster of the Machines.
func Same(running ctrlcluster.Cluster) Access {
	return AccessFunc(func(context.Context, types.NamespacedName) (Target, error) {
		return Target{Running: running}, nil
	})
}
