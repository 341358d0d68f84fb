package external

import (
	"context"
	"reflect"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/machinist-dev/machinist/contract"
)

// Source returns a source for a controller's Watches (builder.WatchesRawSource). It enqueues the requests of mapper for
// a Cluster when the Cluster was created or deleted, is paused or resumed, is being deleted, is initialized, or has
// another control plane or other labels, which MachineDrainRules select by. Other changes of a Cluster cause no event.
func (c *Clusters) Source(mapper ClusterMapper) source.Source {
	return source.Func(func(ctx context.Context, q queue) error {
		c.tracker.start(&sink{ctx, q, func(_ context.Context, _, obj client.Object) []reconcile.Request {
			return mapper(client.ObjectKeyFromObject(obj))
		}})
		return nil
	})
}

// isNews reports whether a change of a Cluster matters to its Machines. Its other fields, such as the number of Machines that are up to
// date, change often.
func (c *Clusters) isNews(before, now client.Object) bool {
	var old, fresh contract.ClusterState
	if c.read(before, &old) != nil || c.read(now, &fresh) != nil {
		return true
	}
	for _, s := range []*contract.ClusterState{&old, &fresh} {
		s.Metadata = contract.Metadata{UID: s.UID, Deleting: s.Deleting, Labels: s.Labels}
	}
	return !reflect.DeepEqual(old, fresh)
}
