package contract

import (
	"encoding/json"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// machineSpecKubermatic is the spec of a Machine in cluster.k8s.io/v1alpha1 below a prefix, as machineSpecV1Beta2 is Cluster API's.
func machineSpecKubermatic(prefix ...string) MachineSpecLayout {
	at := below(prefix)
	return MachineSpecLayout{
		ProviderID:      At[string](at("providerID")...),
		Version:         At[string](at("versions", "kubelet")...),
		ProviderSpec:    At[json.RawMessage](at("providerSpec", "value")...),
		Class:           objectRefAt(at("providerSpec", "valueFrom", "machineClass")...),
		Taints:          At[[]Taint](at("taints")...),
		NodeLabels:      At[map[string]string](at("metadata", "labels")...),
		NodeAnnotations: At[map[string]string](at("metadata", "annotations")...),
	}
}

// machineSpecGardener is the spec of a Machine in machine.sapcloud.io/v1alpha1 below a prefix.
func machineSpecGardener(prefix ...string) MachineSpecLayout {
	at := below(prefix)
	l := MachineSpecLayout{
		ProviderID:       At[string](at("providerID")...),
		Class:            RefAt(at("class")...),
		NodeDrainTimeout: At[time.Duration](at("drainTimeout")...),
		Taints:           At[[]Taint](at("nodeTemplate", "spec", "taints")...),
		NodeLabels:       At[map[string]string](at("nodeTemplate", "metadata", "labels")...),
		NodeAnnotations:  At[map[string]string](at("nodeTemplate", "metadata", "annotations")...),
	}
	for _, path := range [][]string{{"class", "apiGroup"}, {"class", "kind"}, {"creationTimeout"}, {"disableHealthTimeout"}, {"healthTimeout"},
		{"inPlaceUpdateTimeout"}, {"maxEvictRetries"}, {"nodeConditions"}, {"nodeTemplate", "metadata"}, {"nodeTemplate", "spec"}} {
		l.InPlace = append(l.InPlace, NewPath(at(path...)...))
	}
	return l
}

// machineForeign is what the Machines of both systems have at the same place, and in annotations.
func machineForeign(spec MachineSpecLayout) MachineLayout {
	spec.DataSecretName = AtAnnotation[string](dataSecretAnnotation)
	return MachineLayout{
		MachineSpecLayout:   spec,
		FailureDomain:       AtAnnotation[string](failureDomainAnnotation),
		BootstrapReady:      AtAnnotation[bool](bootstrapReadyAnnotation),
		InfrastructureReady: AtAnnotation[bool](infrastructureReadyAnnotation),
		Addresses:           At[[]Address]("status", "addresses"),
		Conditions:          conditionsShaped(shapeNode, "status", "conditions"),
	}
}

// machineKubermatic is a Machine in cluster.k8s.io/v1alpha1. Its schema keeps every field, but its own controller writes back only what its
// Go type knows, so all other state is in annotations. There is no place for the observed generation, and for a Cluster, references to
// provider objects, timeouts and readiness gates, which that API does not have. The version is read as it stands there, which usually is
// without its leading v; conditions are those of Nodes and lose their observed generation.
var machineKubermatic = func() MachineLayout {
	l := machineForeign(machineSpecKubermatic("spec"))
	l.Phase, l.LastUpdated = At[string]("status", "phase"), At[time.Time]("status", "lastUpdated")
	l.NodeName, l.NodeUID = At[string]("status", "nodeRef", "name"), At[string]("status", "nodeRef", "uid")
	l.NodeKind, l.NodeAPIVersion = At[string]("status", "nodeRef", "kind"), At[string]("status", "nodeRef", "apiVersion")
	l.FailureReason, l.FailureMessage = At[string]("status", "errorReason"), At[string]("status", "errorMessage")
	return l
}()

// machineGardener is a Machine in machine.sapcloud.io/v1alpha1. The Node is named by the label "node", as that system does it, so its name
// must fit a label. What the schema has no field for is in annotations; a failure is too, because that system takes its next step by the
// text of status.lastOperation, which is left alone. Addresses have a field since release 0.60; older CRDs prune them. There is no place
// for the observed generation, and for a Cluster, a version, references to provider objects, other timeouts than the one of the drain, and
// readiness gates, which that API does not have. Conditions are those of Nodes and lose their observed generation.
var machineGardener = func() MachineLayout {
	l := machineForeign(machineSpecGardener("spec"))
	l.Phase, l.LastUpdated = At[string]("status", "currentStatus", "phase"), At[time.Time]("status", "currentStatus", "lastUpdateTime")
	l.NodeName, l.NodeUID = At[string]("metadata", "labels", "node"), AtAnnotation[string](NodeUIDAnnotation)
	l.FailureReason, l.FailureMessage = AtAnnotation[string](failureReasonAnnotation), AtAnnotation[string](failureMessageAnnotation)
	return l
}()

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

// machineSetKubermatic has no place for numbers that count by Machines, and for the selector as text. Conditions are where its CRD keeps
// them and its own controller does not: no other controller can run beside that one. What its template makes Machines of is all of it.
var machineSetKubermatic = func() MachineSetLayout {
	l := MachineSetLayout{ReplicatedLayout: replicatedKubermatic(), FullyLabeledReplicas: At[int32]("status", "fullyLabeledReplicas")}
	l.DeletionOrder = At[string]("spec", "deletePolicy")
	return l
}()

// machineSetGardener has no place for up-to-date replicas, for numbers that count by Nodes, and for the selector as text; conditions lose
// their observed generation. What its template makes Machines of are its labels, its annotations and the name of the class: the template of
// the Node and the settings of a Machine change in place.
var machineSetGardener = MachineSetLayout{
	ReplicatedLayout:     replicatedGardener("machineSetCondition"),
	FullyLabeledReplicas: At[int32]("status", "fullyLabeledReplicas"),
}

// deploymentForeign is what deployments of the other systems have in common: the rollout is asked for as in Cluster API's v1beta1, which
// has all of it where Kubernetes has it. There is no place for when older Machines are replaced, a limit of remediation, the order of
// deletion, names and the phase: a restart is a change of an annotation of the template, such as kubectl.kubernetes.io/restartedAt.
func deploymentForeign(replicated ReplicatedLayout) MachineDeploymentLayout {
	l := machineDeploymentV1Beta1
	l.ReplicatedLayout = replicated
	l.RolloutAfter, l.Phase = Field[time.Time]{}, Field[string]{}
	l.RemediationMaxInFlight = Field[intstr.IntOrString]{}
	return l
}

// machineDeploymentKubermatic has everything in annotations that a rollout is asked for beyond RolloutRolling, which is all that its own
// controller knows.
var machineDeploymentKubermatic = deploymentForeign(replicatedKubermatic())

// machineDeploymentGardener: the strategy has no OnDelete, but its schema takes any text. A rollbackTo without a revision is no rollback.
var machineDeploymentGardener = func() MachineDeploymentLayout {
	l := deploymentForeign(replicatedGardener("conditions"))
	l.AnnotatedRolloutType = Field[string]{}
	l.InPlaceOrchestration = At[string]("spec", "strategy", "inPlaceUpdate", "orchestrationType")
	l.InPlaceMaxSurge = At[intstr.IntOrString]("spec", "strategy", "inPlaceUpdate", "maxSurge")
	l.InPlaceMaxUnavailable = At[intstr.IntOrString]("spec", "strategy", "inPlaceUpdate", "maxUnavailable")
	l.RollbackTo = At[int64]("spec", "rollbackTo", "revision")
	return l
}()
