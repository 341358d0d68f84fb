package cluster

import (
	"context"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
)

// Access returns how to reach a cluster. [Secrets] and [AccessFunc] implement it.
type Access interface {
	// Target returns how to reach one cluster. It is called in the background and may be slow; ctx ends when the result is no longer needed.
	// For an unknown cluster, the error matches ErrNoKubeconfig. It must be safe for concurrent use.
	Target(ctx context.Context, cluster types.NamespacedName) (Target, error)
}

// Target is a way to reach a cluster.
type Target struct {
	// Config is a client configuration. It is copied. The Options replace its rate limits, timeout and user agent, but not its dialer, proxy
	// and wrappers. The files and plugins that it names are used: see ParseKubeconfig.
	Config *rest.Config
	// Version changes when Config does. While it is the same, the connection is not replaced. When only a token, a password or a client
	// certificate changes, the connection continues with the new one. A Config with a plugin or a function cannot be compared, so the
	// connection is replaced.
	Version string
}

// notifier is an Access that reports changes of a target. Without it, Target is called only for each attempt to connect:
// a change of credentials that still work is not noticed.
type notifier interface {
	// notify is called once, before the first Target, and returns without waiting for events. It calls changed until ctx ends, and never
	// before it returns an error.
	notify(ctx context.Context, changed func(cluster types.NamespacedName)) error
}

// AccessFunc is a function as an [Access].
type AccessFunc func(ctx context.Context, cluster types.NamespacedName) (Target, error)

// Target implements [Access].
func (f AccessFunc) Target(ctx context.Context, cluster types.NamespacedName) (Target, error) {
	return f(ctx, cluster)
}
