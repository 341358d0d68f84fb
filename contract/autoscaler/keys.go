package autoscaler

import (
	"slices"

	"github.com/machinist-dev/machinist/contract"
)

// DefaultGroup is the API group that the autoscaler looks in, and that its keys begin with, unless it is told another one
// by its environment variable CAPI_GROUP.
const DefaultGroup = "cluster.x-k8s.io"

// Annotations of a scalable object that say what a new Node of it will look like, so that the autoscaler can decide about
// a group without Nodes. They are the same for every API group.
const (
	// CPUAnnotation, MemoryAnnotation and EphemeralDiskAnnotation hold quantities: "4", "16Gi".
	CPUAnnotation           = capacityPrefix + "cpu"
	MemoryAnnotation        = capacityPrefix + "memory"
	EphemeralDiskAnnotation = capacityPrefix + "ephemeral-disk"
	// MaxPodsAnnotation holds a whole number; DefaultMaxPods without it.
	MaxPodsAnnotation = capacityPrefix + "maxPods"
	// GPUTypeAnnotation holds the name of the extended resource, "nvidia.com/gpu", and GPUCountAnnotation a whole number.
	GPUTypeAnnotation  = capacityPrefix + "gpu-type"
	GPUCountAnnotation = capacityPrefix + "gpu-count"
	// LabelsAnnotation holds "key=value,key=value", and TaintsAnnotation "key=value:Effect,key:Effect".
	LabelsAnnotation = capacityPrefix + "labels"
	TaintsAnnotation = capacityPrefix + "taints"
	// CSIDriverAnnotation holds "driver=limit,driver=limit", how many volumes of each a Node takes; 0 is no limit.
	CSIDriverAnnotation = capacityPrefix + "csi-driver"
	// DRADriverAnnotation names the driver of the ResourceSlice that is simulated for the devices of GPUCountAnnotation.
	DRADriverAnnotation = capacityPrefix + "dra-driver"

	capacityPrefix = "capacity.cluster-autoscaler.kubernetes.io/"
)

// DefaultMaxPods is how many pods the autoscaler gives a new Node without MaxPodsAnnotation, whatever the template says.
const DefaultMaxPods = 110

// Other keys that are the same for every API group.
const (
	// RevisionAnnotation numbers the MachineSets of a MachineDeployment. Those below the highest number are old.
	RevisionAnnotation = contract.RevisionAnnotation
	// DeploymentNameLabel, on a MachineSet, names its MachineDeployment.
	DeploymentNameLabel = contract.DeploymentNameLabel
	// ReplicasManagedByAnnotation, on a MachinePool, says that another component than its controller manages replicas.
	// The autoscaler neither reads nor writes it; see ReplicasManagedElsewhere.
	ReplicasManagedByAnnotation = "cluster.x-k8s.io/replicas-managed-by"
	// ToBeDeletedTaint is put on a Node, with effect NoSchedule, before its pods are evicted and its Machine is marked.
	ToBeDeletedTaint = "ToBeDeletedByClusterAutoscaler"
	// DelayDeletionPrefix begins annotations of a Node that hold its removal up, for up to two minutes.
	DelayDeletionPrefix = "delay-deletion.cluster-autoscaler.kubernetes.io/"
	// AcceleratorLabel tells Nodes with GPUs from others. Kubelets set it.
	AcceleratorLabel = "cluster-api/accelerator"
)

// Keys are the annotation and label keys that follow the API group. Make them with KeysFor or DefaultKeys; functions of this
// package take the zero Keys for DefaultKeys.
type Keys struct {
	// Group is the API group of the objects themselves.
	Group string
	// MinSize and MaxSize are annotations of a scalable object; see ParseBounds.
	MinSize, MaxSize string
	// OptionPrefix begins annotations of a scalable object; see ParseOptions.
	OptionPrefix string
	// DeleteMachine is the annotation that the autoscaler puts on a Machine, before it lowers replicas by one.
	DeleteMachine string
	// Machine and ClusterNamespace are annotations of a Node that name its Machine. Joined by a slash they must be the
	// Machine's namespace and name; with both in Machine there must be no ClusterNamespace.
	Machine, ClusterNamespace string
	// ClusterName is a label of Machines and scalable objects that is read when spec.clusterName is absent. The same key is
	// an annotation of Nodes.
	ClusterName string
}

// KeysFor returns the keys of the autoscaler whose CAPI_GROUP is the given API group; empty is DefaultGroup.
func KeysFor(group string) Keys {
	if group == "" {
		group = DefaultGroup
	}
	return Keys{
		Group:            group,
		MinSize:          group + "/cluster-api-autoscaler-node-group-min-size",
		MaxSize:          group + "/cluster-api-autoscaler-node-group-max-size",
		OptionPrefix:     group + "/autoscaling-options-",
		DeleteMachine:    group + "/delete-machine",
		Machine:          group + "/machine",
		ClusterNamespace: group + "/cluster-namespace",
		ClusterName:      group + "/cluster-name",
	}
}

// DefaultKeys returns the keys for Cluster API's own group.
func DefaultKeys() Keys { return KeysFor(DefaultGroup) }

// orDefault makes the zero Keys useful.
func (k Keys) orDefault() Keys {
	if k == (Keys{}) {
		return DefaultKeys()
	}
	return k
}

// Key is one key that the autoscaler reads or writes.
type Key struct {
	// Name is the key itself, or a prefix of keys when it ends in "-" or "/".
	Name string
	// Place is "annotation", "label" or "taint".
	Place string
	// On are the kinds of objects that carry it.
	On []string
	// FollowsGroup says that the key begins with the API group of CAPI_GROUP.
	FollowsGroup bool
	// Written says that the autoscaler writes it. It reads all others.
	Written bool
}

// All returns every key that the autoscaler reads or writes on objects of Cluster API and their Nodes, those that follow the
// group first. The slices are the caller's.
func (k Keys) All() []Key {
	const annotation, label = "annotation", "label"
	k = k.orDefault()
	scalable := []string{kindMachineSet, kindMachineDeployment, kindMachinePool}
	sets, nodes := []string{kindMachineSet}, []string{"Node"}
	following := []Key{
		{Name: k.MinSize, Place: annotation, On: scalable, FollowsGroup: true},
		{Name: k.MaxSize, Place: annotation, On: scalable, FollowsGroup: true},
		{Name: k.OptionPrefix, Place: annotation, On: scalable, FollowsGroup: true},
		{Name: k.DeleteMachine, Place: annotation, On: []string{kindMachine}, FollowsGroup: true, Written: true},
		{Name: k.ClusterName, Place: label, On: append(slices.Clone(scalable), kindMachine), FollowsGroup: true},
		{Name: k.Machine, Place: annotation, On: nodes, FollowsGroup: true},
		{Name: k.ClusterNamespace, Place: annotation, On: nodes, FollowsGroup: true},
	}
	fixed := []string{CPUAnnotation, MemoryAnnotation, EphemeralDiskAnnotation, MaxPodsAnnotation, GPUTypeAnnotation,
		GPUCountAnnotation, LabelsAnnotation, TaintsAnnotation, CSIDriverAnnotation, DRADriverAnnotation, contract.PausedAnnotation}
	all := make([]Key, 0, len(following)+len(fixed)+5)
	all = append(all, following...)
	for _, name := range fixed {
		all = append(all, Key{Name: name, Place: annotation, On: scalable})
	}
	all = append(all,
		Key{Name: RevisionAnnotation, Place: annotation, On: sets},
		Key{Name: DeploymentNameLabel, Place: label, On: sets},
		Key{Name: ToBeDeletedTaint, Place: "taint", On: nodes, Written: true},
		Key{Name: DelayDeletionPrefix, Place: annotation, On: nodes},
		Key{Name: AcceleratorLabel, Place: label, On: nodes},
	)
	for i := range all {
		all[i].On = slices.Clone(all[i].On)
	}
	return all
}

// ReplicasManagedElsewhere reports whether the annotations of a MachinePool say that replicas are decided elsewhere, and the
// value, which names who does. Every value counts but "false", the empty one too. Rule: Cluster API's annotation
// cluster.x-k8s.io/replicas-managed-by, which is the same for every API group.
func ReplicasManagedElsewhere(annotations map[string]string) (by string, managed bool) {
	by, managed = annotations[ReplicasManagedByAnnotation]
	if by == "false" {
		return "", false
	}
	return by, managed
}
