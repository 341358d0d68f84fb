package contract

import (
	"encoding/json"
	"time"
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
		ObservedGeneration:  AtAnnotation[int64](observedGenerationAnnotation),
	}
}

var machineKubermatic = func() MachineLayout {
	l := machineForeign(machineSpecKubermatic("spec"))
	l.Phase, l.LastUpdated = At[string]("status", "phase"), At[time.Time]("status", "lastUpdated")
	l.NodeName, l.NodeUID = At[string]("status", "nodeRef", "name"), At[string]("status", "nodeRef", "uid")
	l.NodeKind, l.NodeAPIVersion = At[string]("status", "nodeRef", "kind"), At[string]("status", "nodeRef", "apiVersion")
	l.FailureReason, l.FailureMessage = At[string]("status", "errorReason"), At[string]("status", "errorMessage")
	return l
}()

// KubermaticMachine returns the layout of Machine in cluster.k8s.io/v1alpha1, the API of Kubermatic's machine-controller.
// That CRD has no status subresource: set StatusSubresource of the Kind to false. Its schema keeps every field, but its own
// controller writes back only what its Go type knows, so all other state is in annotations. The layout has no place for a
// Cluster, references to provider objects, timeouts and readiness gates, which that API does not have. The version is
// read as it stands there, which usually is without its leading v; conditions are those of Nodes and lose
// their observed generation. The table is shared and must not be changed.
func KubermaticMachine() *MachineLayout { return &machineKubermatic }

var machineGardener = func() MachineLayout {
	l := machineForeign(machineSpecGardener("spec"))
	l.Phase, l.LastUpdated = At[string]("status", "currentStatus", "phase"), At[time.Time]("status", "currentStatus", "lastUpdateTime")
	l.NodeName, l.NodeUID = At[string]("metadata", "labels", "node"), AtAnnotation[string](NodeUIDAnnotation)
	l.FailureReason, l.FailureMessage = AtAnnotation[string](failureReasonAnnotation), AtAnnotation[string](failureMessageAnnotation)
	return l
}()

// GardenerMachine returns the layout of Machine in machine.sapcloud.io/v1alpha1, the API of Gardener's
// machine-controller-manager. The Node is named by the label "node", as that system does it, so its name must fit a label.
// What the schema has no field for is in annotations; a failure is too, because that system takes its next step by the
// text of status.lastOperation, which is left alone. Addresses have a field since release 0.60; older CRDs prune them.
// The layout has no place for a Cluster, a version, references to provider objects, other timeouts than the one of the
// drain, and readiness gates, which that API does not have. Conditions are those of Nodes and lose their observed
// generation. The table is shared and must not be changed.
func GardenerMachine() *MachineLayout { return &machineGardener }
