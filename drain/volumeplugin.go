package drain

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Names of in-tree plugins as they begin the names in a Node's status. Current Kubernetes attaches only the first three
// without CSI; the others are met in older workload clusters.
const (
	pluginISCSI     = "kubernetes.io/iscsi"
	pluginFC        = "kubernetes.io/fc"
	pluginFlex      = "flexvolume"
	pluginRBD       = "kubernetes.io/rbd"
	pluginEBS       = "kubernetes.io/aws-ebs"
	pluginGCE       = "kubernetes.io/gce-pd"
	pluginAzureDisk = "kubernetes.io/azure-disk"
	pluginCinder    = "kubernetes.io/cinder"
	pluginVSphere   = "kubernetes.io/vsphere-volume"
	pluginPortworx  = "kubernetes.io/portworx-volume"
)

// pluginOf returns the driver of a CSI volume or the plugin of another one from its name in a Node's status.
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

// inTreePlugin returns the plugin of a volume in a pod's spec that may be attached without a VolumeAttachment, or "".
func inTreePlugin(s *corev1.VolumeSource) string {
	return firstUsed([]pluginUse{
		{s.ISCSI != nil, pluginISCSI}, {s.FC != nil, pluginFC}, {s.FlexVolume != nil, pluginFlex}, {s.RBD != nil, pluginRBD},
		{s.AWSElasticBlockStore != nil, pluginEBS}, {s.GCEPersistentDisk != nil, pluginGCE}, {s.AzureDisk != nil, pluginAzureDisk},
		{s.Cinder != nil, pluginCinder}, {s.VsphereVolume != nil, pluginVSphere}, {s.PortworxVolume != nil, pluginPortworx},
	})
}

// inTreePluginOfVolume is the same for a PersistentVolume.
func inTreePluginOfVolume(s *corev1.PersistentVolumeSource) string {
	return firstUsed([]pluginUse{
		{s.ISCSI != nil, pluginISCSI}, {s.FC != nil, pluginFC}, {s.FlexVolume != nil, pluginFlex}, {s.RBD != nil, pluginRBD},
		{s.AWSElasticBlockStore != nil, pluginEBS}, {s.GCEPersistentDisk != nil, pluginGCE}, {s.AzureDisk != nil, pluginAzureDisk},
		{s.Cinder != nil, pluginCinder}, {s.VsphereVolume != nil, pluginVSphere}, {s.PortworxVolume != nil, pluginPortworx},
	})
}

type pluginUse struct {
	used   bool
	plugin string
}

func firstUsed(uses []pluginUse) string {
	for _, u := range uses {
		if u.used {
			return u.plugin
		}
	}
	return ""
}
