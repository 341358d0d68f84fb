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

// informerProgress compares the resource version of an informer with that of its API server.
type informerProgress struct {
	informer versioned
	kind     schema.GroupKind
	path     string
	seen     string // the resource version of the informer before the server was asked
	want     string // the resource version of the server; empty while it is unknown
	arrived  bool   // the informer had reached want at the last check
}

// versioned is an informer that reports its resource version.
type versioned interface {
	cache.Informer
	LastSyncResourceVersion() string
}

// progress returns the synced informers of the cache, one per kind.
func (s *session[T]) progress() []informerProgress {
	c, ok := s.cluster.GetCache().(*nonBlockingCache)
	if !ok {
		return nil
	}
	var all []informerProgress
	for _, f := range c.trackedInformers() {
		informer, ok := f.informer.(versioned)
		if !ok || !informer.HasSynced() || informer.IsStopped() {
			continue
		}
		mapping, err := s.cluster.GetRESTMapper().RESTMapping(f.kind.GroupKind(), f.kind.Version)
		if err == nil {
			all = append(all, informerProgress{
				informer: informer, kind: f.kind.GroupKind(), path: collection(mapping.Resource), seen: informer.LastSyncResourceVersion(),
			})
		}
	}
	return all
}

// checkProgress lists each of these kinds with a limit of one, unless the server's version is known, and returns the
// informers that have not reached it. rewound reports that the server has gone back in time since the informers last
// read from it, because its database was restored from a backup. There is no other signal: a watch from a future
// resource version receives neither an event nor an error until that version is reached, which may take days.
//
// If versions cannot be compared or may not be read, nothing is behind and nothing is rewound.
func (s *session[T]) checkProgress(ctx context.Context, informers []informerProgress) (behind []informerProgress, rewound bool) {
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
		if !i.caughtUp() {
			behind = append(behind, i)
		}
	}
	return behind, false
}

// caughtUp reports whether the informer had reached the server's version at the previous check too. Between the two
// checks its event handlers receive what it has read.
func (i *informerProgress) caughtUp() bool {
	before := i.arrived
	order, err := resourceversion.CompareResourceVersion(i.informer.LastSyncResourceVersion(), i.want)
	i.arrived = err != nil || order >= 0 || i.informer.IsStopped()
	return before && i.arrived
}

// rewound reports whether the API server has gone back in time since the cache last read from it.
func (s *session[T]) rewound(ctx context.Context) bool {
	_, rewound := s.checkProgress(ctx, s.progress())
	return rewound
}

// mayPass reports whether a failed request may succeed later without any change.
func mayPass(err error) bool {
	var answer apierrors.APIStatus
	if !errors.As(err, &answer) {
		return true
	}
	code := answer.Status().Code
	return code >= http.StatusInternalServerError || code == http.StatusTooManyRequests
}

// collection returns the path of all objects of a resource.
func collection(r schema.GroupVersionResource) string {
	if r.Group == "" {
		return path.Join("/api", r.Version, r.Resource)
	}
	return path.Join("/apis", r.Group, r.Version, r.Resource)
}
