package runner

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/drain"
)

// lists are what a drain reads besides the Node and its Pods, from a cache of its own: a source of controller-runtime waits for every
// informer of its cache. A kind is listed and watched from the first time that it is asked for. It is safe for concurrent use.
type lists struct {
	cache    cache.Cache
	budgets  kindList
	attached kindList // VolumeAttachments
	volumes  kindList // PersistentVolumes
	spaces   kindList // Namespaces

	kinds meta.RESTMapper // which kinds the API server serves; may be nil

	mu sync.Mutex // guards the failures of all lists
}

// The indexes of lists.
const (
	byNode  = "spec.nodeName"
	byClaim = "spec.claimRef"
)

// errUnserved says that the API server does not serve a kind.
var errUnserved = errors.New("the kind is not served")

// newLists returns lists that send no request before they are asked.
func newLists(restConfig *rest.Config, httpClient *http.Client) (l *lists, err error) {
	l = listsOf(nil)
	l.cache, err = cache.New(restConfig, cache.Options{
		HTTPClient: httpClient, Scheme: scheme.Scheme, Mapper: builtInKinds(), DefaultTransform: trim,
		DefaultWatchErrorHandler: func(ctx context.Context, r *toolscache.Reflector, err error) {
			l.failed(r.TypeDescription(), err)
			toolscache.DefaultWatchErrorHandler(ctx, r, err)
		},
	})
	return l, err
}

// listsOf returns lists that a cache holds.
func listsOf(c cache.Cache) *lists {
	l := &lists{cache: c}
	l.budgets = kindList{of: l, kind: &policyv1.PodDisruptionBudget{}, optional: true}
	l.attached = kindList{of: l, kind: &storagev1.VolumeAttachment{}, optional: true, field: byNode, key: nodeOf}
	l.volumes = kindList{of: l, kind: &corev1.PersistentVolume{}, field: byClaim, key: claimOf}
	l.spaces = kindList{of: l, kind: &corev1.Namespace{}}
	return l
}

// builtInKinds knows the kinds of a drain without discovery requests, which ignore the contexts of their callers.
func builtInKinds() meta.RESTMapper {
	mapper := meta.NewDefaultRESTMapper(nil)
	for _, kind := range []string{"Node", "Namespace", "PersistentVolume"} {
		mapper.Add(corev1.SchemeGroupVersion.WithKind(kind), meta.RESTScopeRoot)
	}
	mapper.Add(storagev1.SchemeGroupVersion.WithKind("VolumeAttachment"), meta.RESTScopeRoot)
	mapper.Add(corev1.SchemeGroupVersion.WithKind("Pod"), meta.RESTScopeNamespace)
	mapper.Add(policyv1.SchemeGroupVersion.WithKind("PodDisruptionBudget"), meta.RESTScopeNamespace)
	return mapper
}

// failed records why a kind, a Go type, cannot be listed, in a text that is the same in the next attempt. Whether the API server serves an
// optional one is asked for, because a proxy may have answered in its place.
func (l *lists) failed(kind string, err error) {
	for _, k := range []*kindList{&l.budgets, &l.attached, &l.volumes, &l.spaces} {
		if fmt.Sprintf("%T", k.kind) != kind {
			continue
		}
		failure := errors.New(contract.SteadyText(err.Error()))
		if k.optional && l.isUnserved(k, err) {
			failure = errUnserved
		}
		l.mu.Lock()
		k.failure = failure
		l.mu.Unlock()
	}
}

// isUnserved asks for what is served, unless the API server did not answer: such a request does not end with a context.
func (l *lists) isUnserved(k *kindList, err error) bool {
	broken, slow := (*net.OpError)(nil), net.Error(nil)
	if l.kinds == nil || errors.As(err, &broken) || errors.As(err, &slow) && slow.Timeout() {
		return false
	}
	gvk, _ := apiutil.GVKForObject(k.kind, scheme.Scheme) // a kind of the scheme
	_, err = l.kinds.RESTMapping(gvk.GroupKind(), gvk.Version)
	return meta.IsNoMatchError(err)
}

// kindList is the list of one kind.
type kindList struct {
	of   *lists
	kind client.Object
	// optional: a kind that the API server does not serve has no objects. Without budgets nothing is left out, because it respects them
	// itself; without VolumeAttachments nothing that could be read here is attached.
	optional bool
	field    string // of the index; empty without
	key      client.IndexerFunc
	changed  func(client.Object) // is called for each event; may be nil

	once    sync.Once
	synced  func() bool
	err     error
	failure error // of the last request that failed
}

// ask begins the list, and reports whether all objects are known. Otherwise why is ": " and the reason, empty when none is known. The
// objects of a kind that is not served must not be read: the cache would wait for them.
func (k *kindList) ask(ctx context.Context) (known bool, why string) {
	k.once.Do(func() { k.synced, k.err = k.follow(ctx) })
	k.of.mu.Lock()
	failure := k.failure
	k.of.mu.Unlock()
	switch {
	case k.err != nil:
		return false, ": " + k.err.Error()
	case k.synced(), errors.Is(failure, errUnserved):
		return true, ""
	case failure != nil:
		return false, ": " + failure.Error()
	}
	return false, ""
}

// follow sends no request itself.
func (k *kindList) follow(ctx context.Context) (synced func() bool, err error) {
	if k.field != "" {
		if err := k.of.cache.IndexField(ctx, k.kind, k.field, k.key); err != nil {
			return nil, err
		}
	}
	informer, err := k.of.cache.GetInformer(ctx, k.kind, cache.BlockUntilSynced(false))
	switch {
	case err != nil:
		return nil, err
	case k.changed == nil:
		return informer.HasSynced, nil
	}
	event := func(obj any) {
		if tombstone, ok := obj.(toolscache.DeletedFinalStateUnknown); ok {
			obj = tombstone.Obj // the last known state
		}
		if o, ok := obj.(client.Object); ok {
			k.changed(o)
		}
	}
	_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc: event, UpdateFunc: func(_, obj any) { event(obj) }, DeleteFunc: event,
	})
	return informer.HasSynced, err
}

// attachmentsOf returns the VolumeAttachments of a Node, if they are known.
func (l *lists) attachmentsOf(ctx context.Context, node string) ([]*storagev1.VolumeAttachment, error) {
	if !l.attached.synced() { // they are not served
		return nil, nil
	}
	var list storagev1.VolumeAttachmentList
	err := l.cache.List(ctx, &list, client.MatchingFields{byNode: node}, client.UnsafeDisableDeepCopy)
	return pointers(list.Items), err
}

// volumeLookup finds PersistentVolumes that are listed.
type volumeLookup struct {
	ctx   context.Context //nolint:containedctx // of one Step
	lists *lists
}

var _ drain.VolumeLookup = volumeLookup{}

// Volume implements [drain.VolumeLookup].
func (v volumeLookup) Volume(name string) (*corev1.PersistentVolume, error) {
	var pv corev1.PersistentVolume
	err := v.lists.cache.Get(v.ctx, client.ObjectKey{Name: name}, &pv, client.UnsafeDisableDeepCopy)
	if apierrors.IsNotFound(err) {
		return nil, nil //nolint:nilnil // as the interface documents
	}
	return &pv, err
}

// VolumesOf implements [drain.VolumeLookup].
func (v volumeLookup) VolumesOf(claim types.NamespacedName) ([]*corev1.PersistentVolume, error) {
	var list corev1.PersistentVolumeList
	err := v.lists.cache.List(v.ctx, &list, client.MatchingFields{byClaim: claim.String()}, client.UnsafeDisableDeepCopy)
	return pointers(list.Items), err
}

func nodeOf(obj client.Object) []string {
	if a, ok := obj.(*storagev1.VolumeAttachment); ok {
		return []string{a.Spec.NodeName}
	}
	return nil
}

func claimOf(obj client.Object) []string {
	pv, ok := obj.(*corev1.PersistentVolume)
	if !ok {
		return nil
	}
	ref := ptr.Deref(pv.Spec.ClaimRef, corev1.ObjectReference{})
	return []string{types.NamespacedName{Namespace: ref.Namespace, Name: ref.Name}.String()}
}

// trim removes what no drain reads. Objects from such a cache must not be written back.
func trim(obj any) (any, error) {
	if o, ok := obj.(client.Object); ok {
		o.SetManagedFields(nil)
		o.SetAnnotations(nil)
		o.SetOwnerReferences(nil)
	}
	switch o := obj.(type) {
	case *corev1.Namespace:
		o.Spec, o.Status = corev1.NamespaceSpec{}, corev1.NamespaceStatus{}
	case *storagev1.VolumeAttachment:
		o.Labels, o.Spec.Source.InlineVolumeSpec, o.Status.AttachmentMetadata = nil, nil, nil
	case *corev1.PersistentVolume:
		o.Labels, o.Spec.Capacity, o.Spec.MountOptions, o.Spec.NodeAffinity = nil, nil, nil, nil
		if o.Spec.CSI != nil {
			o.Spec.CSI = &corev1.CSIPersistentVolumeSource{Driver: o.Spec.CSI.Driver, VolumeHandle: o.Spec.CSI.VolumeHandle}
		}
	}
	return obj, nil
}
