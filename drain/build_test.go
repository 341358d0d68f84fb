package drain

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
)

const testNode = "node-a"

type podOption func(*corev1.Pod)

func newPod(name string, opts ...podOption) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: name, UID: types.UID("uid-" + name), Labels: map[string]string{"app": "web"},
		},
		Spec: corev1.PodSpec{NodeName: testNode},
		Status: corev1.PodStatus{
			Phase:      corev1.PodRunning,
			Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}},
		},
	}
	for _, opt := range opts {
		opt(pod)
	}
	return pod
}

func onNode(node string) podOption { return func(p *corev1.Pod) { p.Spec.NodeName = node } }
func inPhase(phase corev1.PodPhase) podOption {
	return func(p *corev1.Pod) { p.Status.Phase = phase }
}
func unready(p *corev1.Pod)     { p.Status.Conditions = nil }
func terminating(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{} }
func mirror(p *corev1.Pod)      { p.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "x"} }
func ownedBy(apiVersion, kind string) podOption {
	return func(p *corev1.Pod) {
		controller := true
		p.OwnerReferences = []metav1.OwnerReference{
			{APIVersion: apiVersion, Kind: kind, Name: "owner", UID: "owner", Controller: &controller},
		}
	}
}

type budgetOption func(*policyv1.PodDisruptionBudget)

// newBudget selects app=web with maxUnavailable 1 over 3 healthy pods.
func newBudget(name string, allowed int32, opts ...budgetOption) *policyv1.PodDisruptionBudget {
	one := intstr.FromInt32(1)
	pdb := &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, Generation: 1},
		Spec: policyv1.PodDisruptionBudgetSpec{
			MaxUnavailable: &one,
			Selector:       &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}},
		},
		Status: policyv1.PodDisruptionBudgetStatus{
			ObservedGeneration: 1, DisruptionsAllowed: allowed,
			ExpectedPods: 3, DesiredHealthy: 2, CurrentHealthy: 2 + allowed,
		},
	}
	for _, opt := range opts {
		opt(pdb)
	}
	return pdb
}

func limits(minAvailable, maxUnavailable string) budgetOption {
	parse := func(s string) *intstr.IntOrString {
		if s == "" {
			return nil
		}
		v := intstr.Parse(s)
		return &v
	}
	return func(b *policyv1.PodDisruptionBudget) {
		b.Spec.MinAvailable, b.Spec.MaxUnavailable = parse(minAvailable), parse(maxUnavailable)
	}
}

func healthy(expected, desired, current int32) budgetOption {
	return func(b *policyv1.PodDisruptionBudget) {
		b.Status.ExpectedPods, b.Status.DesiredHealthy, b.Status.CurrentHealthy = expected, desired, current
	}
}

func selecting(s *metav1.LabelSelector) budgetOption {
	return func(b *policyv1.PodDisruptionBudget) { b.Spec.Selector = s }
}

func unobserved(b *policyv1.PodDisruptionBudget) { b.Generation = 2 }

func unhealthyPolicy(p policyv1.UnhealthyPodEvictionPolicyType) budgetOption {
	return func(b *policyv1.PodDisruptionBudget) { b.Spec.UnhealthyPodEvictionPolicy = &p }
}

func syncFailure(b *policyv1.PodDisruptionBudget) {
	b.Status.Conditions = []metav1.Condition{{
		Type: policyv1.DisruptionAllowedCondition, Status: metav1.ConditionFalse,
		Reason: policyv1.SyncFailedReason, Message: "no scale subresource",
	}}
}

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
