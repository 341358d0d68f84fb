package drain

import (
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"
)

// VolumeStop is why attached volumes are no longer waited for; empty while they are.
type VolumeStop string

// Values of VolumeStop.
const (
	VolumesNotStopped VolumeStop = ""
	// VolumesPoweredOff: the machine is off and cannot unmount volumes. They are detached by force.
	VolumesPoweredOff VolumeStop = "PoweredOff"
	// VolumesUnreachable: the kubelet does not answer and cannot unmount volumes.
	VolumesUnreachable VolumeStop = "Unreachable"
	// VolumesTimedOut: the timeout of the caller has passed.
	VolumesTimedOut VolumeStop = "TimedOut"
)

// VolumeRef names one volume of a Node.
type VolumeRef struct {
	// Name is the name of the VolumeAttachment or, without one, the name of the volume in the status of the Node.
	Name string
	// PV is the PersistentVolume; empty for volumes without one and for volumes that only the status of the Node names.
	PV string
	// Claim is the claim to which the PersistentVolume is bound; empty if unknown.
	Claim types.NamespacedName
}

// VolumePlan lists the volumes of a Node that are waited for. It describes one point in time.
type VolumePlan struct {
	// Blocking are the volumes that are waited for, or that remained when the wait was stopped, sorted by PersistentVolume and name.
	Blocking []VolumeRef
	// Stopped is why the wait is over although volumes block.
	Stopped VolumeStop
}

// Done reports whether no volume is waited for: none blocks, or the wait was stopped.
func (p VolumePlan) Done() bool {
	return p.Stopped != VolumesNotStopped || len(p.Blocking) == 0
}

// VolumeFacts are the input of [PlanVolumes] about one Node. They are shared and not changed.
type VolumeFacts struct {
	// Now is the time of the snapshot.
	Now time.Time
	// Node is required: its status has the volumes without a VolumeAttachment, and whether the Node answers.
	Node *corev1.Node
	// Attachments are at least all VolumeAttachments of the Node. Others are ignored.
	Attachments []*storagev1.VolumeAttachment
	// Decisions are the decisions about the Pods of the Node. Volumes of ignored Pods are not waited for.
	Decisions []Decision
	// Volume returns a PersistentVolume by name; nil when it does not exist. An error means that it is unknown. It is required when there are
	// attachments, must read from memory, and may return a shared object.
	Volume func(name string) (*corev1.PersistentVolume, error)
	// StartedAt is when the wait started, as recorded by the caller. Without it, there is no limit.
	StartedAt time.Time
	// Timeout ends the wait when it is above 0.
	Timeout time.Duration
	// PoweredOff means that the provider has confirmed that the machine is off.
	PoweredOff bool
}

const maxVolumeNames = 5 // per line, as in Cluster API

// Summary returns the volumes that are waited for in the form of Cluster API's message, without its first line, which contains a start
// time. Each line names at most five volumes. It is empty when no volume blocks, contains no times, and is equal for equal plans.
func (p VolumePlan) Summary() string {
	var claims, volumes, inTree []string
	for _, v := range p.Blocking {
		switch {
		case v.Claim.Name != "":
			claims = append(claims, v.Claim.String())
		case v.PV != "":
			volumes = append(volumes, v.PV)
		default:
			inTree = append(inTree, v.Name)
		}
	}
	var lines []string
	bullet := func(text string, names []string) {
		if len(names) > 0 {
			lines = append(lines, "* "+text+": "+limited(names, maxVolumeNames))
		}
	}
	bullet("PersistentVolumeClaims", claims)
	bullet("PersistentVolumes without a .spec.claimRef to a PersistentVolumeClaim", volumes)
	bullet("Node with .status.volumesAttached entries not matching a PersistentVolume", inTree)
	return strings.Join(lines, "\n")
}

// claimsOf returns the claims that a Pod uses, including those of its generic ephemeral volumes.
func claimsOf(pod *corev1.Pod) []types.NamespacedName {
	var claims []types.NamespacedName
	for i := range pod.Spec.Volumes {
		switch volume := &pod.Spec.Volumes[i]; {
		case volume.PersistentVolumeClaim != nil:
			claims = append(claims, types.NamespacedName{Namespace: pod.Namespace, Name: volume.PersistentVolumeClaim.ClaimName})
		case volume.Ephemeral != nil:
			claims = append(claims, types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name + "-" + volume.Name})
		}
	}
	return claims
}
