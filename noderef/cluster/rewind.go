package cluster

import (
	"context"
	"errors"
	"net/http"
	"path"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"sigs.k8s.io/controller-runtime/pkg/cache"
)

// laggard is an informer that may not have heard yet what its API server knows.
type laggard struct {
	informer versioned
	kind     schema.GroupKind
	path     string
	seen     string // the resource version at which the informer stood before the server was asked
	want     string // the one at which the server stood; empty while it has not said
	arrived  bool   // the informer had come so far when it was last looked at
}

// versioned is an informer that says how far it is.
type versioned interface {
	cache.Informer
	LastSyncResourceVersion() string
}

// laggards returns the informers of the cache that have their first list, of each kind one.
func (s *session[T]) laggards() []laggard {
	c, ok := s.cluster.GetCache().(*promptCache)
	if !ok {
		return nil
	}
	var all []laggard
	for _, f := range c.following() {
		informer, ok := f.informer.(versioned)
		if !ok || !informer.HasSynced() || informer.IsStopped() {
			continue
		}
		mapping, err := s.cluster.GetRESTMapper().RESTMapping(f.kind.GroupKind(), f.kind.Version)
		if err == nil {
			all = append(all, laggard{
				informer: informer, kind: f.kind.GroupKind(), path: collection(mapping.Resource), seen: informer.LastSyncResourceVersion(),
			})
		}
	}
	return all
}

// survey asks the API server how far it is with what each of these informers has, by one small list each unless it has said so
// before, and returns those that have yet to come so far. It also reports whether the server has gone back in time since they last
// heard of it, because its database was restored from a backup. No other signal exists: a watch that goes on from a version of the future
// brings neither an event nor an error until that version has come, which may take days.
//
// Where versions cannot be compared or may not be read, nothing is behind, and nothing is rewound.
func (s *session[T]) survey(ctx context.Context, informers []laggard) (behind []laggard, rewound bool) {
	ctx, end := s.shown.prober.limit(ctx)
	defer end()
	for _, i := range informers {
		if i.want == "" {
			now, err := s.shown.prober.version(ctx, i.path)
			if err != nil {
				if mayPass(err) {
					behind = append(behind, i)
				}
				continue
			}
			order, err := resourceversion.CompareResourceVersion(now, i.seen)
			switch {
			case err != nil || order == 0:
				continue
			case order < 0:
				return nil, true
			}
			i.want = now
		}
		if !i.settled() {
			behind = append(behind, i)
		}
	}
	return behind, false
}

// settled reports whether the informer had come as far as the server when it was last looked at. Between the two looks, those who
// listen to the informer are told what it has heard.
func (i *laggard) settled() bool {
	before := i.arrived
	order, err := resourceversion.CompareResourceVersion(i.informer.LastSyncResourceVersion(), i.want)
	i.arrived = err != nil || order >= 0 || i.informer.IsStopped()
	return before && i.arrived
}

// rewound reports whether the API server has gone back in time since the cache last heard of it.
func (s *session[T]) rewound(ctx context.Context) bool {
	_, rewound := s.survey(ctx, s.laggards())
	return rewound
}

// mayPass reports whether a request that failed may succeed without any action.
func mayPass(err error) bool {
	var answer apierrors.APIStatus
	if !errors.As(err, &answer) {
		return true
	}
	code := answer.Status().Code
	return code >= http.StatusInternalServerError || code == http.StatusTooManyRequests
}

// collection is the path of all objects of a resource.
func collection(r schema.GroupVersionResource) string {
	if r.Group == "" {
		return path.Join("/api", r.Version, r.Resource)
	}
	return path.Join("/apis", r.Group, r.Version, r.Resource)
}
