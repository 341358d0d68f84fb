package fake

import (
	"context"
	"reflect"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// liveClient is the result of Client: controller-runtime's own client, replaced when a manager adds types.
type liveClient struct {
	current atomic.Pointer[client.WithWatch]
}

// learn adds the types of a scheme to the store's client. Types that are already known do not change.
func (s *Store) learn(scheme *runtime.Scheme) {
	s.clientMu.Lock()
	defer s.clientMu.Unlock()
	if scheme == nil || scheme == s.scheme || knowsAll(s.scheme, scheme) {
		return
	}
	both := runtime.NewScheme()
	for _, from := range []*runtime.Scheme{s.scheme, scheme} {
		for _, gv := range from.PrioritizedVersionsAllGroups() {
			metav1.AddToGroupVersion(both, gv)
		}
		for gvk, goType := range from.AllKnownTypes() {
			if obj, ok := reflect.TypeAssert[runtime.Object](reflect.New(goType)); ok && !both.Recognizes(gvk) {
				both.AddKnownTypeWithName(gvk, obj)
			}
		}
	}
	s.scheme = both
	s.client.use(s)
}

func knowsAll(scheme, other *runtime.Scheme) bool {
	for gvk := range other.AllKnownTypes() {
		if !scheme.Recognizes(gvk) {
			return false
		}
	}
	return true
}

// use creates a client with the current scheme of the store.
func (c *liveClient) use(s *Store) {
	// This fails only for a configuration without a valid transport.
	made, _ := client.NewWithWatch(s.config(false), client.Options{Scheme: s.scheme})
	c.current.Store(&made)
}

func (c *liveClient) now() client.WithWatch { return *c.current.Load() }

func (c *liveClient) Get(ctx context.Context, key client.ObjectKey, obj client.Object, o ...client.GetOption) error {
	return c.now().Get(ctx, key, obj, o...)
}

func (c *liveClient) List(ctx context.Context, list client.ObjectList, o ...client.ListOption) error {
	return c.now().List(ctx, list, o...)
}

func (c *liveClient) Watch(ctx context.Context, list client.ObjectList, o ...client.ListOption) (watch.Interface, error) {
	return c.now().Watch(ctx, list, o...)
}

func (c *liveClient) Apply(ctx context.Context, obj runtime.ApplyConfiguration, o ...client.ApplyOption) error {
	return c.now().Apply(ctx, obj, o...)
}

func (c *liveClient) Create(ctx context.Context, obj client.Object, o ...client.CreateOption) error {
	return c.now().Create(ctx, obj, o...)
}

func (c *liveClient) Delete(ctx context.Context, obj client.Object, o ...client.DeleteOption) error {
	return c.now().Delete(ctx, obj, o...)
}

func (c *liveClient) Update(ctx context.Context, obj client.Object, o ...client.UpdateOption) error {
	return c.now().Update(ctx, obj, o...)
}

func (c *liveClient) Patch(ctx context.Context, obj client.Object, p client.Patch, o ...client.PatchOption) error {
	return c.now().Patch(ctx, obj, p, o...)
}

func (c *liveClient) DeleteAllOf(ctx context.Context, obj client.Object, o ...client.DeleteAllOfOption) error {
	return c.now().DeleteAllOf(ctx, obj, o...)
}

func (c *liveClient) Status() client.SubResourceWriter { return c.now().Status() }

func (c *liveClient) SubResource(name string) client.SubResourceClient {
	return c.now().SubResource(name)
}

func (c *liveClient) Scheme() *runtime.Scheme { return c.now().Scheme() }

func (c *liveClient) RESTMapper() meta.RESTMapper { return c.now().RESTMapper() }

func (c *liveClient) GroupVersionKindFor(obj runtime.Object) (schema.GroupVersionKind, error) {
	return c.now().GroupVersionKindFor(obj)
}

func (c *liveClient) IsObjectNamespaced(obj runtime.Object) (bool, error) {
	return c.now().IsObjectNamespaced(obj)
}
