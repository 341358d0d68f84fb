package runner

import (
	"context"
	"errors"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/drain"
)

// errVolumesUnread says that PersistentVolumes are not listed yet.
var errVolumesUnread = errors.New("PersistentVolumes are not listed yet; check that they may be listed and watched")

// VolumeSource knows what is attached where, from memory: no method blocks. What it returns is shared and not changed.
// Implementations are safe for concurrent use.
type VolumeSource interface {
	drain.VolumeLookup
	// Attachments returns the VolumeAttachments of a Node, in any order. synced is false until all are known and when the
	// source has ended; an empty result does not mean then that there are none.
	Attachments(node string) (attachments []*storagev1.VolumeAttachment, synced bool)
	// AttachmentsOf returns the VolumeAttachments of a PersistentVolume on all Nodes.
	AttachmentsOf(volume string) []*storagev1.VolumeAttachment
	// Run serves until ctx ends and calls changed, without holding a lock, when what it says about a volume on a Node may
	// have changed.
	Run(ctx context.Context, changed func(node, volume string)) error
}

// CachedVolumes is a [VolumeSource] over the informers of VolumeAttachments and PersistentVolumes. It looks things up in
// indexes of its own, by Node, volume and claim, in constant time, and copies nothing. It needs list and watch on both kinds.
// See [TrimVolumes] for what it does not need.
type CachedVolumes struct {
	informers Informers

	mu          sync.RWMutex
	ran         bool
	synced      []toolscache.ResourceEventHandlerRegistration // of attachments, then volumes; nil before Run and after its end
	attachments map[string]*storagev1.VolumeAttachment
	byNode      index[string, *storagev1.VolumeAttachment]
	byVolume    index[string, *storagev1.VolumeAttachment]
	volumes     map[string]*corev1.PersistentVolume
	byClaim     index[types.NamespacedName, *corev1.PersistentVolume]
}

var _ VolumeSource = (*CachedVolumes)(nil)

// index holds objects by a key that several share, and by name below it.
type index[K comparable, O client.Object] map[K]map[string]O

func (x index[K, O]) put(key K, obj O) {
	if x[key] == nil {
		x[key] = map[string]O{}
	}
	x[key][obj.GetName()] = obj
}

func (x index[K, O]) remove(key K, name string) {
	if delete(x[key], name); len(x[key]) == 0 {
		delete(x, key)
	}
}

func (x index[K, O]) list(key K) []O {
	out := make([]O, 0, len(x[key]))
	for _, obj := range x[key] {
		out = append(out, obj)
	}
	return out
}

// NewCachedVolumes returns a source over a cache, usually manager.GetCache(). Its informers start when the source runs.
func NewCachedVolumes(informers Informers) (*CachedVolumes, error) {
	if informers == nil {
		return nil, errors.New("new volume source: informers is nil; pass the manager's cache")
	}
	return &CachedVolumes{
		informers: informers, attachments: map[string]*storagev1.VolumeAttachment{}, volumes: map[string]*corev1.PersistentVolume{},
		byNode: index[string, *storagev1.VolumeAttachment]{}, byVolume: index[string, *storagev1.VolumeAttachment]{},
		byClaim: index[types.NamespacedName, *corev1.PersistentVolume]{},
	}, nil
}

// Attachments implements [VolumeSource]. Before Run and after its end nothing is synced.
func (v *CachedVolumes) Attachments(node string) ([]*storagev1.VolumeAttachment, bool) {
	v.mu.RLock()
	defer v.mu.RUnlock()
	return v.byNode.list(node), len(v.synced) > 0 && v.synced[0].HasSynced()
}

// AttachmentsOf implements [VolumeSource].
func (v *CachedVolumes) AttachmentsOf(volume string) []*storagev1.VolumeAttachment {
	v.mu.RLock()
	defer v.mu.RUnlock()
	return v.byVolume.list(volume)
}

// Volume implements [drain.VolumeLookup]. Volumes that are not all listed are unread.
func (v *CachedVolumes) Volume(name string) (*corev1.PersistentVolume, error) {
	v.mu.RLock()
	defer v.mu.RUnlock()
	if !v.knowsVolumesLocked() {
		return nil, errVolumesUnread
	}
	return v.volumes[name], nil
}

// VolumesOf implements [drain.VolumeLookup].
func (v *CachedVolumes) VolumesOf(claim types.NamespacedName) ([]*corev1.PersistentVolume, error) {
	v.mu.RLock()
	defer v.mu.RUnlock()
	if !v.knowsVolumesLocked() {
		return nil, errVolumesUnread
	}
	return v.byClaim.list(claim), nil
}

func (v *CachedVolumes) knowsVolumesLocked() bool {
	return len(v.synced) > 1 && v.synced[1].HasSynced()
}

// Run implements [VolumeSource]. It does not wait for the informers, and tries again while the server cannot be asked for them. A source
// runs once.
func (v *CachedVolumes) Run(ctx context.Context, changed func(node, volume string)) error {
	return v.run(ctx, changed, &patience{clock: clock.RealClock{}, tell: func(error) {}})
}

func (v *CachedVolumes) run(ctx context.Context, changed func(node, volume string), p *patience) error {
	v.mu.Lock()
	ran := v.ran
	v.ran = true
	v.mu.Unlock()
	if ran {
		return errors.New("run volume source: it was started before")
	}
	if err := v.serve(ctx, changed, p); err != nil && ctx.Err() == nil {
		return fmt.Errorf("run volume source: %w", err)
	}
	return nil
}

func (v *CachedVolumes) serve(ctx context.Context, changed func(node, volume string), p *patience) error {
	attachments, err := v.follow(ctx, p, "VolumeAttachments", &storagev1.VolumeAttachment{}, func(obj client.Object, gone bool) {
		if a, ok := obj.(*storagev1.VolumeAttachment); ok {
			v.putAttachment(a, gone)
			changed(a.Spec.NodeName, volumeOf(a))
		}
	})
	if err != nil {
		return err
	}
	defer attachments.stop()
	v.know(attachments.registration)
	defer v.know()
	volumes, err := v.follow(ctx, p, "PersistentVolumes", &corev1.PersistentVolume{}, func(obj client.Object, gone bool) {
		pv, ok := obj.(*corev1.PersistentVolume)
		if !ok {
			return
		}
		v.putVolume(pv, gone)
		for _, a := range v.AttachmentsOf(pv.Name) {
			changed(a.Spec.NodeName, pv.Name)
		}
	})
	if err != nil {
		return err
	}
	defer volumes.stop()
	v.know(attachments.registration, volumes.registration)
	p.over()
	<-ctx.Done()
	return nil
}

func (v *CachedVolumes) know(registrations ...toolscache.ResourceEventHandlerRegistration) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.synced = registrations
}

type registered struct {
	registration toolscache.ResourceEventHandlerRegistration
	stop         func()
}

// follow watches a kind, as soon as the server can be asked for it or, without patience, now or never.
func (v *CachedVolumes) follow(
	ctx context.Context, p *patience, what string, kind client.Object, take func(obj client.Object, gone bool),
) (found registered, err error) {
	try := func() error {
		if found, err = v.watch(ctx, kind, take); err != nil {
			return fmt.Errorf("informer of %s: %w", what, err)
		}
		return nil
	}
	err = p.outlast(ctx, try(), try)
	return found, err
}

// watch adds one handler, since several would not run in step.
func (v *CachedVolumes) watch(ctx context.Context, kind client.Object, take func(obj client.Object, gone bool)) (registered, error) {
	informer, err := v.informers.GetInformer(ctx, kind, cache.BlockUntilSynced(false))
	if err != nil {
		return registered{}, err
	}
	hand := func(obj any, gone bool) {
		if tombstone, ok := obj.(toolscache.DeletedFinalStateUnknown); ok {
			obj = tombstone.Obj // its last known state, which is what the indexes hold
		}
		if o, ok := obj.(client.Object); ok {
			take(o, gone)
		}
	}
	registration, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { hand(obj, false) },
		UpdateFunc: func(_, obj any) { hand(obj, false) },
		DeleteFunc: func(obj any) { hand(obj, true) },
	})
	if err != nil {
		return registered{}, err
	}
	return registered{registration, func() { _ = informer.RemoveEventHandler(registration) }}, nil
}

func (v *CachedVolumes) putAttachment(a *storagev1.VolumeAttachment, gone bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if old := v.attachments[a.Name]; old != nil {
		v.byNode.remove(old.Spec.NodeName, a.Name)
		v.byVolume.remove(volumeOf(old), a.Name)
		delete(v.attachments, a.Name)
	}
	if !gone {
		v.attachments[a.Name] = a
		v.byNode.put(a.Spec.NodeName, a)
		v.byVolume.put(volumeOf(a), a)
	}
}

func (v *CachedVolumes) putVolume(pv *corev1.PersistentVolume, gone bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if old := v.volumes[pv.Name]; old != nil {
		v.byClaim.remove(claimOf(old), pv.Name)
		delete(v.volumes, pv.Name)
	}
	if !gone {
		v.volumes[pv.Name] = pv
		v.byClaim.put(claimOf(pv), pv)
	}
}

// volumeOf returns the PersistentVolume of an attachment, or "" when it has none.
func volumeOf(a *storagev1.VolumeAttachment) string {
	if a.Spec.Source.PersistentVolumeName == nil {
		return ""
	}
	return *a.Spec.Source.PersistentVolumeName
}

func claimOf(pv *corev1.PersistentVolume) types.NamespacedName {
	if pv.Spec.ClaimRef == nil {
		return types.NamespacedName{}
	}
	return types.NamespacedName{Namespace: pv.Spec.ClaimRef.Namespace, Name: pv.Spec.ClaimRef.Name}
}

// TrimVolumes is a transform for a cache's VolumeAttachments and PersistentVolumes (cache.ByObject.Transform). It drops what
// [CachedVolumes] does not read and what is most of their size: managed fields, annotations and labels, a driver's attributes
// and metadata, Node affinity, mount options and inline volumes. Other objects pass through. It changes the object in place,
// as transforms may, and never fails. Objects from such a cache must not be written back.
func TrimVolumes(obj any) (any, error) {
	switch o := obj.(type) {
	case *storagev1.VolumeAttachment:
		o.ManagedFields, o.Annotations, o.Labels, o.OwnerReferences = nil, nil, nil, nil
		o.Spec.Source.InlineVolumeSpec = nil
		o.Status.AttachmentMetadata = nil
	case *corev1.PersistentVolume:
		o.ManagedFields, o.Annotations, o.Labels, o.OwnerReferences = nil, nil, nil, nil
		o.Spec.Capacity, o.Spec.MountOptions, o.Spec.NodeAffinity = nil, nil, nil
		if o.Spec.CSI != nil {
			o.Spec.CSI = &corev1.CSIPersistentVolumeSource{Driver: o.Spec.CSI.Driver, VolumeHandle: o.Spec.CSI.VolumeHandle}
		}
	}
	return obj, nil
}
