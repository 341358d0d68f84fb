package contract

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// HealthCheckState is everything that a decision about a MachineHealthCheck may need, whatever shape the object has.
// Strings, maps, slices and the selector are read-only views.
type HealthCheckState struct {
	Metadata

	ClusterName string
	// Selector says which Machines are checked; nil selects none.
	Selector *metav1.LabelSelector
	// UnhealthyNodeConditions are about the Node of a Machine, UnhealthyMachineConditions about the Machine itself. One that
	// holds is enough.
	UnhealthyNodeConditions, UnhealthyMachineConditions []UnhealthyCondition
	// NodeStartupTimeout is how long a Machine may be without a Node; absent counts as 10 minutes, and zero means no limit.
	NodeStartupTimeout Opt[time.Duration]
	// MaxUnhealthy is how many Machines may be unhealthy for remediation to go on, a percentage rounded down; absent is no
	// limit. UnhealthyRange, as in "[3-5]" with both ends included, goes before it when it is not empty.
	MaxUnhealthy   Opt[intstr.IntOrString]
	UnhealthyRange string
	// RemediationTemplate is what requests for external remediation are made of, the zero VersionedRef without.
	RemediationTemplate VersionedRef

	ExpectedMachines, CurrentHealthy, RemediationsAllowed Opt[int32]
	// Targets are the names of the Machines that were checked. There may be 10,000.
	Targets            []string
	Conditions         []metav1.Condition
	ObservedGeneration int64
}

// HealthCheckUpdate is what a pass wants to change. The zero update changes nothing. Where HealthCheckState has no Opt, zero
// and absent are the same to every reader, and setting the zero value removes the field.
type HealthCheckUpdate struct {
	MetadataUpdate

	ExpectedMachines, CurrentHealthy, RemediationsAllowed Change[int32]
	// Targets replace the list.
	Targets            Change[[]string]
	ObservedGeneration Change[int64]

	// Conditions are upserted by type; the others of the list stay. An empty reason becomes ReasonNotReported.
	Conditions []metav1.Condition
	// RemoveConditions are types to remove.
	RemoveConditions []string
}

// HealthCheckAdapter translates between a MachineHealthCheck of some shape and neutral values.
type HealthCheckAdapter = Adapter[HealthCheckState, HealthCheckUpdate]

// HealthCheckKind is a kind of MachineHealthCheck and how to read it.
type HealthCheckKind = KindOf[HealthCheckState, HealthCheckUpdate]
