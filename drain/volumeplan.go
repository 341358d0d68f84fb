package drain

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

// csiPrefix is the prefix of a CSI volume in the status of a Node.
const csiPrefix = "kubernetes.io/csi/"

// orphanedAfter is the minimum age of a VolumeAttachment whose PersistentVolume counts as gone. The two are read from two caches, and that
// of the volumes may be behind.
const orphanedAfter = time.Minute

// volumesUnreachableAfter is how long the Ready condition of a Node must have been Unknown before its volumes are no longer waited for: an
// unreachable Node does not unmount volumes. The kube-controller-manager sets the condition about 40 s after the last sign of the kubelet.
const volumesUnreachableAfter = 5 * time.Minute

// PlanVolumes decides which volumes of a Node the deletion of its machine waits for, by their VolumeAttachments. The status of the Node
// counts only for volumes that never have one. It returns an error when a PersistentVolume could not be read.
func PlanVolumes(facts VolumeFacts) (plan VolumePlan, err error) {
	if facts.Node == nil {
		return plan, errors.New("plan volumes: the Node is nil; pass it as read from the API server")
	}
	kept, keepsInTree := facts.kept()
	for _, a := range facts.Attachments {
		if a == nil || a.Spec.NodeName != facts.Node.Name {
			continue
		}
		ref, blocks, err := facts.attachment(a, kept)
		if err != nil {
			return VolumePlan{}, fmt.Errorf("plan volumes of node %s: %w", facts.Node.Name, err)
		}
		if blocks {
			plan.Blocking = append(plan.Blocking, ref)
		}
	}
	keepsInTree = keepsInTree || slices.Contains(slices.Collect(maps.Values(kept)), false)
	for i := range facts.Node.Status.VolumesAttached {
		// The VolumeAttachment of a CSI volume is removed when the driver confirms the detachment, and the status is updated later. If an ignored
		// Pod may have a volume without an attachment, the owner of this volume is unknown: a wait that is too short is better than an endless
		// one.
		name := string(facts.Node.Status.VolumesAttached[i].Name)
		if !keepsInTree && !strings.HasPrefix(name, csiPrefix) {
			plan.Blocking = append(plan.Blocking, VolumeRef{Name: name})
		}
	}
	slices.SortFunc(plan.Blocking, func(a, b VolumeRef) int {
		return cmp.Or(cmp.Compare(a.PV, b.PV), cmp.Compare(a.Name, b.Name))
	})
	if !plan.Done() {
		plan.Stopped = facts.stopped()
	}
	return plan, nil
}

func (f *VolumeFacts) stopped() VolumeStop {
	since, silent := UnreachableSince(f.Node)
	switch {
	case f.PoweredOff:
		return VolumesPoweredOff
	case silent && f.Now.Sub(since) >= volumesUnreachableAfter:
		return VolumesUnreachable
	case f.Timeout > 0 && !f.StartedAt.IsZero() && !f.Now.Before(f.StartedAt.Add(f.Timeout)):
		return VolumesTimedOut
	default:
		return VolumesNotStopped
	}
}

// kept returns the claims of the ignored Pods of this Node, whose values become true when their volume is found among the attachments.
// inTree is whether the spec of such a Pod has a volume that is attached without a VolumeAttachment.
func (f *VolumeFacts) kept() (claims map[types.NamespacedName]bool, inTree bool) {
	claims = map[types.NamespacedName]bool{}
	for i := range f.Decisions {
		d := &f.Decisions[i]
		if d.Action != Ignore || d.Pod == nil || d.Pod.Spec.NodeName != f.Node.Name {
			continue
		}
		for j := range d.Pod.Spec.Volumes {
			inTree = inTree || isInTree(&d.Pod.Spec.Volumes[j].VolumeSource)
		}
		for _, claim := range claimsOf(d.Pod) {
			claims[claim] = false
		}
	}
	return claims, inTree
}

// attachment decides whether the volume of a VolumeAttachment is waited for.
func (f *VolumeFacts) attachment(
	a *storagev1.VolumeAttachment, kept map[types.NamespacedName]bool,
) (ref VolumeRef, blocks bool, err error) {
	ref.Name, ref.PV = a.Name, ptr.Deref(a.Spec.Source.PersistentVolumeName, "")
	if ref.PV == "" { // an inline volume of a Pod; Cluster API always fails on its VolumeAttachment
		return ref, false, nil
	}
	pv, err := f.Volume(ref.PV)
	if err != nil {
		return ref, false, fmt.Errorf("persistent volume %s: %w", ref.PV, err)
	}
	if pv == nil {
		return ref, f.Now.Sub(a.CreationTimestamp.Time) < orphanedAfter, nil
	}
	if claim := pv.Spec.ClaimRef; claim != nil && claim.Name != "" {
		ref.Claim = types.NamespacedName{Namespace: claim.Namespace, Name: claim.Name}
	}
	// The volume is not waited for if a Pod that stays on the Node uses it (Cluster API #6285), unless its claim was deleted and created again
	// under the same name, or if it may be attached to several Nodes at the same time, so that no other Node waits for its detachment.
	_, stays := kept[ref.Claim]
	if stays = stays && pv.Status.Phase != corev1.VolumeReleased; stays {
		kept[ref.Claim] = true
	}
	return ref, !stays && !shared(pv), nil
}

// shared follows the multi-attach rule of kube-controller-manager, except that a volume without an access mode is exclusive.
func shared(pv *corev1.PersistentVolume) bool {
	return slices.ContainsFunc(pv.Spec.AccessModes, func(mode corev1.PersistentVolumeAccessMode) bool {
		return mode == corev1.ReadWriteMany || mode == corev1.ReadOnlyMany
	})
}

// isInTree reports whether a volume in the spec of a Pod may be attached without a VolumeAttachment. Current Kubernetes does that only for
// the first three kinds; older workload clusters for the others too.
func isInTree(s *corev1.VolumeSource) bool {
	return s.ISCSI != nil || s.FC != nil || s.FlexVolume != nil || s.RBD != nil || s.AWSElasticBlockStore != nil ||
		s.GCEPersistentDisk != nil || s.AzureDisk != nil || s.Cinder != nil || s.VsphereVolume != nil || s.PortworxVolume != nil
}
