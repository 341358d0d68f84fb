package runner

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/drain"
)

// errVolumesUnread says that PersistentVolumes are not listed yet.
var errVolumesUnread = errors.New("PersistentVolumes are not listed yet; check that they may be listed and watched")

// volumeSource reports which volumes are attached to which Nodes, from memory: no method blocks. Returned objects are shared and must not
// be changed. cachedVolumes implements it. Implementations are safe for concurrent use.
type volumeSource interface { //nolint:interfacebloat // no port: one implementation, and a fake in tests
	drain.VolumeLookup
	// attachmentsOn returns the VolumeAttachments of a Node, in any order. synced is false until all are known and after the source has
	// ended; an empty result then does not mean that there are none. err says why they cannot be listed.
	attachmentsOn(node string) (attachments []*storagev1.VolumeAttachment, synced bool, err error)
	// demand begins lists that are made on demand.
	demand()
	// why returns ": " and the reason why the lists are not complete, or nothing when no reason is known.
	why() string
	// configure changes the lists; it is called before run.
	configure(change func(*listing))
	// run serves until ctx ends. It calls changed, without holding a lock, when the state of a volume on a Node may have changed.
	run(ctx context.Context, changed func(node string)) error
}

// cachedVolumes reads from the informers of VolumeAttachments and PersistentVolumes. It finds objects in its own indexes, by Node, volume
// and claim, in constant time and without copies. It requires list and watch on both kinds.
type cachedVolumes struct {
	attachmentList, volumeList *listing

	ran                  atomic.Bool
	attachments, volumes toolscache.Indexer
}

var _ volumeSource = (*cachedVolumes)(nil)

// The indexes of cachedVolumes.
const (
	byNode   = "node"
	byVolume = "volume"
	byClaim  = "claim"
)

// indexedBy returns an index of the objects of one kind.
func indexedBy[O client.Object](key func(O) string) toolscache.IndexFunc {
	return func(obj any) ([]string, error) {
		if o, ok := obj.(O); ok {
			return []string{key(o)}, nil
		}
		return nil, nil
	}
}

func find[O client.Object](in toolscache.Indexer, index, key string) []O {
	found, _ := in.ByIndex(index, key) // fails only for an unknown index
	out := make([]O, 0, len(found))
	for _, obj := range found {
		if o, ok := obj.(O); ok {
			out = append(out, o)
		}
	}
	return out
}

// put adds, replaces or removes an object. It fails only for what is no object.
func put(in toolscache.Indexer, obj client.Object, gone bool) {
	if gone {
		_ = in.Delete(obj)
	} else {
		_ = in.Update(obj)
	}
}

func newCachedVolumes(of informers) *cachedVolumes {
	return &cachedVolumes{
		attachmentList: newListing(of, "VolumeAttachments", &storagev1.VolumeAttachment{}),
		volumeList:     newListing(of, "PersistentVolumes", &corev1.PersistentVolume{}),
		attachments: toolscache.NewIndexer(toolscache.MetaNamespaceKeyFunc, toolscache.Indexers{
			byNode:   indexedBy(func(a *storagev1.VolumeAttachment) string { return a.Spec.NodeName }),
			byVolume: indexedBy(volumeOf),
		}),
		volumes: toolscache.NewIndexer(toolscache.MetaNamespaceKeyFunc, toolscache.Indexers{byClaim: indexedBy(claimOf)}),
	}
}

func (v *cachedVolumes) why() string {
	if unknown := v.unknown(); unknown != nil {
		return unknown.why()
	}
	return ""
}

func (v *cachedVolumes) configure(change func(*listing)) {
	change(v.attachmentList)
	change(v.volumeList)
}

// attachmentsOn: before run and after its end nothing is synced. Listed on demand, attachments are not synced before the
// PersistentVolumes of what is attached are.
func (v *cachedVolumes) attachmentsOn(node string) (attachments []*storagev1.VolumeAttachment, synced bool, err error) {
	synced, _ = v.attachmentList.ask()
	attachments = find[*storagev1.VolumeAttachment](v.attachments, byNode, node)
	if known, _ := v.volumeList.ask(); v.volumeList.onDemand && len(attachments) > 0 && !known {
		synced = false
	}
	if unknown := v.unknown(); unknown != nil && !synced && !v.attachmentList.onDemand {
		_, err = unknown.ask()
	}
	return attachments, synced, err
}

// Volume implements [drain.VolumeLookup]. It returns an error until all volumes are listed.
func (v *cachedVolumes) Volume(name string) (*corev1.PersistentVolume, error) {
	if known, _ := v.volumeList.ask(); !known {
		return nil, errVolumesUnread
	}
	found, _, err := v.volumes.GetByKey(name)
	pv, _ := found.(*corev1.PersistentVolume)
	return pv, err
}

// VolumesOf implements [drain.VolumeLookup].
func (v *cachedVolumes) VolumesOf(claim types.NamespacedName) ([]*corev1.PersistentVolume, error) {
	if known, _ := v.volumeList.ask(); !known {
		return nil, errVolumesUnread
	}
	return find[*corev1.PersistentVolume](v.volumes, byClaim, claim.String()), nil
}

func (v *cachedVolumes) demand() { v.unknown() }

// unknown returns the first list that is not complete; nil when both are.
func (v *cachedVolumes) unknown() *listing {
	for _, l := range []*listing{v.attachmentList, v.volumeList} {
		if known, _ := l.ask(); !known {
			return l
		}
	}
	return nil
}

// run does not wait for the informers. A source runs once.
func (v *cachedVolumes) run(ctx context.Context, changed func(node string)) error {
	if v.ran.Swap(true) {
		return errors.New("run volume source: it was started before")
	}
	ctx, cancel := context.WithCancel(ctx)
	var syncing sync.WaitGroup
	defer syncing.Wait()
	defer cancel()
	for _, kind := range []struct {
		list *listing
		take func(obj client.Object, gone bool)
	}{
		{v.attachmentList, func(obj client.Object, gone bool) {
			if a, ok := obj.(*storagev1.VolumeAttachment); ok {
				put(v.attachments, a, gone)
				changed(a.Spec.NodeName)
			}
		}},
		{v.volumeList, func(obj client.Object, gone bool) {
			if pv, ok := obj.(*corev1.PersistentVolume); ok {
				put(v.volumes, pv, gone)
				for _, a := range find[*storagev1.VolumeAttachment](v.attachments, byVolume, pv.Name) {
					changed(a.Spec.NodeName)
				}
			}
		}},
	} {
		stop, err := kind.list.open(ctx, kind.take)
		if err != nil && ctx.Err() == nil {
			return fmt.Errorf("run volume source: %w", err)
		}
		defer stop() //nolint:gocritic // two kinds, until Start ends
		syncing.Go(func() { kind.list.awaitSync(ctx) })
	}
	<-ctx.Done()
	return nil
}

// volumeOf returns the PersistentVolume of an attachment, or "" when it has none.
func volumeOf(a *storagev1.VolumeAttachment) string {
	return ptr.Deref(a.Spec.Source.PersistentVolumeName, "")
}

func claimOf(pv *corev1.PersistentVolume) string {
	ref := ptr.Deref(pv.Spec.ClaimRef, corev1.ObjectReference{})
	return types.NamespacedName{Namespace: ref.Namespace, Name: ref.Name}.String()
}

// trimVolumes removes from VolumeAttachments and PersistentVolumes what cachedVolumes do not read.
func trimVolumes(obj any) {
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
}
