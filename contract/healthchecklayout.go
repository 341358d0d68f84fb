package contract

// HealthCheckLayout says where a MachineHealthCheck of one shape keeps its state: the fields of HealthCheckState and
// HealthCheckUpdate with the same names. As in a MachineLayout, a zero Field is "no such place", and tables are shared: copy
// one to make a layout of your own.
type HealthCheckLayout struct {
	ClusterName                Field[string]            `by:"user" absent:"no Cluster"`
	Selector                   SelectorField            `by:"user" absent:"selects nothing"`
	UnhealthyNodeConditions    UnhealthyConditionsField `by:"user" absent:"none"`
	UnhealthyMachineConditions UnhealthyConditionsField `by:"user" absent:"none"`
	NodeStartupTimeout         DurationField            `by:"user" absent:"10 minutes"`
	MaxUnhealthy               IntOrStringField         `by:"user" absent:"no limit"`
	UnhealthyRange             Field[string]            `by:"user" absent:"MaxUnhealthy counts"`
	RemediationTemplate        RefField                 `by:"user" absent:"the owner of a Machine remediates it"`
	ExpectedMachines           Field[int32]             `by:"controller" absent:"unknown"`
	CurrentHealthy             Field[int32]             `by:"controller" absent:"unknown"`
	RemediationsAllowed        Field[int32]             `by:"controller" absent:"unknown"`
	Targets                    TextsField               `by:"controller" absent:"none"`
	Conditions                 ConditionsField          `by:"controller" absent:"none"`
	ObservedGeneration         Field[int64]             `by:"controller" absent:"0: never looked at"`
}

var healthCheckV1Beta2 = HealthCheckLayout{
	ClusterName:                At[string]("spec", "clusterName"),
	Selector:                   SelectorAt("spec", "selector"),
	UnhealthyNodeConditions:    UnhealthyConditionsAt(SecondsAt("timeoutSeconds"), "spec", "checks", "unhealthyNodeConditions"),
	UnhealthyMachineConditions: UnhealthyConditionsAt(SecondsAt("timeoutSeconds"), "spec", "checks", "unhealthyMachineConditions"),
	NodeStartupTimeout:         SecondsAt("spec", "checks", "nodeStartupTimeoutSeconds"),
	MaxUnhealthy:               IntOrStringAt("spec", "remediation", "triggerIf", "unhealthyLessThanOrEqualTo"),
	UnhealthyRange:             At[string]("spec", "remediation", "triggerIf", "unhealthyInRange"),
	RemediationTemplate: RefField{
		APIVersion: At[string]("spec", "remediation", "templateRef", "apiVersion"),
		Kind:       At[string]("spec", "remediation", "templateRef", "kind"),
		Name:       At[string]("spec", "remediation", "templateRef", "name"),
	},
	ExpectedMachines:    At[int32]("status", "expectedMachines"),
	CurrentHealthy:      At[int32]("status", "currentHealthy"),
	RemediationsAllowed: At[int32]("status", "remediationsAllowed"),
	Targets:             TextsAt("status", "targets"),
	Conditions:          ConditionsAt("status", "conditions"),
	ObservedGeneration:  At[int64]("status", "observedGeneration"),
}

// HealthCheckV1Beta2 returns the layout of MachineHealthCheck in cluster.x-k8s.io/v1beta2. The table is shared and must not
// be changed.
func HealthCheckV1Beta2() *HealthCheckLayout { return &healthCheckV1Beta2 }

var healthCheckV1Beta1 = HealthCheckLayout{
	ClusterName:                At[string]("spec", "clusterName"),
	Selector:                   SelectorAt("spec", "selector"),
	UnhealthyNodeConditions:    UnhealthyConditionsAt(DurationAt("timeout"), "spec", "unhealthyConditions"),
	UnhealthyMachineConditions: UnhealthyConditionsAt(DurationAt("timeout"), "spec", "unhealthyMachineConditions"),
	NodeStartupTimeout:         DurationAt("spec", "nodeStartupTimeout"),
	MaxUnhealthy:               IntOrStringAt("spec", "maxUnhealthy"),
	UnhealthyRange:             At[string]("spec", "unhealthyRange"),
	RemediationTemplate:        ObjectRefAt("spec", "remediationTemplate"),
	ExpectedMachines:           At[int32]("status", "expectedMachines"),
	CurrentHealthy:             At[int32]("status", "currentHealthy"),
	RemediationsAllowed:        At[int32]("status", "remediationsAllowed"),
	Targets:                    TextsAt("status", "targets"),
	Conditions:                 conditionsV1Beta1(),
	ObservedGeneration:         At[int64]("status", "observedGeneration"),
}

// HealthCheckV1Beta1 returns the layout of MachineHealthCheck in cluster.x-k8s.io/v1beta1. Conditions are written in both
// shapes and places that this version has. The table is shared and must not be changed.
func HealthCheckV1Beta1() *HealthCheckLayout { return &healthCheckV1Beta1 }

func (l *HealthCheckLayout) missing() bool { return l == nil }

func (l *HealthCheckLayout) read(obj map[string]any, into *HealthCheckState) error {
	r := &reader{obj: obj}
	r.metadata(&into.Metadata)
	into.ClusterName = text(r, l.ClusterName)
	into.Selector = r.selector(l.Selector, into.Selector)
	into.UnhealthyNodeConditions = r.unhealthyConditions(l.UnhealthyNodeConditions, into.UnhealthyNodeConditions)
	into.UnhealthyMachineConditions = r.unhealthyConditions(l.UnhealthyMachineConditions, into.UnhealthyMachineConditions)
	into.NodeStartupTimeout = r.duration(l.NodeStartupTimeout)
	into.MaxUnhealthy = r.intOrString(l.MaxUnhealthy)
	into.UnhealthyRange = text(r, l.UnhealthyRange)
	into.RemediationTemplate = r.versionedRef(l.RemediationTemplate)
	into.ExpectedMachines = value(r, l.ExpectedMachines)
	into.CurrentHealthy = value(r, l.CurrentHealthy)
	into.RemediationsAllowed = value(r, l.RemediationsAllowed)
	into.Targets = r.texts(l.Targets, into.Targets)
	into.Conditions = r.conditions(l.Conditions, into.Conditions)
	into.ObservedGeneration = value(r, l.ObservedGeneration).Or(0)
	return r.err
}

func (l *HealthCheckLayout) write(obj map[string]any, u HealthCheckUpdate) error {
	w := &writer{obj: obj}
	w.metadata(u.MetadataUpdate)
	put(w, l.ExpectedMachines, u.ExpectedMachines)
	put(w, l.CurrentHealthy, u.CurrentHealthy)
	put(w, l.RemediationsAllowed, u.RemediationsAllowed)
	w.texts(l.Targets, u.Targets)
	w.conditions(l.Conditions, u.Conditions, u.RemoveConditions)
	put(w, l.ObservedGeneration, orClear(u.ObservedGeneration))
	return w.err
}
