package simulation

import (
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/machinist-dev/machinist/noderef"
	"github.com/machinist-dev/machinist/noderef/cluster"
)

// change is one event of the API server.
type change struct {
	object  *unstructured.Unstructured
	removed bool
	// bookmark: the watch has come as far as the object, and the object has not changed for it.
	bookmark bool
}

// view is the cache of one process: a cache.Cache that has what was delivered to it, kind by kind, and is otherwise behind. Nothing in it
// runs by itself.
type view struct {
	cache.Cache // only what is below is used

	kinds   map[schema.GroupKind]*viewed
	indexes map[string]client.IndexerFunc // by kind and name
	indexed map[indexedBy][]string        // the values in the indexes of objects, which never change
}

type indexedBy struct {
	object *unstructured.Unstructured
	index  string
}

// viewed is one kind in a view, or what one watch shows of it.
type viewed struct {
	handlers

	kind     string
	pending  []change
	objects  map[types.NamespacedName]*unstructured.Unstructured
	inOrder  []*unstructured.Unstructured // the objects, until one changes
	version  string                       // of the last event that was delivered
	stalled  time.Time                    // until when nothing is delivered
	session  *session                     // that shows it; nil for the kinds of the management cluster
	unlisted bool                         // nothing has been listed yet
	nodes    *cluster.NodeIndex           // of Nodes
	typed    memo[corev1.Node]
}

func nodeKind() schema.GroupKind { return schema.GroupKind{Kind: "Node"} }

func newView(kinds []schema.GroupVersionKind) *view {
	v := &view{kinds: map[schema.GroupKind]*viewed{}, indexes: map[string]client.IndexerFunc{}, indexed: map[indexedBy][]string{}}
	for _, gvk := range kinds {
		v.kinds[gvk.GroupKind()] = newViewed(gvk.Kind)
	}
	return v
}

func newViewed(kind string) *viewed {
	k := &viewed{kind: kind, objects: map[types.NamespacedName]*unstructured.Unstructured{}, typed: memo[corev1.Node]{}}
	if kind == nodeKind().Kind { // whatever the form of an ID, the index finds the Node
		rules := noderef.Rules{Canonical: storedID}
		k.nodes, _ = cluster.NewNodeIndex(context.Background(), informers{kind: k}, rules) //nolint:forbidigo // nothing uses it
		k.take()
	}
	return k
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
	k.notify(before, k.objects[key])
	return e
}

// list takes what there is now, and passes on what is new.
func (k *viewed) list(all []*unstructured.Unstructured, version string) {
	before := k.objects
	k.objects, k.inOrder, k.pending, k.version = map[types.NamespacedName]*unstructured.Unstructured{}, nil, nil, version
	k.stalled, k.unlisted = time.Time{}, false
	for _, obj := range all {
		k.objects[client.ObjectKeyFromObject(obj)] = obj
	}
	for _, obj := range sorted(before) {
		k.notify(obj, k.objects[client.ObjectKeyFromObject(obj)])
	}
	for _, obj := range k.sorted() {
		if before[client.ObjectKeyFromObject(obj)] == nil {
			k.notify(nil, obj)
		}
	}
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

// memo has objects that never change in the form of Go, which each gets once and which must not be changed.
type memo[T any] map[*unstructured.Unstructured]*T

func (m memo[T]) of(obj *unstructured.Unstructured) *T {
	into := m[obj]
	if into == nil {
		if len(m) >= mostIndexed {
			clear(m)
		}
		into = typed[T](obj)
		m[obj] = into
	}
	return into
}

// List implements client.Reader.
func (v *view) List(_ context.Context, into client.ObjectList, opts ...client.ListOption) error {
	k, gvk, err := v.of(into)
	if err != nil {
		return err
	}
	var o client.ListOptions
	o.ApplyOptions(opts)
	all := &unstructured.UnstructuredList{Object: map[string]any{}}
	all.SetResourceVersion(k.version)
	for _, obj := range k.sorted() {
		if !v.selects(gvk, &o, obj) {
			continue
		}
		if o.UnsafeDisableDeepCopy == nil || !*o.UnsafeDisableDeepCopy {
			obj = obj.DeepCopy()
		}
		all.Items = append(all.Items, *obj)
	}
	if list, is := into.(*unstructured.UnstructuredList); is {
		list.SetResourceVersion(k.version)
		list.Items = append(list.Items, all.Items...)
		return nil
	}
	return runtime.DefaultUnstructuredConverter.FromUnstructured(all.UnstructuredContent(), into)
}

func (v *view) selects(gvk schema.GroupVersionKind, o *client.ListOptions, obj *unstructured.Unstructured) bool {
	return (o.Namespace == "" || o.Namespace == obj.GetNamespace()) &&
		(o.LabelSelector == nil || o.LabelSelector.Matches(labels.Set(obj.GetLabels()))) &&
		(o.FieldSelector == nil || v.inIndex(gvk, o.FieldSelector, obj))
}

func (v *view) inIndex(gvk schema.GroupVersionKind, selector fields.Selector, obj *unstructured.Unstructured) bool {
	return !slices.ContainsFunc(selector.Requirements(), func(want fields.Requirement) bool {
		return !slices.Contains(v.values(gvk.GroupKind().String()+" "+want.Field, obj), want.Value)
	})
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
func (*view) WaitForCacheSync(context.Context) bool { return true }
