package contract

import "time"

var machineV1Beta2 = MachineLayout{
	MachineSpecLayout:   machineSpecV1Beta2("spec"),
	Phase:               At[string]("status", "phase"),
	NodeName:            At[string]("status", "nodeRef", "name"),
	NodeUID:             AtAnnotation[string](NodeUIDAnnotation),
	FailureDomain:       At[string]("status", "failureDomain"),
	BootstrapReady:      At[bool]("status", "initialization", "bootstrapDataSecretCreated"),
	InfrastructureReady: At[bool]("status", "initialization", "infrastructureProvisioned"),
	Addresses:           At[[]Address]("status", "addresses"),
	Conditions:          ConditionsAt("status", "conditions"),
	ObservedGeneration:  At[int64]("status", "observedGeneration"),
	LastUpdated:         At[time.Time]("status", "lastUpdated"),
	DrainStarted:        At[time.Time]("status", "deletion", "nodeDrainStartTime"),
	VolumeDetachStarted: At[time.Time]("status", "deletion", "waitForNodeVolumeDetachStartTime"),
	FailureReason:       At[string]("status", "deprecated", "v1beta1", "failureReason"),
	FailureMessage:      At[string]("status", "deprecated", "v1beta1", "failureMessage"),
	CertificatesExpire:  At[time.Time]("status", "certificatesExpiryDate"),
}

// MachineV1Beta2 returns the layout of Machine in cluster.x-k8s.io/v1beta2. The UID of the Node, for which that schema has no field, is in
// an annotation. The table is shared and must not be changed.
func MachineV1Beta2() *MachineLayout { return &machineV1Beta2 }

var machineV1Beta1 = func() MachineLayout {
	l := machineV1Beta2
	l.MachineSpecLayout = machineSpecV1Beta1("spec")
	l.NodeUID = At[string]("status", "nodeRef", "uid")
	l.NodeKind, l.NodeAPIVersion = At[string]("status", "nodeRef", "kind"), At[string]("status", "nodeRef", "apiVersion")
	l.FailureDomain = At[string]("spec", "failureDomain")
	l.BootstrapReady, l.InfrastructureReady = At[bool]("status", "bootstrapReady"), At[bool]("status", "infrastructureReady")
	l.Conditions = conditionsV1Beta1()
	l.FailureReason, l.FailureMessage = At[string]("status", "failureReason"), At[string]("status", "failureMessage")
	return l
}()

// MachineV1Beta1 returns the layout of Machine in cluster.x-k8s.io/v1beta1. Conditions are written in both shapes and
// places that this version has, and read from the one in metav1 shape while there is one. A failure domain has one field
// for what is wanted and what is. The table is shared and must not be changed.
func MachineV1Beta1() *MachineLayout { return &machineV1Beta1 }
