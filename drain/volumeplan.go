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
)

// csiPrefix begins the name of a CSI volume in the status of a Node: prefix, driver, "^", handle.
const csiPrefix = "kubernetes.io/csi/"

// orphanedAfter is the minimum age of a VolumeAttachment whose PersistentVolume counts as gone. They are read from two caches, and that of
// the volumes may be behind.
const orphanedAfter = time.Minute

// volumeView is the state of making one plan.
type volumeView struct {
	planner *VolumePlanner
	facts   *VolumeFacts
	mounted map[corev1.UniqueVolumeName]bool
	ignored map[string]bool // PersistentVolumes of ignored Pods
	plugins map[string]bool // in-tree plugins that ignored Pods use
}

// Plan decides about all volumes of a Node, by their VolumeAttachments. The status of the Node counts only for volumes that never have one.
// Plan returns an error when a PersistentVolume could not be read.
func (p VolumePlanner) Plan(facts VolumeFacts) (VolumePlan, error) {
	if facts.Node == nil {
		return VolumePlan{}, errors.New("plan volumes: the Node is nil; pass it as read from the API server")
	}
	v := &volumeView{planner: &p, facts: &facts, mounted: map[corev1.UniqueVolumeName]bool{}}
	var attachments []*storagev1.VolumeAttachment
	for _, a := range facts.Attachments {
		if a != nil && a.Spec.NodeName == facts.Node.Name {
			attachments = append(attachments, a)
		}
	}
	plan := VolumePlan{}
	if len(attachments)+len(facts.Node.Status.VolumesAttached) == 0 {
		return plan, nil
	}
	if facts.Lookup == nil {
		return VolumePlan{}, fmt.Errorf("plan volumes of node %s: there are volumes and no Lookup", facts.Node.Name)
	}
	if err := v.look(); err != nil {
		return VolumePlan{}, fmt.Errorf("plan volumes of node %s: %w", facts.Node.Name, err)
	}
	covered := map[corev1.UniqueVolumeName]bool{}
	for _, a := range attachments {
		d, name, err := v.attachment(a)
		if err != nil {
			return VolumePlan{}, fmt.Errorf("plan volumes of node %s: %w", facts.Node.Name, err)
		}
		covered[name] = true
		plan.Volumes = append(plan.Volumes, d)
	}
	for i := range facts.Node.Status.VolumesAttached {
		if name := facts.Node.Status.VolumesAttached[i].Name; !covered[name] {
			covered[name] = true
			plan.Volumes = append(plan.Volumes, v.status(name))
		}
	}
	slices.SortFunc(plan.Volumes, func(a, b VolumeDecision) int {
		return cmp.Or(cmp.Compare(a.PV, b.PV), cmp.Compare(a.Name, b.Name))
	})
	if len(plan.Blocking()) > 0 {
		plan.Stopped = facts.stopped()
	}
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
	for _, name := range v.facts.Node.Status.VolumesInUse {
		v.mounted[name] = true
	}
	v.ignored, v.plugins = map[string]bool{}, map[string]bool{}
	for i := range v.facts.Decisions {
		d := &v.facts.Decisions[i]
		if d.Action != Ignore || d.Pod == nil || d.Pod.Spec.NodeName != v.facts.Node.Name {
			continue
		}
		for j := range d.Pod.Spec.Volumes {
			if plugin := inTreePlugin(&d.Pod.Spec.Volumes[j].VolumeSource); plugin != "" {
				v.plugins[plugin] = true
			}
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
		if plugin := inTreePluginOfVolume(&pv.Spec.PersistentVolumeSource); plugin != "" {
			v.plugins[plugin] = true
		}
	}
	return nil
}

// attachment decides about a VolumeAttachment. name is the name of the volume in the status of the Node, if known.
func (v *volumeView) attachment(a *storagev1.VolumeAttachment) (d VolumeDecision, name corev1.UniqueVolumeName, err error) {
	d.VolumeRef = VolumeRef{Name: a.Name, Driver: a.Spec.Attacher, Since: v.since(a)}
	if a.Spec.Source.PersistentVolumeName == nil || *a.Spec.Source.PersistentVolumeName == "" {
		d.Reason, d.Message = VolumeInline, "volume of a pod's own spec"
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
			d.Mounted = v.mounted[name]
		}
	}
	switch {
	case v.foreign(d.Driver):
		d.Reason, d.Message = VolumeForeign, "its driver is not one that is waited for"
	case v.ignored[d.PV]:
		d.Reason, d.Message = VolumeOfIgnoredPod, "in use by a Pod that stays on the Node"
	case pv == nil && v.facts.Now.Sub(a.CreationTimestamp.Time) >= orphanedAfter:
		d.Reason, d.Message = VolumeOrphaned, "its PersistentVolume does not exist"
	case pv != nil && shared(pv) && !v.planner.WaitForShared:
		d.Reason, d.Message = VolumeShared, "may be attached to several Nodes at once"
	default:
		d.Blocks = true
		d.Reason, d.Message, d.Failed = progress(a)
	}
	return d, name, nil
}

func progress(a *storagev1.VolumeAttachment) (reason VolumeReason, message string, failed bool) {
	switch {
	case a.DeletionTimestamp != nil && a.Status.DetachError != nil:
		return VolumeDetaching, "detach failed, it is tried again: " + bounded(a.Status.DetachError.Message), true
	case a.DeletionTimestamp != nil:
		return VolumeDetaching, "being detached", false
	case a.Status.Attached:
		return VolumeAttached, "attached to the Node", false
	case a.Status.AttachError != nil:
		return VolumeAttaching, "attach failed: " + bounded(a.Status.AttachError.Message), true
	default:
		return VolumeAttaching, "being attached", false
	}
}

func bounded(text string) string {
	if len(text) > maxText {
		return strings.ToValidUTF8(text[:maxText], "") + "..."
	}
	return text
}

func (v *volumeView) since(a *storagev1.VolumeAttachment) time.Time {
	if a.DeletionTimestamp != nil {
		return a.DeletionTimestamp.Time
	}
	if a.CreationTimestamp.After(v.facts.StartedAt) {
		return a.CreationTimestamp.Time
	}
	return v.facts.StartedAt
}

// status decides about a volume that only the status of the Node names.
func (v *volumeView) status(name corev1.UniqueVolumeName) VolumeDecision {
	d := VolumeDecision{
		VolumeRef: VolumeRef{Name: string(name), Driver: pluginOf(string(name)), Since: v.facts.StartedAt},
		Mounted:   v.mounted[name],
	}
	switch {
	case strings.HasPrefix(string(name), csiPrefix):
		d.Reason, d.Message = VolumeUnattached, "has no VolumeAttachment"
	case v.foreign(d.Driver):
		d.Reason, d.Message = VolumeForeign, "its plugin is not one that is waited for"
	case v.plugins[d.Driver]:
		// In-tree volumes are matched to Pods only by their plugin: a wait that is too short is better than one without end.
		d.Reason, d.Message = VolumeOfIgnoredPod, "a Pod that stays on the Node uses a volume of this plugin"
	default:
		d.Blocks, d.Reason, d.Message = true, VolumeAttached, "attached to the Node"
	}
	return d
}

func (v *volumeView) foreign(driver string) bool {
	return len(v.planner.Drivers) > 0 && !slices.Contains(v.planner.Drivers, driver)
}

// shared follows the rule of kube-controller-manager for multi-attach, except that a volume without an access mode is exclusive.
func shared(pv *corev1.PersistentVolume) bool {
	return slices.ContainsFunc(pv.Spec.AccessModes, func(mode corev1.PersistentVolumeAccessMode) bool {
		return mode == corev1.ReadWriteMany || mode == corev1.ReadOnlyMany
	})
}

const pluginFlex = "flexvolume"

// pluginOf returns the driver of a CSI volume, or the plugin of another volume, from its name in the status of a Node.
func pluginOf(name string) string {
	if rest, csi := strings.CutPrefix(name, csiPrefix); csi {
		driver, _, _ := strings.Cut(rest, "^")
		return driver
	}
	if strings.HasPrefix(name, pluginFlex) {
		return pluginFlex
	}
	first, rest, found := strings.Cut(name, "/")
	if !found {
		return name
	}
	second, _, _ := strings.Cut(rest, "/")
	return first + "/" + second
}

// inTreePlugin returns the plugin of a volume in the spec of a Pod that may be attached without a VolumeAttachment, or "".
func inTreePlugin(s *corev1.VolumeSource) string {
	return firstPlugin(s.ISCSI != nil, s.FC != nil, s.FlexVolume != nil, s.RBD != nil, s.AWSElasticBlockStore != nil,
		s.GCEPersistentDisk != nil, s.AzureDisk != nil, s.Cinder != nil, s.VsphereVolume != nil, s.PortworxVolume != nil)
}

// inTreePluginOfVolume does the same for a PersistentVolume.
func inTreePluginOfVolume(s *corev1.PersistentVolumeSource) string {
	return firstPlugin(s.ISCSI != nil, s.FC != nil, s.FlexVolume != nil, s.RBD != nil, s.AWSElasticBlockStore != nil,
		s.GCEPersistentDisk != nil, s.AzureDisk != nil, s.Cinder != nil, s.VsphereVolume != nil, s.PortworxVolume != nil)
}

// firstPlugin returns the name of the first plugin in use, as it begins the names in the status of a Node. Current Kubernetes attaches only
// the first three without CSI; older workload clusters use the others.
func firstPlugin(used ...bool) string {
	names := [...]string{
		"kubernetes.io/iscsi", "kubernetes.io/fc", pluginFlex, "kubernetes.io/rbd", "kubernetes.io/aws-ebs",
		"kubernetes.io/gce-pd", "kubernetes.io/azure-disk", "kubernetes.io/cinder", "kubernetes.io/vsphere-volume",
		"kubernetes.io/portworx-volume",
	}
	if i := slices.Index(used, true); i >= 0 {
		return names[i]
	}
	return ""
}
