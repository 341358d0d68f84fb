package contract

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// replicatedForeign is what sets and deployments of the other systems have in common: fields are named as in Kubernetes, and there is
// nothing for a Cluster, for the order of deletion, for names and for the selector as text.
func replicatedForeign(spec MachineSpecLayout, madeOf ...string) ReplicatedLayout {
	spec.MinReady = SecondsAt("spec", "minReadySeconds")
	return ReplicatedLayout{
		Replicas: At[int32]("spec", "replicas"),
		Selector: At[*metav1.LabelSelector]("spec", "selector"),
		Template: MachineTemplateLayout{
			Labels:            At[map[string]string]("spec", "template", "metadata", "labels"),
			Annotations:       At[map[string]string]("spec", "template", "metadata", "annotations"),
			MadeOf:            placesAt(append(madeOf, "spec.template.metadata.labels", "spec.template.metadata.annotations")...),
			MachineSpecLayout: spec,
		},
		DeletionOrder:      AtAnnotation[string](DeletionOrderAnnotation),
		MachineNaming:      AtAnnotation[string](MachineNamingAnnotation),
		ObservedReplicas:   At[int32]("status", "replicas"),
		ObservedGeneration: At[int64]("status", "observedGeneration"),
	}
}

// replicatedKubermatic counts by Nodes. Its Go types have no conditions, which its CRDs keep: only one controller can look after a set or a
// deployment, so that nothing writes a Go type back.
func replicatedKubermatic() ReplicatedLayout {
	l := replicatedForeign(machineSpecKubermatic("spec", "template", "spec"), "spec.template.spec")
	l.NodeReadyReplicas = At[int32]("status", "readyReplicas")
	l.NodeAvailableReplicas = At[int32]("status", "availableReplicas")
	l.Conditions = ConditionsAt("status", "conditions")
	return l
}

// replicatedGardener counts by Machines.
func replicatedGardener(conditions string) ReplicatedLayout {
	l := replicatedForeign(machineSpecGardener("spec", "template", "spec"), "spec.template.spec.class.name")
	l.ReadyReplicas = At[int32]("status", "readyReplicas")
	l.AvailableReplicas = At[int32]("status", "availableReplicas")
	l.Conditions = conditionsShaped(shapeNode, "status", conditions)
	return l
}

func machineSetKubermaticLayout() MachineSetLayout {
	l := MachineSetLayout{
		ReplicatedLayout:     replicatedKubermatic(),
		FullyLabeledReplicas: At[int32]("status", "fullyLabeledReplicas"),
	}
	l.DeletionOrder = At[string]("spec", "deletePolicy")
	return l
}

var machineSetKubermatic = machineSetKubermaticLayout()

// KubermaticMachineSet returns the layout of MachineSet in cluster.k8s.io/v1alpha1. Its numbers of ready and available replicas count by
// Nodes; it has no place for those that count by Machines, and for the selector as text. Conditions are where its CRD keeps them and its
// own controller does not: no other controller can run beside that one. How new Machines are named is in an annotation. What its template
// makes Machines of is all of it. The table is shared and must not be changed.
func KubermaticMachineSet() *MachineSetLayout { return &machineSetKubermatic }

var machineSetGardener = MachineSetLayout{
	ReplicatedLayout:     replicatedGardener("machineSetCondition"),
	FullyLabeledReplicas: At[int32]("status", "fullyLabeledReplicas"),
}

// GardenerMachineSet returns the layout of MachineSet in machine.sapcloud.io/v1alpha1. The order of deletion and how new Machines are
// named are in annotations, and so is a failure. It has no place for up-to-date replicas, for numbers that count by Nodes, and for the
// selector as text; conditions lose their observed generation. What its template makes Machines of are its labels, its annotations and the
// name of the class: the template of the Node and the settings of a Machine change in place. The table is shared and must not be changed.
func GardenerMachineSet() *MachineSetLayout { return &machineSetGardener }

// deploymentForeign is what deployments of the other systems have in common.
func deploymentForeign(replicated ReplicatedLayout) MachineDeploymentLayout {
	return MachineDeploymentLayout{
		ReplicatedLayout:     replicated,
		RolloutPaused:        At[bool]("spec", "paused"),
		RolloutType:          At[string]("spec", "strategy", "type"),
		MaxSurge:             At[intstr.IntOrString]("spec", "strategy", "rollingUpdate", "maxSurge"),
		MaxUnavailable:       At[intstr.IntOrString]("spec", "strategy", "rollingUpdate", "maxUnavailable"),
		RolloutAfter:         AtAnnotation[time.Time](RolloutAfterAnnotation),
		RevisionHistoryLimit: At[int32]("spec", "revisionHistoryLimit"),
		ProgressDeadline:     SecondsAt("spec", "progressDeadlineSeconds"),
		Phase:                AtAnnotation[string](phaseAnnotation),
		UnavailableReplicas:  At[int32]("status", "unavailableReplicas"),
		UpdatedReplicas:      At[int32]("status", "updatedReplicas"),
	}
}

func machineDeploymentKubermaticLayout() MachineDeploymentLayout {
	l := deploymentForeign(replicatedKubermatic())
	l.AnnotatedRolloutType = AtAnnotation[string](RolloutTypeAnnotation)
	l.InPlaceOrchestration = AtAnnotation[string](OrchestrationAnnotation)
	l.RollbackTo = AtAnnotation[int64](RollbackToAnnotation)
	return l
}

var machineDeploymentKubermatic = machineDeploymentKubermaticLayout()

// KubermaticMachineDeployment returns the layout of MachineDeployment in cluster.k8s.io/v1alpha1, whose own controller only knows
// RolloutRolling. Everything else that a rollout is asked for is in annotations, and so are the order of deletion, names and the phase.
// It has places for the same numbers as KubermaticMachineSet, and none for a limit of remediation. The table is shared and must not be
// changed.
func KubermaticMachineDeployment() *MachineDeploymentLayout { return &machineDeploymentKubermatic }

func machineDeploymentGardenerLayout() MachineDeploymentLayout {
	l := deploymentForeign(replicatedGardener("conditions"))
	l.InPlaceOrchestration = At[string]("spec", "strategy", "inPlaceUpdate", "orchestrationType")
	l.InPlaceMaxSurge = At[intstr.IntOrString]("spec", "strategy", "inPlaceUpdate", "maxSurge")
	l.InPlaceMaxUnavailable = At[intstr.IntOrString]("spec", "strategy", "inPlaceUpdate", "maxUnavailable")
	l.RollbackTo = At[int64]("spec", "rollbackTo", "revision")
	return l
}

var machineDeploymentGardener = machineDeploymentGardenerLayout()

// GardenerMachineDeployment returns the layout of MachineDeployment in machine.sapcloud.io/v1alpha1. Its strategy has no OnDelete, but its
// schema takes any text. A rollbackTo without a revision is no rollback. When older Machines are replaced, the order of deletion, names and
// the phase are in annotations. It has places for the same numbers as GardenerMachineSet, and none for a limit of remediation. The table is
// shared and must not be changed.
func GardenerMachineDeployment() *MachineDeploymentLayout { return &machineDeploymentGardener }
