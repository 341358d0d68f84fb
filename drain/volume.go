package drain

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"
)

// VolumeStop says why attached volumes are no longer waited for.
type VolumeStop uint8

// The zero value means that the wait continues.
const (
	VolumesNotStopped VolumeStop = iota
	// VolumesPoweredOff: the machine is off and cannot unmount volumes. They are detached by force.
	VolumesPoweredOff
	// VolumesUnreachable: the kubelet does not answer and cannot unmount volumes.
	VolumesUnreachable
	// VolumesTimedOut: the limit of the caller has passed.
	VolumesTimedOut
)

// String returns the name without its prefix, for example "TimedOut".
func (s VolumeStop) String() string {
	return nameOf(s, "VolumeStop", "NotStopped", "PoweredOff", "Unreachable", "TimedOut")
}

// VolumeRef names one volume of a Node.
type VolumeRef struct {
	// Name is the name of the VolumeAttachment or, without one, the name of the volume in the status of the Node.
	Name string
	// PV is the PersistentVolume; empty for volumes without one and for volumes that only the status of the Node names.
	PV string
	// Claim is the claim to which the PersistentVolume is bound; empty if unknown.
	Claim types.NamespacedName
}

// volumeDecision is the decision whether one volume is waited for.
type volumeDecision struct {
	VolumeRef
	blocks    bool
	detaching bool // its VolumeAttachment has a deletionTimestamp
	// failed: the last attempt of the driver to detach the volume, or before that to attach it, failed.
	failed bool
}

// VolumePlan contains a decision for every volume of a Node. It describes one point in time.
type VolumePlan struct {
	volumes []volumeDecision // sorted by PersistentVolume and name
	// Stopped says why the wait is over although volumes block.
	Stopped VolumeStop
}

// Done reports that no volume is waited for: none blocks, or the wait was stopped.
func (p VolumePlan) Done() bool {
	return p.Stopped != VolumesNotStopped || !slices.ContainsFunc(p.volumes, func(d volumeDecision) bool { return d.blocks })
}

// Blocking returns the volumes that block, sorted, also when the wait was stopped.
func (p VolumePlan) Blocking() []VolumeRef {
	var out []VolumeRef
	for i := range p.volumes {
		if p.volumes[i].blocks {
			out = append(out, p.volumes[i].VolumeRef)
		}
	}
	return out
}

// VolumeLookup finds PersistentVolumes. An error means that the volume is unknown, and not that it does not exist. Returned objects are
// shared and must not be changed. VolumeLookup is called while a plan is made and must answer from memory.
type VolumeLookup interface {
	// Volume returns a PersistentVolume by name; nil when it does not exist.
	Volume(name string) (*corev1.PersistentVolume, error)
	// VolumesOf returns the PersistentVolumes whose spec.claimRef names a claim, in any order. The reference is set before a claim can be
	// used, so it is not necessary to read claims.
	VolumesOf(claim types.NamespacedName) ([]*corev1.PersistentVolume, error)
}

// VolumeFacts is what [PlanVolumes] knows about one Node. Everything in it is shared and not changed.
type VolumeFacts struct {
	// Now is the time of the snapshot.
	Now time.Time
	// Node is required: its status names volumes without a VolumeAttachment.
	Node *corev1.Node
	// Attachments are at least all VolumeAttachments of the Node. Others are skipped.
	Attachments []*storagev1.VolumeAttachment
	// Decisions are those about the Pods of the Node. Volumes of ignored Pods are not waited for.
	Decisions []Decision
	// Lookup is required when there are volumes.
	Lookup VolumeLookup
	// StartedAt is when the wait began, as recorded by the caller. Without it, there is no limit.
	StartedAt time.Time
	// Timeout ends the wait when it is above 0.
	Timeout time.Duration
	// Unreachable says that the Node has not answered for too long.
	Unreachable bool
	// PoweredOff says that the provider confirmed that the machine is off.
	PoweredOff bool
}

const maxVolumeNames = 5 // per line, as in Cluster API

// Summary returns the volumes that are waited for in the lines of Cluster API's message, without its first line, which contains a start
// time. Each line names at most maxNames volumes (0 or less means 5), and at most three failures of drivers follow. It is empty when no
// volume blocks, contains no times, and is equal for equal plans.
func (p VolumePlan) Summary(maxNames int) string {
	var claims, volumes, inTree, failures []string
	for i := range p.volumes {
		d := &p.volumes[i]
		if !d.blocks {
			continue
		}
		switch {
		case d.Claim.Name != "":
			claims = append(claims, d.Claim.String())
		case d.PV != "":
			volumes = append(volumes, d.PV)
		default:
			inTree = append(inTree, d.Name)
		}
		if d.failed && len(failures) < defaultNames {
			failures = append(failures, failure(d))
		}
	}
	var lines []string
	bullet := func(text string, names []string) {
		if len(names) > 0 {
			lines = append(lines, "* "+text+": "+limited(names, maxNames))
		}
	}
	bullet("PersistentVolumeClaims", claims)
	bullet("PersistentVolumes without a .spec.claimRef to a PersistentVolumeClaim", volumes)
	bullet("Node with .status.volumesAttached entries not matching a PersistentVolume", inTree)
	return strings.Join(append(lines, failures...), "\n")
}

// failure omits the text of the driver: many contain the ID of a request, and would change the message with every attempt.
func failure(d *volumeDecision) string {
	if d.detaching {
		return fmt.Sprintf("* VolumeAttachment %s: detach failed and is tried again, see its .status.detachError", d.Name)
	}
	return fmt.Sprintf("* VolumeAttachment %s: attach failed, see its .status.attachError", d.Name)
}

// limited lists as many names as limit says; 0 or less means maxVolumeNames.
func limited(names []string, limit int) string {
	if limit <= 0 {
		limit = maxVolumeNames
	}
	slices.Sort(names)
	shown := names[:min(limit, len(names))]
	return joined(shown, len(names)-len(shown))
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
