package propagate

import corev1 "k8s.io/api/core/v1"

// Annotations on a Node that this package keeps. They are Cluster API's, as of v1.13.
const (
	// LabelsFromMachineAnnotation lists the keys of the labels that came from the Machine, sorted and separated by commas.
	LabelsFromMachineAnnotation = "cluster.x-k8s.io/labels-from-machine"
	// AnnotationsFromMachineAnnotation lists the keys of the annotations that came from the Machine, sorted and separated by
	// commas. The owner annotations are not listed.
	AnnotationsFromMachineAnnotation = "cluster.x-k8s.io/annotations-from-machine"

	// ClusterNameAnnotation holds [Owner.ClusterName].
	ClusterNameAnnotation = "cluster.x-k8s.io/cluster-name"
	// ClusterNamespaceAnnotation holds [Owner.ClusterNamespace].
	ClusterNamespaceAnnotation = "cluster.x-k8s.io/cluster-namespace"
	// MachineAnnotation holds [Owner.Machine].
	MachineAnnotation = "cluster.x-k8s.io/machine"
	// OwnerKindAnnotation holds [Owner.OwnerKind].
	OwnerKindAnnotation = "cluster.x-k8s.io/owner-kind"
	// OwnerNameAnnotation holds [Owner.OwnerName].
	OwnerNameAnnotation = "cluster.x-k8s.io/owner-name"
)

// The taint that keeps pods off a Node until it has its labels. Bootstrap providers register the Node with it.
const (
	// UninitializedTaintKey is the key of the taint that [Diff] removes.
	UninitializedTaintKey = "node.cluster.x-k8s.io/uninitialized"
	// UninitializedTaintEffect is its effect. A taint with this key and another effect is somebody else's.
	UninitializedTaintEffect = corev1.TaintEffectNoSchedule
)

// Owner says on the Node which Machine it belongs to. The zero Owner leaves the owner annotations as they are. Otherwise
// all five are made to agree with it: an empty field means that its annotation is removed.
type Owner struct {
	ClusterName      string
	ClusterNamespace string
	// Machine is the name of the Machine. It lives in ClusterNamespace.
	Machine string
	// OwnerKind and OwnerName name the Machine's controller, for example a MachineSet. Both are empty for a Machine that
	// stands alone.
	OwnerKind string
	OwnerName string
}

// Desired is what a Node should have from its Machine. Maps are read, never changed or kept.
type Desired struct {
	// Labels the Node should have, usually from [Policy.SelectLabels].
	Labels map[string]string
	// Annotations the Node should have, usually from [Policy.SelectAnnotations]. The keys that this package keeps itself
	// (the constants above) are passed over.
	Annotations map[string]string
	// Owner becomes the owner annotations.
	Owner Owner
}

type pair struct{ key, value string }

func (o Owner) annotations() [5]pair {
	return [5]pair{
		{ClusterNameAnnotation, o.ClusterName},
		{ClusterNamespaceAnnotation, o.ClusterNamespace},
		{MachineAnnotation, o.Machine},
		{OwnerKindAnnotation, o.OwnerKind},
		{OwnerNameAnnotation, o.OwnerName},
	}
}

// reserved keys are written from Owner and from the bookkeeping alone; a second writer would put two operations on one path.
func reserved(key string) bool {
	switch key {
	case LabelsFromMachineAnnotation, AnnotationsFromMachineAnnotation, ClusterNameAnnotation, ClusterNamespaceAnnotation,
		MachineAnnotation, OwnerKindAnnotation, OwnerNameAnnotation:
		return true
	default:
		return false
	}
}
