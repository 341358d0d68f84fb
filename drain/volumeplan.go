package drain

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

// csiPrefix begins the name of a CSI volume in the status of a Node: prefix, driver, "^", handle.
const csiPrefix = "kubernetes.io/csi/"

// orphanedAfter is the minimum age of a VolumeAttachment whose PersistentVolume counts as gone. They are read from two caches, and that of
// the volumes may be behind.
const orphanedAfter = time.Minute

// volumeView is the state of making one plan.
type volumeView struct {
	facts   *VolumeFacts
	ignored map[string]bool // PersistentVolumes of ignored Pods
	inTree  bool            // an ignored Pod uses a volume that is attached without a VolumeAttachment
}

// PlanVolumes decides which volumes of a Node the deletion of its machine waits for, by their VolumeAttachments. The status of the Node
// counts only for volumes that never have one. It returns an error when a PersistentVolume could not be read.
func PlanVolumes(facts VolumeFacts) (VolumePlan, error) {
	if facts.Node == nil {
		return VolumePlan{}, errors.New("plan volumes: the Node is nil; pass it as read from the API server")
	}
	plan, err := planVolumes(&facts)
	if err != nil {
		return VolumePlan{}, fmt.Errorf("plan volumes of node %s: %w", facts.Node.Name, err)
	}
	if !plan.Done() {
		plan.Stopped = facts.stopped()
	}
	return plan, nil
}

func planVolumes(facts *VolumeFacts) (plan VolumePlan, err error) {
	var attachments []*storagev1.VolumeAttachment
	for _, a := range facts.Attachments {
		if a != nil && a.Spec.NodeName == facts.Node.Name {
			attachments = append(attachments, a)
		}
	}
	if len(attachments)+len(facts.Node.Status.VolumesAttached) == 0 {
		return plan, nil
	}
	if facts.Lookup == nil {
		return plan, errors.New("there are volumes and no Lookup")
	}
	v := &volumeView{facts: facts, ignored: map[string]bool{}}
	if err := v.look(); err != nil {
		return plan, err
	}
	covered := map[corev1.UniqueVolumeName]bool{}
	for _, a := range attachments {
		d, name, err := v.attachment(a)
		if err != nil {
			return plan, err
		}
		covered[name] = true
		plan.volumes = append(plan.volumes, d)
	}
	for i := range facts.Node.Status.VolumesAttached {
		if name := facts.Node.Status.VolumesAttached[i].Name; !covered[name] {
			covered[name] = true
			plan.volumes = append(plan.volumes, v.status(name))
		}
	}
	slices.SortFunc(plan.volumes, func(a, b volumeDecision) int {
		return cmp.Or(cmp.Compare(a.PV, b.PV), cmp.Compare(a.Name, b.Name))
	})
	return plan, nil
}

func (f *VolumeFacts) stopped() VolumeStop {
	switch {
	case f.PoweredOff:
		return VolumesPoweredOff
	case f.Unreachable:
		return VolumesUnreachable
	case f.Timeout > 0 && !f.StartedAt.IsZero() && !f.Now.Before(f.StartedAt.Add(f.Timeout)):
		return VolumesTimedOut
	default:
		return VolumesNotStopped
	}
}

// look finds the volumes that ignored Pods of this Node use. Pods of other Nodes do not count.
func (v *volumeView) look() error {
	for i := range v.facts.Decisions {
		d := &v.facts.Decisions[i]
		if d.Action != Ignore || d.Pod == nil || d.Pod.Spec.NodeName != v.facts.Node.Name {
			continue
		}
		for j := range d.Pod.Spec.Volumes {
			v.inTree = v.inTree || inTree(&d.Pod.Spec.Volumes[j].VolumeSource)
		}
		for _, claim := range claimsOf(d.Pod) {
			if err := v.keep(claim); err != nil {
				return err
			}
		}
	}
	return nil
}

// keep records that an ignored Pod uses a claim.
func (v *volumeView) keep(claim types.NamespacedName) error {
	volumes, err := v.facts.Lookup.VolumesOf(claim)
	if err != nil {
		return fmt.Errorf("persistent volumes of claim %s: %w", claim, err)
	}
	for _, pv := range volumes {
		if pv.Status.Phase == corev1.VolumeReleased {
			continue // its claim was deleted, and another claim has the name
		}
		v.ignored[pv.Name] = true
		v.inTree = v.inTree || inTreePV(&pv.Spec.PersistentVolumeSource)
	}
	return nil
}

// attachment decides about a VolumeAttachment. name is the name of the volume in the status of the Node, if known.
func (v *volumeView) attachment(a *storagev1.VolumeAttachment) (d volumeDecision, name corev1.UniqueVolumeName, err error) {
	d.Name = a.Name
	if ptr.Deref(a.Spec.Source.PersistentVolumeName, "") == "" { // it is inline in a Pod; Cluster API always fails on its VolumeAttachment
		return d, "", nil
	}
	d.PV = *a.Spec.Source.PersistentVolumeName
	pv, err := v.facts.Lookup.Volume(d.PV)
	if err != nil {
		return d, "", fmt.Errorf("persistent volume %s: %w", d.PV, err)
	}
	if pv != nil {
		if ref := pv.Spec.ClaimRef; ref != nil && ref.Name != "" {
			d.Claim = types.NamespacedName{Namespace: ref.Namespace, Name: ref.Name}
		}
		if csi := pv.Spec.CSI; csi != nil {
			name = corev1.UniqueVolumeName(csiPrefix + csi.Driver + "^" + csi.VolumeHandle)
		}
	}
	d.blocks = !v.isLeft(d.PV, pv, a)
	if d.detaching = a.DeletionTimestamp != nil; d.detaching {
		d.failed = a.Status.DetachError != nil
	} else {
		d.failed = !a.Status.Attached && a.Status.AttachError != nil
	}
	return d, name, nil
}

// isLeft reports whether the volume of an attachment is not waited for: a Pod that stays on the Node uses it (Cluster API #6285), it does
// not exist, or it may be attached to several Nodes at the same time, so that no other Node waits for its detachment.
func (v *volumeView) isLeft(name string, pv *corev1.PersistentVolume, a *storagev1.VolumeAttachment) bool {
	switch {
	case v.ignored[name]:
		return true
	case pv == nil:
		return v.facts.Now.Sub(a.CreationTimestamp.Time) >= orphanedAfter
	}
	return shared(pv)
}

// status decides about a volume that only the status of the Node names. The VolumeAttachment of a CSI volume is removed when the driver
// confirms the detachment, and the status is updated later. Where an ignored Pod has a volume without an attachment, it is not known whose
// volume this is: a wait that is too short is better than one without end.
func (v *volumeView) status(name corev1.UniqueVolumeName) volumeDecision {
	return volumeDecision{
		VolumeRef: VolumeRef{Name: string(name)}, blocks: !strings.HasPrefix(string(name), csiPrefix) && !v.inTree,
	}
}

// shared follows the rule of kube-controller-manager for multi-attach, except that a volume without an access mode is exclusive.
func shared(pv *corev1.PersistentVolume) bool {
	return slices.ContainsFunc(pv.Spec.AccessModes, func(mode corev1.PersistentVolumeAccessMode) bool {
		return mode == corev1.ReadWriteMany || mode == corev1.ReadOnlyMany
	})
}

// inTree reports whether a volume in the spec of a Pod may be attached without a VolumeAttachment. Current Kubernetes attaches only the
// first three so; older workload clusters the others too.
func inTree(s *corev1.VolumeSource) bool {
	return s.ISCSI != nil || s.FC != nil || s.FlexVolume != nil || s.RBD != nil || s.AWSElasticBlockStore != nil ||
		s.GCEPersistentDisk != nil || s.AzureDisk != nil || s.Cinder != nil || s.VsphereVolume != nil || s.PortworxVolume != nil
}

// inTreePV reports the same about a PersistentVolume.
func inTreePV(s *corev1.PersistentVolumeSource) bool {
	return s.ISCSI != nil || s.FC != nil || s.FlexVolume != nil || s.RBD != nil || s.AWSElasticBlockStore != nil ||
		s.GCEPersistentDisk != nil || s.AzureDisk != nil || s.Cinder != nil || s.VsphereVolume != nil || s.PortworxVolume != nil
}
