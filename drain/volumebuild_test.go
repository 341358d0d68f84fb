package drain

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const testDriver = "disk.example.com"

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

type attachmentOption func(*storagev1.VolumeAttachment)

// attachment is called va-<pv>, an hour old and attached to the test's Node.
func attachment(pv string, opts ...attachmentOption) *storagev1.VolumeAttachment {
	a := &storagev1.VolumeAttachment{
		ObjectMeta: metav1.ObjectMeta{Name: "va-" + pv, CreationTimestamp: metav1.NewTime(noon.Add(-time.Hour))},
		Spec: storagev1.VolumeAttachmentSpec{
			Attacher: testDriver, NodeName: testNode, Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: &pv},
		},
		Status: storagev1.VolumeAttachmentStatus{Attached: true},
	}
	for _, opt := range opts {
		opt(a)
	}
	return a
}

func inline(a *storagev1.VolumeAttachment) {
	a.Spec.Source = storagev1.VolumeAttachmentSource{InlineVolumeSpec: &corev1.PersistentVolumeSpec{}}
}
func to(node string) attachmentOption {
	return func(a *storagev1.VolumeAttachment) { a.Spec.NodeName = node }
}
func detaching(a *storagev1.VolumeAttachment) {
	a.DeletionTimestamp = &metav1.Time{Time: noon.Add(-time.Minute)}
}
func notAttached(a *storagev1.VolumeAttachment) { a.Status.Attached = false }
func fresh(a *storagev1.VolumeAttachment) {
	a.CreationTimestamp = metav1.NewTime(noon.Add(-time.Second))
}

type volumeOption func(*corev1.PersistentVolume)

// volume is bound to the claim default/<name> and has the handle h-<name>.
func volume(name string, opts ...volumeOption) *corev1.PersistentVolume {
	pv := &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PersistentVolumeSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			ClaimRef:    &corev1.ObjectReference{Namespace: "default", Name: name},
			PersistentVolumeSource: corev1.PersistentVolumeSource{
				CSI: &corev1.CSIPersistentVolumeSource{Driver: testDriver, VolumeHandle: "h-" + name},
			},
		},
		Status: corev1.PersistentVolumeStatus{Phase: corev1.VolumeBound},
	}
	for _, opt := range opts {
		opt(pv)
	}
	return pv
}

func modes(m ...corev1.PersistentVolumeAccessMode) volumeOption {
	return func(pv *corev1.PersistentVolume) { pv.Spec.AccessModes = m }
}
func released(pv *corev1.PersistentVolume) { pv.Status.Phase = corev1.VolumeReleased }
func unclaimed(pv *corev1.PersistentVolume) {
	pv.Spec.ClaimRef = nil
}
func iscsi(pv *corev1.PersistentVolume) {
	pv.Spec.PersistentVolumeSource = corev1.PersistentVolumeSource{ISCSI: &corev1.ISCSIPersistentVolumeSource{}}
}

// volumes is a list of them.
type volumes []*corev1.PersistentVolume

func (vs volumes) Volume(name string) (*corev1.PersistentVolume, error) {
	for _, pv := range vs {
		if pv.Name == name {
			return pv, nil
		}
	}
	return nil, nil //nolint:nilnil // the contract of VolumeFacts.Volume
}

func claiming(claims ...string) podOption {
	return func(p *corev1.Pod) {
		for _, claim := range claims {
			p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: claim, VolumeSource: corev1.VolumeSource{
				PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim},
			}})
		}
	}
}

// ephemeral adds a generic ephemeral volume; its claim is called <pod>-<name>.
func ephemeral(name string) podOption {
	return func(p *corev1.Pod) {
		p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{
			Ephemeral: &corev1.EphemeralVolumeSource{},
		}})
	}
}

func byDaemonSet(p *corev1.Pod) { ownedBy("apps/v1", "DaemonSet")(p) }

func nodeWith(attached ...corev1.UniqueVolumeName) *corev1.Node {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: testNode}}
	for _, name := range attached {
		node.Status.VolumesAttached = append(node.Status.VolumesAttached, corev1.AttachedVolume{Name: name})
	}
	return node
}

func decisionsOf(pods ...*corev1.Pod) []Decision {
	return Planner{}.Plan([]NodePods{{Node: testNode, Pods: pods}}, Facts{}).Decisions
}
