package drain

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"
)

// VolumeReason says in one CamelCase word why a volume of a Node is waited for, or why not.
type VolumeReason string

// Volumes with these reasons are waited for.
const (
	VolumeAttached  VolumeReason = "Attached"  // nothing has asked for its detachment yet
	VolumeAttaching VolumeReason = "Attaching" // not attached yet, or it failed; an attach may still be on its way
	VolumeDetaching VolumeReason = "Detaching" // its VolumeAttachment has a deletionTimestamp
)

// Volumes with these reasons are not waited for.
const (
	// VolumeInline is in a pod's own spec and has no PersistentVolume. Cluster API fails on its VolumeAttachment for ever.
	VolumeInline VolumeReason = "InlineVolume"
	// VolumeOfIgnoredPod stays as long as a pod does that is never asked to go (Cluster API #6285).
	VolumeOfIgnoredPod VolumeReason = "UsedByIgnoredPod"
	// VolumeForeign belongs to a driver that is not in [VolumePlanner.Drivers].
	VolumeForeign VolumeReason = "ForeignDriver"
	// VolumeShared may be attached to several Nodes at once, so nobody waits for this Node to let go of it.
	VolumeShared VolumeReason = "SharedVolume"
	// VolumeOrphaned has a VolumeAttachment but its PersistentVolume is gone.
	VolumeOrphaned VolumeReason = "Orphaned"
	// VolumeUnattached is a CSI volume that only the Node's status names. A VolumeAttachment is removed when its driver has
	// confirmed the detachment, and the status follows later.
	VolumeUnattached VolumeReason = "NoVolumeAttachment"
)

// VolumeStop says why volumes that are still attached are not waited for any more.
type VolumeStop uint8

// The zero value means that the wait goes on.
const (
	VolumesNotStopped VolumeStop = iota
	// VolumesPoweredOff: the machine is off, nothing on it can unmount. The volumes are detached by force.
	VolumesPoweredOff
	// VolumesUnreachable: the kubelet does not answer, nothing on the Node can unmount.
	VolumesUnreachable
	// VolumesTimedOut: the caller's limit has passed.
	VolumesTimedOut
)

// String returns the name without its prefix, for example "TimedOut".
func (s VolumeStop) String() string {
	return nameOf(s, "VolumeStop", "NotStopped", "PoweredOff", "Unreachable", "TimedOut")
}

// VolumeRef names one volume of a Node.
type VolumeRef struct {
	// Name of the VolumeAttachment, or the volume's name in the Node's status when there is none.
	Name string
	// PV is the PersistentVolume; empty for volumes without one and for those that only the Node's status names.
	PV string
	// Claim is what the PersistentVolume says it is bound to; empty if unknown.
	Claim types.NamespacedName
	// Driver is the CSI driver, or the plugin of an in-tree volume such as "kubernetes.io/iscsi".
	Driver string
	Reason VolumeReason
	// Since is when it began to detach; before that, the later of its attachment and the start of the wait.
	Since time.Time
}

// VolumeDecision says whether one volume is waited for.
type VolumeDecision struct {
	VolumeRef
	Blocks bool
	// Mounted: the kubelet says that the volume is in use.
	Mounted bool
	// Failed: the driver's last attempt to detach (or, before that, to attach) the volume failed.
	Failed bool
	// Message is for people; it does not name the volume. It holds up to 512 bytes of the driver's error.
	Message string
}

// VolumePlan holds a decision for every volume of a Node. It is a value of its moment.
type VolumePlan struct {
	// Volumes are sorted by PersistentVolume and name.
	Volumes []VolumeDecision
	// Stopped says that the wait is over although volumes block.
	Stopped VolumeStop
}

// Done says that nothing is waited for: no volume blocks, or the wait was stopped.
func (p VolumePlan) Done() bool { return p.Stopped != VolumesNotStopped || len(p.Blocking()) == 0 }

// Blocking returns the volumes that are still in the way, also when the wait was stopped.
func (p VolumePlan) Blocking() []VolumeDecision {
	var out []VolumeDecision
	for i := range p.Volumes {
		if p.Volumes[i].Blocks {
			out = append(out, p.Volumes[i])
		}
	}
	return out
}

// VolumeLookup finds PersistentVolumes. An error means unread, which is never taken for absent. What it returns is shared
// and never changed. It is called while a plan is made and must answer from memory.
type VolumeLookup interface {
	// Volume returns a PersistentVolume by name; nil when it does not exist.
	Volume(name string) (*corev1.PersistentVolume, error)
	// VolumesOf returns the PersistentVolumes whose spec.claimRef names a claim, in any order. The reference is set before a
	// claim can be used, so claims themselves need not be read.
	VolumesOf(claim types.NamespacedName) ([]*corev1.PersistentVolume, error)
}

// VolumeFacts is what a [VolumePlanner] knows about one Node. Everything in it is shared and not changed.
type VolumeFacts struct {
	// Now is the moment of the snapshot.
	Now time.Time
	// Node is required: its status names volumes without a VolumeAttachment.
	Node *corev1.Node
	// Attachments are at least all VolumeAttachments of the Node. Others are skipped.
	Attachments []*storagev1.VolumeAttachment
	// Decisions are those of the Node's pods. Volumes of ignored pods are not waited for.
	Decisions []Decision
	// Lookup is required when there are volumes.
	Lookup VolumeLookup
	// StartedAt is when the wait began, as recorded by the caller. Without it there is no limit.
	StartedAt time.Time
	// Timeout ends the wait when it is above 0.
	Timeout time.Duration
	// Unreachable says that the Node has not answered for so long that it is given up.
	Unreachable bool
	// PoweredOff says that the provider has confirmed that the machine is off.
	PoweredOff bool
}

// VolumePlanner decides which volumes the deletion of a machine waits for. The zero value is ready to use; it is safe for
// concurrent use while it is not changed.
type VolumePlanner struct {
	// Drivers limits the wait to volumes of these CSI drivers or in-tree plugins; empty means all.
	Drivers []string
	// WaitForShared waits for volumes with access mode ReadWriteMany or ReadOnlyMany as well. It is for providers whose
	// disks are deleted together with the machine (Cluster API #4707).
	WaitForShared bool
}
