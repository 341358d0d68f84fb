package external

import (
	"context"
	"errors"
	"maps"
	"time"

	"k8s.io/apimachinery/pkg/types"
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
		if mapper == nil {
			return errors.New("clusters: the source has no mapper")
		}
		c.tracker.start(&sink{ctx, q, func(_ context.Context, _, obj client.Object) []reconcile.Request {
			return mapper(client.ObjectKeyFromObject(obj))
		}, mapper})
		return nil
	})
}

// isNews reports whether a change of a Cluster matters to its Machines.
func (c *Clusters) isNews(before, now client.Object) bool {
	return c.lookOf(before) != c.lookOf(now) || !maps.Equal(before.GetLabels(), now.GetLabels())
}

func (c *Clusters) changed(obj client.Object) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.events++
	delete(c.answers, client.ObjectKeyFromObject(obj))
}

// clusterLook has the fields of a Cluster that Machines use. Other fields, such as the number of Machines that are up
// to date, change often and do not matter to Machines.
type clusterLook struct {
	uid                                           types.UID
	unreadable                                    string
	paused, deleting, infrastructure, initialized bool
	unready                                       bool
	initializedAt, readyAt                        time.Time
	controlPlane                                  contract.Ref
}

func (c *Clusters) lookOf(obj client.Object) clusterLook {
	var s contract.ClusterState
	if err := c.read(obj, &s); err != nil {
		return clusterLook{unreadable: err.Error()}
	}
	return clusterLook{
		uid: s.UID, paused: s.SpecPaused, deleting: !s.Deleting.IsZero(), infrastructure: s.InfrastructureProvisioned,
		unready: s.InfrastructureUnready, readyAt: s.InfrastructureReadyAt,
		initialized: s.ControlPlaneInitialized, initializedAt: s.ControlPlaneInitializedAt, controlPlane: s.ControlPlane,
	}
}
