package machineset_test

import (
	"context"
	"slices"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// history is every state that the sets and the Machines of a store ever had, each kind apart.
type history struct {
	mu    sync.Mutex
	store client.Client
	kinds map[string][]snapshot
}

// snapshot is all objects of a kind, and the version of the last change to one of them.
type snapshot struct {
	version string
	objects []unstructured.Unstructured
}

func (h *history) note(ctx context.Context, gvks ...schema.GroupVersionKind) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, gvk := range gvks {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(gvk.GroupVersion().WithKind(gvk.Kind + "List"))
		if h.store.List(ctx, list) != nil {
			continue
		}
		now := snapshot{version: list.GetResourceVersion(), objects: list.Items}
		past := h.kinds[gvk.Kind]
		if len(past) > 0 && sameObjects(past[len(past)-1].objects, now.objects) {
			continue
		}
		h.kinds[gvk.Kind] = append(past, now)
	}
}

func sameObjects(a, b []unstructured.Unstructured) bool {
	return slices.EqualFunc(a, b, func(a, b unstructured.Unstructured) bool {
		return a.GetUID() == b.GetUID() && a.GetResourceVersion() == b.GetResourceVersion()
	})
}

func (h *history) length(kind string) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.kinds[kind])
}

// lagged is the cache of one process: of some kinds it shows what was true at a time of its own, of others what is.
type lagged struct {
	cache.Cache // what is not used is nil

	history *history
	at      map[string]int // by kind
	indexes map[string]client.IndexerFunc
}

func newLagged(h *history) *lagged {
	return &lagged{history: h, at: map[string]int{}, indexes: map[string]client.IndexerFunc{}}
}

func (l *lagged) view(kind string) (snapshot, bool) {
	l.history.mu.Lock()
	defer l.history.mu.Unlock()
	past, tracked := l.history.kinds[kind]
	if !tracked {
		return snapshot{}, false
	}
	return past[min(l.at[kind], len(past)-1)], true
}

func (l *lagged) Get(ctx context.Context, key client.ObjectKey, obj client.Object, _ ...client.GetOption) error {
	gvk := obj.GetObjectKind().GroupVersionKind()
	seen, tracked := l.view(gvk.Kind)
	if !tracked {
		return l.history.store.Get(ctx, key, obj)
	}
	for i := range seen.objects {
		if client.ObjectKeyFromObject(&seen.objects[i]) == key {
			seen.objects[i].DeepCopyInto(obj.(*unstructured.Unstructured))
			return nil
		}
	}
	return apierrors.NewNotFound(schema.GroupResource{Group: gvk.Group, Resource: gvk.Kind}, key.Name)
}

func (l *lagged) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	into, _ := list.(*unstructured.UnstructuredList)
	gvk := list.GetObjectKind().GroupVersionKind()
	kind := gvk.Kind[:len(gvk.Kind)-len("List")]
	seen, tracked := l.view(kind)
	var o client.ListOptions
	o.ApplyOptions(options)
	if !tracked {
		return l.history.store.List(ctx, list, &client.ListOptions{Namespace: o.Namespace, LabelSelector: o.LabelSelector})
	}
	for i := range seen.objects {
		obj := seen.objects[i].DeepCopy()
		if o.FieldSelector != nil {
			want := o.FieldSelector.Requirements()[0]
			if !slices.Contains(l.indexes[kind](obj), want.Value) {
				continue
			}
		}
		into.Items = append(into.Items, *obj)
	}
	return nil
}

func (l *lagged) IndexField(_ context.Context, obj client.Object, _ string, index client.IndexerFunc) error {
	l.indexes[obj.GetObjectKind().GroupVersionKind().Kind] = index
	return nil
}

func (l *lagged) GetInformer(_ context.Context, obj client.Object, _ ...cache.InformerGetOption) (cache.Informer, error) {
	seen, _ := l.view(obj.GetObjectKind().GroupVersionKind().Kind)
	return laggedInformer{version: seen.version}, nil
}

type laggedInformer struct {
	cache.Informer

	version string
}

func (laggedInformer) HasSynced() bool { return true }

func (laggedInformer) AddEventHandler(toolscache.ResourceEventHandler) (toolscache.ResourceEventHandlerRegistration, error) {
	return nil, nil
}

func (i laggedInformer) GetStore() toolscache.Store { return laggedStore{version: i.version} }

type laggedStore struct {
	toolscache.Store

	version string
}

func (s laggedStore) LastStoreSyncResourceVersion() string { return s.version }

// spy is the client of one process. It notes what every write changes, and may die before or after one.
type spy struct {
	client.Client

	history *history
	gvks    []schema.GroupVersionKind
	dies    func() bool
	watch   func(verb string, obj client.Object) // called after each creation and deletion

	mu   sync.Mutex
	dead bool
}

func (s *spy) write(ctx context.Context, do func() error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.dead = s.dead || s.dies(); s.dead {
		return errKilled
	}
	err := do()
	s.history.note(ctx, s.gvks...)
	if s.dead = s.dies(); s.dead {
		return errKilled
	}
	return err
}

func (s *spy) watched(verb string, obj client.Object, err error) error {
	if err == nil {
		s.watch(verb, obj)
	}
	return err
}

func (s *spy) Create(ctx context.Context, obj client.Object, o ...client.CreateOption) error {
	return s.write(ctx, func() error { return s.watched("create", obj, s.Client.Create(ctx, obj, o...)) })
}

func (s *spy) Delete(ctx context.Context, obj client.Object, o ...client.DeleteOption) error {
	return s.write(ctx, func() error { return s.watched("delete", obj, s.Client.Delete(ctx, obj, o...)) })
}

func (s *spy) Patch(ctx context.Context, obj client.Object, p client.Patch, o ...client.PatchOption) error {
	return s.write(ctx, func() error { return s.Client.Patch(ctx, obj, p, o...) })
}

func (s *spy) Status() client.SubResourceWriter { return spyStatus{s.Client.Status(), s} }

type spyStatus struct {
	client.SubResourceWriter

	spy *spy
}

func (s spyStatus) Patch(ctx context.Context, obj client.Object, p client.Patch, o ...client.SubResourcePatchOption) error {
	return s.spy.write(ctx, func() error { return s.SubResourceWriter.Patch(ctx, obj, p, o...) })
}
