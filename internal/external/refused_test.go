package external

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// unserving is a cache whose server does not serve a version.
type unserving struct {
	cache.Cache

	asked int
}

func (u *unserving) GetInformer(_ context.Context, obj client.Object, _ ...cache.InformerGetOption) (cache.Informer, error) {
	u.asked++
	gvk := obj.GetObjectKind().GroupVersionKind()
	return nil, &meta.NoKindMatchError{GroupKind: gvk.GroupKind(), SearchedVersions: []string{gvk.Version}}
}

// Otherwise a thousand Machines that reference such a kind would run discovery all the time, and every new kind waits for discovery.
func TestDiscoveryOfAKindThatIsNotServedIsLimited(t *testing.T) {
	server, now := &unserving{}, clocktesting.NewFakePassiveClock(time.Unix(1000, 0))
	tracker := NewTracker(server, nil, "test")
	tracker.clock = now
	kind := &unstructured.Unstructured{}
	kind.SetGroupVersionKind(schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Thing"})
	look := func() {
		for range 1000 {
			_, err := tracker.Ensure(t.Context(), kind)
			require.True(t, meta.IsNoMatchError(err))
		}
	}
	look()
	require.Equal(t, 1, server.asked)
	now.SetTime(now.Now().Add(NotServedRetry))
	look()
	require.Equal(t, 2, server.asked)
	tracker.handler(CRDMetadata()).OnAdd(CRDMetadata(), false)
	look()
	require.Equal(t, 3, server.asked, "a change of a CustomResourceDefinition may have changed that")
}
