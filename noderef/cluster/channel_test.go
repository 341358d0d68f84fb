package cluster

import (
	"context"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

// channelSource enqueues everything that is in a channel, in order.
func channelSource(requests chan reconcile.Request) source.Source {
	return source.Func(func(_ context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
		for len(requests) > 0 {
			queue.Add(<-requests)
		}
		return nil
	})
}
