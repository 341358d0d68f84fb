package simulation

import (
	"context"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
)

// change is one event of the API server.
type change struct {
	object  *unstructured.Unstructured
	removed bool
	// bookmark: the watch has come as far as the object, and says nothing about it.
	bookmark bool
}

// view is the cache of one process: a cache.Cache that has what was delivered to it, kind by kind, and is otherwise behind. Nothing in it
// runs by itself.
type view struct {
	cache.Cache // only what is below is used

	kinds   map[schema.GroupKind]*viewed
	indexes map[string]client.IndexerFunc // by kind and name
	indexed map[indexedBy][]string        // what the indexes say of objects, which never change
	typed   typedNodes
}

type indexedBy struct {
	object *unstructured.Unstructured
	index  string
}

// viewed is one kind in a view.
type viewed struct {
	handlers

	pending  []change
	objects  map[types.NamespacedName]*unstructured.Unstructured
	inOrder  []*unstructured.Unstructured // the objects, until one changes
	version  string                       // of the last event that was delivered
	stalled  time.Time                    // until when nothing is delivered
	session  *session                     // that shows it; nil for the kinds of the management cluster
	unlisted bool                         // nothing has been listed yet
}

func newView(kinds []schema.GroupVersionKind) *view {
	v := &view{
		kinds: map[schema.GroupKind]*viewed{}, indexes: map[string]client.IndexerFunc{}, indexed: map[indexedBy][]string{},
		typed: typedNodes{},
	}
	for _, gvk := range kinds {
		v.kinds[gvk.GroupKind()] = newViewed()
	}
	return v
}

func newViewed() *viewed {
	return &viewed{objects: map[types.NamespacedName]*unstructured.Unstructured{}}
}

// deliver takes the oldest event of a kind, and passes it on.
func (k *viewed) deliver() change {
	e := k.pending[0]
	k.pending = k.pending[1:]
	key := client.ObjectKeyFromObject(e.object)
	before := k.objects[key]
	k.inOrder = nil
	switch k.version = e.object.GetResourceVersion(); {
	case e.bookmark:
		return e
	case e.removed:
		delete(k.objects, key)
	default:
		k.objects[key] = e.object
	}
	k.tell(before, k.objects[key])
	return e
}

// sorted returns the objects, which must not be changed.
func (k *viewed) sorted() []*unstructured.Unstructured {
	if k.inOrder == nil {
		k.inOrder = sorted(k.objects)
	}
	return k.inOrder
}

func gvkOf(obj runtime.Object) (schema.GroupVersionKind, error) {
	gvk, err := apiutil.GVKForObject(obj, clientgoscheme.Scheme)
	if err == nil && meta.IsListType(obj) {
		gvk.Kind = gvk.Kind[:len(gvk.Kind)-len("List")]
	}
	return gvk, err
}

// of returns what a view has of the kind of an object.
func (v *view) of(obj runtime.Object) (*viewed, schema.GroupVersionKind, error) {
	gvk, err := gvkOf(obj)
	if err != nil {
		return nil, gvk, err
	}
	k := v.kinds[gvk.GroupKind()]
	if k == nil {
		return nil, gvk, &meta.NoKindMatchError{GroupKind: gvk.GroupKind(), SearchedVersions: []string{gvk.Version}}
	}
	return k, gvk, nil
}

// Get implements client.Reader.
func (v *view) Get(_ context.Context, key client.ObjectKey, into client.Object, opts ...client.GetOption) error {
	k, gvk, err := v.of(into)
	if err != nil {
		return err
	}
	obj := k.objects[key]
	if obj == nil {
		return apierrors.NewNotFound(schema.GroupResource{Group: gvk.Group, Resource: gvk.Kind}, key.Name)
	}
	var o client.GetOptions
	o.ApplyOptions(opts)
	if o.UnsafeDisableDeepCopy == nil || !*o.UnsafeDisableDeepCopy {
		obj = obj.DeepCopy()
	}
	return fill(obj, into)
}

// fill puts an object into one of another form.
func fill(from *unstructured.Unstructured, into runtime.Object) error {
	if u, is := into.(*unstructured.Unstructured); is {
		u.Object = from.Object
		return nil
	}
	return runtime.DefaultUnstructuredConverter.FromUnstructured(from.Object, into)
}

// List implements client.Reader.
func (v *view) List(_ context.Context, into client.ObjectList, opts ...client.ListOption) error {
	k, gvk, err := v.of(into)
	if err != nil {
		return err
	}
	var o client.ListOptions
	o.ApplyOptions(opts)
	var items []runtime.Object
	for _, obj := range k.sorted() {
		if !v.selects(gvk, &o, obj) {
			continue
		}
		if o.UnsafeDisableDeepCopy == nil || !*o.UnsafeDisableDeepCopy {
			obj = obj.DeepCopy()
		}
		items = append(items, obj)
	}
	into.SetResourceVersion(k.version)
	if list, is := into.(*unstructured.UnstructuredList); is {
		for _, obj := range items {
			list.Items = append(list.Items, *obj.(*unstructured.Unstructured)) //nolint:forcetypeassert // it was made above
		}
		return nil
	}
	return fmt.Errorf("a simulated cache lists unstructured objects only, not %T", into)
}

func (v *view) selects(gvk schema.GroupVersionKind, o *client.ListOptions, obj *unstructured.Unstructured) bool {
	if o.Namespace != "" && o.Namespace != obj.GetNamespace() {
		return false
	}
	if o.LabelSelector != nil && !o.LabelSelector.Matches(labels.Set(obj.GetLabels())) {
		return false
	}
	return o.FieldSelector == nil || v.inIndex(gvk, o.FieldSelector, obj)
}

func (v *view) inIndex(gvk schema.GroupVersionKind, selector fields.Selector, obj *unstructured.Unstructured) bool {
	for _, want := range selector.Requirements() {
		if !slices.Contains(v.values(gvk.GroupKind().String()+" "+want.Field, obj), want.Value) {
			return false
		}
	}
	return true
}

// mostIndexed is how many values are kept before they are computed anew.
const mostIndexed = 1000

func (v *view) values(index string, obj *unstructured.Unstructured) []string {
	by := indexedBy{obj, index}
	values, known := v.indexed[by]
	if extract := v.indexes[index]; !known && extract != nil {
		if len(v.indexed) >= mostIndexed {
			clear(v.indexed)
		}
		values = extract(obj)
		v.indexed[by] = values
	}
	return values
}

// IndexField implements client.FieldIndexer.
func (v *view) IndexField(_ context.Context, obj client.Object, field string, extract client.IndexerFunc) error {
	_, gvk, err := v.of(obj)
	if err == nil {
		v.indexes[gvk.GroupKind().String()+" "+field] = extract
	}
	return err
}

// GetInformer implements cache.Informers.
func (v *view) GetInformer(_ context.Context, obj client.Object, _ ...cache.InformerGetOption) (cache.Informer, error) {
	k, _, err := v.of(obj)
	return informer{kind: k}, err
}

// WaitForCacheSync implements cache.Informers.
func (v *view) WaitForCacheSync(context.Context) bool { return true }

// informer says how far a kind is, and passes its events on.
type informer struct {
	cache.Informer // only what is below is used

	kind *viewed
}

// AddEventHandler implements cache.Informer.
func (i informer) AddEventHandler(h toolscache.ResourceEventHandler) (toolscache.ResourceEventHandlerRegistration, error) {
	i.kind.add(h)
	return registration{}, nil
}

// AddEventHandlerWithOptions implements cache.Informer.
func (i informer) AddEventHandlerWithOptions(
	h toolscache.ResourceEventHandler, _ toolscache.HandlerOptions,
) (toolscache.ResourceEventHandlerRegistration, error) {
	return i.AddEventHandler(h)
}

// HasSynced implements cache.Informer.
func (informer) HasSynced() bool { return true }

// IsStopped implements cache.Informer.
func (informer) IsStopped() bool { return false }

// GetStore is that of shared informers; children ask it how far the cache is.
func (i informer) GetStore() toolscache.Store { return versioned{kind: i.kind} }

type versioned struct {
	toolscache.Store

	kind *viewed
}

// LastStoreSyncResourceVersion implements toolscache.Store.
func (v versioned) LastStoreSyncResourceVersion() string { return v.kind.version }

// List implements toolscache.Store. Metrics count what is in it.
func (v versioned) List() []any {
	var all []any
	for _, obj := range v.kind.sorted() {
		all = append(all, obj)
	}
	return all
}

// HasSyncedChecker implements cache.Informer.
func (informer) HasSyncedChecker() toolscache.DoneChecker { return listed{} }

type listed struct{}

// Name implements toolscache.DoneChecker.
func (listed) Name() string { return "simulated cache" }

// Done implements toolscache.DoneChecker.
func (listed) Done() <-chan struct{} {
	done := make(chan struct{})
	close(done)
	return done
}

// stalls are how long a watch shows nothing.
func stalls() []time.Duration { return []time.Duration{time.Minute, 20 * time.Second, 5 * time.Minute} }

// watchStalls lets one kind of a process be behind by minutes. A cache that lists again, and a process that starts, have a new watch.
func (w *World) watchStalls(ctx context.Context) {
	p, gvk := w.processes[w.choices.pick(len(w.processes))], w.served[w.choices.pick(len(w.served))]
	if w.choices.pick(2) == 1 {
		gvk = w.served[len(w.served)-1] // Nodes decide about drains and remediations
	}
	d := stalls()[w.choices.pick(len(stalls()))]
	w.stall(p, gvk.GroupKind(), d)
	w.behind(ctx, d)
}

func (w *World) stall(p *process, kind schema.GroupKind, d time.Duration) {
	p.view.kinds[kind].stalled = w.Now().Add(d)
	w.note(p.name, "sees no "+kind.Kind+" for "+d.String(), "")
}

// behind lets a stall last, in which all who can act do, and something happens in the middle of it or at its beginning: that a process does
// not see what it is about to judge is rare in a short history.
func (w *World) behind(ctx context.Context, d time.Duration) {
	among := slices.DeleteFunc([]Fault{KubeletReturns, UserDeletes, UserStrips}, func(f Fault) bool { return !w.has(f) })
	if w.nested > 0 || len(among) == 0 || w.choices.pick(2) == 0 {
		return
	}
	wait := func() { w.until(ctx, "", d/2, func() string { return "time" }) }
	if w.choices.pick(2) == 1 {
		wait()
	}
	w.happens(ctx, oneOf(w, among...))
	wait()
}

// watchesGoOn ends all that.
func (w *World) watchesGoOn() {
	for _, p := range w.processes {
		for _, k := range p.view.kinds {
			k.stalled = time.Time{}
		}
	}
}

// comes reports whether a process can see an event of a kind now.
func (w *World) comes(k *viewed) bool { return len(k.pending) > 0 && !w.Now().Before(k.stalled) }
