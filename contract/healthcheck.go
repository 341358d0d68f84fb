package contract

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// HealthRule makes a Machine unhealthy when one of its conditions has had a status for longer than a timeout.
type HealthRule struct {
	Type   string
	Status metav1.ConditionStatus
	// Timeout is how long the condition must have had the status; the Machine is unhealthy once it has passed.
	Timeout time.Duration
}

// HealthCheckState is everything that a decision about a MachineHealthCheck may need, independent of the shape of the object. Strings,
// maps, slices and the selector are read-only views.
type HealthCheckState struct {
	Metadata

	ClusterName string
	// Selector selects the Machines of the cluster to check; nil selects none.
	Selector *metav1.LabelSelector
	// NodeRules apply to conditions of Nodes, and MachineRules to conditions of Machines.
	NodeRules, MachineRules []HealthRule
	// NodeStartup is how long a Machine may exist without a Node; zero means no limit.
	NodeStartup Opt[time.Duration]
	// MaxUnhealthy is a number or a percentage. UnhealthyRange is a range such as [3-5] and takes precedence.
	MaxUnhealthy   Opt[intstr.IntOrString]
	UnhealthyRange string
	// Template refers to the template of remediation requests; the zero Ref means that owners remediate. TemplateVersion is its API version,
	// without the group.
	Template        Ref
	TemplateVersion string

	ExpectedMachines, CurrentHealthy, RemediationsAllowed Opt[int32]
	// Targets are the names of the checked Machines, up to 10,000.
	Targets            []string
	Conditions         []metav1.Condition
	ObservedGeneration int64
}

// HealthCheckUpdate holds the changes of a pass. The zero update changes nothing.
type HealthCheckUpdate struct {
	MetadataUpdate

	ExpectedMachines, CurrentHealthy, RemediationsAllowed Change[int32]
	// Targets replaces the list.
	Targets            Change[[]string]
	ObservedGeneration Change[int64]

	// Conditions are upserted by type; other conditions do not change. An empty reason becomes ReasonNotReported.
	Conditions []metav1.Condition
	// RemoveConditions lists the types to remove.
	RemoveConditions []string
}

// HealthCheckKind is a kind of MachineHealthCheck with its Adapter.
type HealthCheckKind = KindOf[HealthCheckState, HealthCheckUpdate]

// HealthCheckLayout locates the fields of a MachineHealthCheck of one shape. Its members correspond to those of HealthCheckState and
// HealthCheckUpdate. As in a MachineLayout, a zero Field has no place.
type HealthCheckLayout struct {
	ClusterName                                           Field[string]                `by:"user" absent:"no Cluster"`
	Selector                                              Field[*metav1.LabelSelector] `by:"user" absent:"no Machine"`
	NodeRules, MachineRules                               Field[[]HealthRule]          `by:"user" absent:"none"`
	NodeStartup                                           Field[time.Duration]         `by:"user" absent:"10 min"`
	MaxUnhealthy                                          Field[intstr.IntOrString]    `by:"user" absent:"100%"`
	UnhealthyRange                                        Field[string]                `by:"user" absent:"the maximum counts"`
	Template                                              RefField                     `by:"user" absent:"owners remediate"`
	ExpectedMachines, CurrentHealthy, RemediationsAllowed Field[int32]                 `by:"controller" absent:"unknown"`
	Targets                                               Field[[]string]              `by:"controller" absent:"none"`
	Conditions                                            ConditionsField              `by:"controller" absent:"none"`
	ObservedGeneration                                    Field[int64]                 `by:"controller" absent:"0: never looked at"`
}

var healthCheckV1Beta2 = HealthCheckLayout{
	ClusterName:         At[string]("spec", "clusterName"),
	Selector:            At[*metav1.LabelSelector]("spec", "selector"),
	NodeRules:           rulesInSecondsAt("spec", "checks", "unhealthyNodeConditions"),
	MachineRules:        rulesInSecondsAt("spec", "checks", "unhealthyMachineConditions"),
	NodeStartup:         SecondsAt("spec", "checks", "nodeStartupTimeoutSeconds"),
	MaxUnhealthy:        At[intstr.IntOrString]("spec", "remediation", "triggerIf", "unhealthyLessThanOrEqualTo"),
	UnhealthyRange:      At[string]("spec", "remediation", "triggerIf", "unhealthyInRange"),
	Template:            versionedRefAt("spec", "remediation", "templateRef"),
	ExpectedMachines:    At[int32]("status", "expectedMachines"),
	CurrentHealthy:      At[int32]("status", "currentHealthy"),
	RemediationsAllowed: At[int32]("status", "remediationsAllowed"),
	Targets:             At[[]string]("status", "targets"),
	Conditions:          ConditionsAt("status", "conditions"),
	ObservedGeneration:  At[int64]("status", "observedGeneration"),
}

var healthCheckV1Beta1 = func() HealthCheckLayout {
	l := healthCheckV1Beta2
	l.NodeRules = At[[]HealthRule]("spec", "unhealthyConditions")
	l.MachineRules = At[[]HealthRule]("spec", "unhealthyMachineConditions")
	l.NodeStartup = At[time.Duration]("spec", "nodeStartupTimeout")
	l.MaxUnhealthy = At[intstr.IntOrString]("spec", "maxUnhealthy")
	l.UnhealthyRange = At[string]("spec", "unhealthyRange")
	l.Template = objectRefAt("spec", "remediationTemplate")
	l.Conditions = conditionsV1Beta1()
	return l
}()

func (l *HealthCheckLayout) read(obj map[string]any, into *HealthCheckState) error {
	x := &exchange{obj: obj}
	l.walk(x, into, &HealthCheckUpdate{})
	return x.err
}

func (l *HealthCheckLayout) write(obj map[string]any, u HealthCheckUpdate) error {
	x := &exchange{obj: obj, writes: true}
	l.walk(x, &HealthCheckState{}, &u)
	return x.err
}

func (l *HealthCheckLayout) walk(x *exchange, s *HealthCheckState, u *HealthCheckUpdate) {
	x.metadata(&s.Metadata, &u.MetadataUpdate)
	load(x, l.ClusterName, &s.ClusterName)
	load(x, l.Selector, &s.Selector)
	load(x, l.NodeRules, &s.NodeRules)
	load(x, l.MachineRules, &s.MachineRules)
	s.NodeStartup = value(x, l.NodeStartup)
	s.MaxUnhealthy = value(x, l.MaxUnhealthy)
	load(x, l.UnhealthyRange, &s.UnhealthyRange)
	s.Template = x.ref(l.Template)
	s.TemplateVersion = versionIn(text(x, l.Template.APIVersion))
	distinct(x, l.ExpectedMachines, &s.ExpectedMachines, u.ExpectedMachines)
	distinct(x, l.CurrentHealthy, &s.CurrentHealthy, u.CurrentHealthy)
	distinct(x, l.RemediationsAllowed, &s.RemediationsAllowed, u.RemediationsAllowed)
	plain(x, l.Targets, &s.Targets, u.Targets)
	x.conditions(l.Conditions, &s.Conditions, u.Conditions, u.RemoveConditions)
	plain(x, l.ObservedGeneration, &s.ObservedGeneration, u.ObservedGeneration)
}
