package cluster

import (
	"context"
	"path"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/resourceversion"
)

// rewound reports whether the API server has gone back in time since the cache last heard of it, because its database was restored from
// a backup. Nobody else says so: a watch that goes on from a version of the future brings neither an event nor an error until that
// version has come, which may take days. One small list of
// each kind answers; while none does, nothing is rewound.
func (s *session[T]) rewound(ctx context.Context) bool {
	c, ok := s.cluster.GetCache().(*promptCache)
	if !ok {
		return false
	}
	for _, f := range c.following() {
		informer, ok := f.informer.(interface{ LastSyncResourceVersion() string })
		if !ok || !f.informer.HasSynced() {
			continue
		}
		seen := informer.LastSyncResourceVersion() // before the server is asked
		mapping, err := s.cluster.GetRESTMapper().RESTMapping(f.kind.GroupKind(), f.kind.Version)
		if err != nil {
			continue
		}
		now, err := s.prober.version(ctx, collection(mapping.Resource))
		if err != nil {
			continue
		}
		if order, err := resourceversion.CompareResourceVersion(now, seen); err == nil && order < 0 {
			return true
		}
	}
	return false
}

// collection is the path of all objects of a resource.
func collection(r schema.GroupVersionResource) string {
	if r.Group == "" {
		return path.Join("/api", r.Version, r.Resource)
	}
	return path.Join("/apis", r.Group, r.Version, r.Resource)
}
