package contract

import (
	"encoding/json"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// machineSpecKubermatic returns the layout of a Machine spec of cluster.k8s.io/v1alpha1 below a prefix; see machineSpecV1Beta2.
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

// machineSpecGardener returns the layout of a Machine spec of machine.sapcloud.io/v1alpha1 below a prefix.
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

// machineForeign returns the fields that the Machines of both systems have at the same path, and the annotations.
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

// machineKubermatic is a Machine of cluster.k8s.io/v1alpha1. Its schema retains every field, but its own controller writes back only the
// fields of its Go type, so all other state is in annotations. There is no place for the observed generation, and for a Cluster, references
// to provider objects, timeouts and readiness gates, which that API does not have. The version usually has no leading v and is read
// unchanged. Conditions are those of Nodes and lose their observed generation.
var machineKubermatic = func() MachineLayout {
	l := machineForeign(machineSpecKubermatic("spec"))
	l.Phase, l.LastUpdated = At[string]("status", "phase"), At[time.Time]("status", "lastUpdated")
	l.NodeName, l.NodeUID = At[string]("status", "nodeRef", "name"), At[string]("status", "nodeRef", "uid")
	l.NodeKind, l.NodeAPIVersion = At[string]("status", "nodeRef", "kind"), At[string]("status", "nodeRef", "apiVersion")
	l.FailureReason, l.FailureMessage = At[string]("status", "errorReason"), At[string]("status", "errorMessage")
	return l
}()

// machineGardener is a Machine of machine.sapcloud.io/v1alpha1. The label "node" names the Node, as in that system, so the name must be a
// valid label value. State without a field in the schema is in annotations. A failure is too, because that system's next step depends on
// the text of status.lastOperation, which this library does not write. Addresses have a field since release 0.60; older CRDs prune them.
// There is no place for the observed generation, and for a Cluster, a version, references to provider objects, timeouts other than that of
// the drain, and readiness gates, which that API does not have. Conditions are those of Nodes and lose their observed generation.
var machineGardener = func() MachineLayout {
	l := machineForeign(machineSpecGardener("spec"))
	l.Phase, l.LastUpdated = At[string]("status", "currentStatus", "phase"), At[time.Time]("status", "currentStatus", "lastUpdateTime")
	l.NodeName, l.NodeUID = At[string]("metadata", "labels", "node"), AtAnnotation[string](NodeUIDAnnotation)
	l.FailureReason, l.FailureMessage = AtAnnotation[string](failureReasonAnnotation), AtAnnotation[string](failureMessageAnnotation)
	return l
}()

// replicatedForeign returns the common layout of sets and deployments of the other systems. Fields are named as in Kubernetes. There is no
// place for a Cluster, the deletion order, names and the selector as text.
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

// replicatedKubermatic counts by Nodes. The Go types of that system have no conditions, but its CRDs retain them. Only one controller can
// reconcile a set or a deployment, so no other controller overwrites them.
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

// machineSetKubermatic has no place for counters by Machines and for the selector as text. Its CRD retains conditions, which that system's
// own controller drops; the two controllers cannot run side by side. The whole spec of the template is in MadeOf.
var machineSetKubermatic = func() MachineSetLayout {
	l := MachineSetLayout{ReplicatedLayout: replicatedKubermatic(), FullyLabeledReplicas: At[int32]("status", "fullyLabeledReplicas")}
	l.DeletionOrder = At[string]("spec", "deletePolicy")
	return l
}()

// machineSetGardener has no place for up-to-date replicas, for counters by Nodes, and for the selector as text; conditions lose their
// observed generation. A template is compared by its labels, its annotations and the name of the class: the template of the Node and the
// settings of a Machine change in place.
var machineSetGardener = MachineSetLayout{
	ReplicatedLayout:     replicatedGardener("machineSetCondition"),
	FullyLabeledReplicas: At[int32]("status", "fullyLabeledReplicas"),
}

// deploymentForeign returns the common layout of deployments of the other systems. The rollout is configured as in Cluster API's v1beta1,
// which has the same fields as Kubernetes. There is no place for rolloutAfter, a limit of remediation, the deletion order, names and the
// phase. To restart Machines, change an annotation of the template, such as kubectl.kubernetes.io/restartedAt.
func deploymentForeign(replicated ReplicatedLayout) MachineDeploymentLayout {
	l := machineDeploymentV1Beta1
	l.ReplicatedLayout = replicated
	l.RolloutAfter, l.Phase = Field[time.Time]{}, Field[string]{}
	l.RemediationMaxInFlight = Field[intstr.IntOrString]{}
	return l
}

// machineDeploymentKubermatic has all rollout settings other than RolloutRolling in annotations, because that system's own controller
// supports no other type.
var machineDeploymentKubermatic = deploymentForeign(replicatedKubermatic())

// machineDeploymentGardener has no OnDelete strategy, but its schema accepts any text. A rollbackTo without a revision is no rollback.
var machineDeploymentGardener = func() MachineDeploymentLayout {
	l := deploymentForeign(replicatedGardener("conditions"))
	l.AnnotatedRolloutType = Field[string]{}
	l.InPlaceOrchestration = At[string]("spec", "strategy", "inPlaceUpdate", "orchestrationType")
	l.InPlaceMaxSurge = At[intstr.IntOrString]("spec", "strategy", "inPlaceUpdate", "maxSurge")
	l.InPlaceMaxUnavailable = At[intstr.IntOrString]("spec", "strategy", "inPlaceUpdate", "maxUnavailable")
	l.RollbackTo = At[int64]("spec", "rollbackTo", "revision")
	return l
}()
