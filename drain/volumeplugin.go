package drain

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

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
