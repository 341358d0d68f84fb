package contract

import (
	"encoding/json"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ReplicatedState is the state that MachineSets, MachineDeployments and MachinePools share: the desired number of replicas, the template,
// and the observed numbers. Strings, maps, slices and the selector are read-only views.
type ReplicatedState struct {
	ClusterName string
	// Replicas is the desired number. Absent does not mean zero: the number is unknown, and no decision is possible.
	Replicas Opt[int32]
	// Selector selects the Machines of the set; nil selects none. MachinePools of Cluster API have no selector.
	Selector *metav1.LabelSelector
	Template MachineTemplate
	// DeletionOrder is the order in which surplus Machines are deleted: Random, Newest or Oldest; empty means Random.
	DeletionOrder string
	// MachineNaming is the template for the names of new Machines, empty for the default.
	MachineNaming string

	// SelectorText is the selector as text, which the scale subresource returns.
	SelectorText string
	// ObservedReplicas is the number of existing replicas, including those being deleted.
	ObservedReplicas Opt[int32]
	// ReadyReplicas, AvailableReplicas and UpToDateReplicas count by the conditions of Machines, as in v1beta2. Objects of v1beta1 have them
	// below status.v1beta2. Objects written by an older controller have none: the members are then absent, and never filled from counters with
	// another meaning. Rule: Cluster API proposal "improving status in CAPI resources".
	ReadyReplicas, AvailableReplicas, UpToDateReplicas Opt[int32]
	// NodeReadyReplicas and NodeAvailableReplicas count by the Nodes of Machines. They are readyReplicas and availableReplicas in v1beta1, and
	// below status.deprecated.v1beta1 in v1beta2.
	NodeReadyReplicas, NodeAvailableReplicas Opt[int32]

	Conditions         []metav1.Condition
	ObservedGeneration int64
}

// ReplicatedUpdate holds the changes of a pass that MachineSets, MachineDeployments and MachinePools share. The zero update changes
// nothing. For members that are not an Opt in ReplicatedState, zero and absent are equivalent, and setting the zero value removes the
// field. A zero counter is different from an absent one.
type ReplicatedUpdate struct {
	Replicas                                           Change[int32]
	SelectorText                                       Change[string]
	ObservedReplicas                                   Change[int32]
	ReadyReplicas, AvailableReplicas, UpToDateReplicas Change[int32]
	NodeReadyReplicas, NodeAvailableReplicas           Change[int32]
	ObservedGeneration                                 Change[int64]

	// Conditions are upserted by type; other conditions do not change. An empty reason becomes ReasonNotReported.
	Conditions []metav1.Condition
	// RemoveConditions lists the types to remove.
	RemoveConditions []string
}

// ReplicatedLayout locates the fields of ReplicatedState in a set of one shape.
type ReplicatedLayout struct {
	ClusterName                                        Field[string]                `by:"user" absent:"no Cluster"`
	Replicas                                           Field[int32]                 `by:"user or controller" absent:"not decided yet"`
	Selector                                           Field[*metav1.LabelSelector] `by:"user" absent:"selects nothing"`
	Template                                           MachineTemplateLayout
	DeletionOrder                                      Field[string]   `by:"user" absent:"Random"`
	MachineNaming                                      Field[string]   `by:"user" absent:"the name of the set and a suffix"`
	SelectorText                                       Field[string]   `by:"controller" absent:"not known yet"`
	ObservedReplicas                                   Field[int32]    `by:"controller" absent:"unknown"`
	ReadyReplicas, AvailableReplicas, UpToDateReplicas Field[int32]    `by:"controller" absent:"unknown"`
	NodeReadyReplicas, NodeAvailableReplicas           Field[int32]    `by:"controller" absent:"unknown"`
	Conditions                                         ConditionsField `by:"controller" absent:"none"`
	ObservedGeneration                                 Field[int64]    `by:"controller" absent:"0: never looked at"`
}

func replicatedV1Beta2() ReplicatedLayout {
	return ReplicatedLayout{
		ClusterName:           At[string]("spec", "clusterName"),
		Replicas:              At[int32]("spec", "replicas"),
		Selector:              At[*metav1.LabelSelector]("spec", "selector"),
		Template:              machineTemplateV1Beta2(),
		DeletionOrder:         At[string]("spec", "deletion", "order"),
		MachineNaming:         At[string]("spec", "machineNaming", "template"),
		SelectorText:          At[string]("status", "selector"),
		ObservedReplicas:      At[int32]("status", "replicas"),
		ReadyReplicas:         At[int32]("status", "readyReplicas"),
		AvailableReplicas:     At[int32]("status", "availableReplicas"),
		UpToDateReplicas:      At[int32]("status", "upToDateReplicas"),
		NodeReadyReplicas:     At[int32]("status", "deprecated", "v1beta1", "readyReplicas"),
		NodeAvailableReplicas: At[int32]("status", "deprecated", "v1beta1", "availableReplicas"),
		Conditions:            ConditionsAt("status", "conditions"),
		ObservedGeneration:    At[int64]("status", "observedGeneration"),
	}
}

func replicatedV1Beta1() ReplicatedLayout {
	l := replicatedV1Beta2()
	l.Template = machineTemplateV1Beta1()
	l.DeletionOrder = At[string]("spec", "deletePolicy")
	l.MachineNaming = At[string]("spec", "machineNamingStrategy", "template")
	l.ReadyReplicas = At[int32]("status", "v1beta2", "readyReplicas")
	l.AvailableReplicas = At[int32]("status", "v1beta2", "availableReplicas")
	l.UpToDateReplicas = At[int32]("status", "v1beta2", "upToDateReplicas")
	l.NodeReadyReplicas = At[int32]("status", "readyReplicas")
	l.NodeAvailableReplicas = At[int32]("status", "availableReplicas")
	l.Conditions = conditionsV1Beta1()
	return l
}

func (l *ReplicatedLayout) walk(x *exchange, s *ReplicatedState, u *ReplicatedUpdate) {
	load(x, l.ClusterName, &s.ClusterName)
	distinct(x, l.Replicas, &s.Replicas, u.Replicas)
	load(x, l.Selector, &s.Selector)
	l.Template.read(x, &s.Template)
	load(x, l.DeletionOrder, &s.DeletionOrder)
	load(x, l.MachineNaming, &s.MachineNaming)
	plain(x, l.SelectorText, &s.SelectorText, u.SelectorText)
	distinct(x, l.ObservedReplicas, &s.ObservedReplicas, u.ObservedReplicas)
	distinct(x, l.ReadyReplicas, &s.ReadyReplicas, u.ReadyReplicas)
	distinct(x, l.AvailableReplicas, &s.AvailableReplicas, u.AvailableReplicas)
	distinct(x, l.UpToDateReplicas, &s.UpToDateReplicas, u.UpToDateReplicas)
	distinct(x, l.NodeReadyReplicas, &s.NodeReadyReplicas, u.NodeReadyReplicas)
	distinct(x, l.NodeAvailableReplicas, &s.NodeAvailableReplicas, u.NodeAvailableReplicas)
	x.conditions(l.Conditions, &s.Conditions, u.Conditions, u.RemoveConditions)
	plain(x, l.ObservedGeneration, &s.ObservedGeneration, u.ObservedGeneration)
}

// MachineTemplate is the template of the Machines of a set. Maps are read-only views.
type MachineTemplate struct {
	// Labels and Annotations are the metadata of new Machines.
	Labels, Annotations map[string]string
	// MachineSpec is the spec of new Machines. In some shapes, MinReady is a field of the set itself.
	MachineSpec
}

// MachineTemplateLayout locates the fields of MachineTemplate in a set.
type MachineTemplateLayout struct {
	Labels      Field[map[string]string] `by:"user" absent:"none"`
	Annotations Field[map[string]string] `by:"user" absent:"none"`
	// MadeOf lists the paths that decide which machine is made. A MachineDeployment whose template differs there, or in Bootstrap or
	// Infrastructure, from that of its set needs another set. All other fields of the layout change in place.
	MadeOf []Path `by:"user" absent:"none"`
	MachineSpecLayout
}

func machineTemplateV1Beta2() MachineTemplateLayout {
	return MachineTemplateLayout{
		Labels:      At[map[string]string]("spec", "template", "metadata", "labels"),
		Annotations: At[map[string]string]("spec", "template", "metadata", "annotations"),
		MadeOf: placesAt("spec.template.spec.bootstrap.dataSecretName", "spec.template.spec.failureDomain",
			"spec.template.spec.version"),
		MachineSpecLayout: machineSpecV1Beta2("spec", "template", "spec"),
	}
}

// machineTemplateV1Beta1 reads minReadySeconds from the set itself.
func machineTemplateV1Beta1() MachineTemplateLayout {
	template := machineTemplateV1Beta2()
	template.MachineSpecLayout = machineSpecV1Beta1("spec", "template", "spec")
	template.MinReady = SecondsAt("spec", "minReadySeconds")
	return template
}

func (l *MachineTemplateLayout) read(x *exchange, into *MachineTemplate) {
	load(x, l.Labels, &into.Labels)
	load(x, l.Annotations, &into.Annotations)
	l.MachineSpecLayout.read(x, &into.MachineSpec)
}

// MachineSpecLayout locates the fields of MachineSpec in a Machine or in the template of a set.
type MachineSpecLayout struct {
	ClusterName                               Field[string]          `by:"user" absent:"no Cluster"`
	Bootstrap                                 RefField               `by:"user" absent:"data comes from elsewhere"`
	DataSecretName                            Field[string]          `by:"controller or user" absent:"no data yet"`
	Infrastructure                            RefField               `by:"user" absent:"no infrastructure object"`
	ProviderSpec                              Field[json.RawMessage] `by:"user" absent:"none"`
	Class                                     RefField               `by:"user" absent:"none"`
	ProviderID                                Field[string]          `by:"controller" absent:"not known yet"`
	Version                                   Field[string]          `by:"user" absent:"whatever the image brings"`
	WantedFailureDomain                       Field[string]          `by:"user or controller" absent:"anywhere"`
	NodeDrainTimeout, NodeVolumeDetachTimeout Field[time.Duration]   `by:"user" absent:"no limit"`
	NodeDeletionTimeout                       Field[time.Duration]   `by:"user" absent:"10 s"`
	MinReady                                  Field[time.Duration]   `by:"user" absent:"0"`
	ReadinessGates                            Field[[]ReadinessGate] `by:"user" absent:"none"`
	Taints                                    Field[[]Taint]         `by:"user" absent:"none"`

	NodeLabels, NodeAnnotations Field[map[string]string] `by:"user" absent:"none but the Machine's"`

	// InPlace lists further fields that running Machines copy from the template of their set. It has the same number of paths in both layouts.
	InPlace []Path `by:"user" absent:"none"`
}

// machineSpecV1Beta2 returns the layout of a Machine spec of cluster.x-k8s.io/v1beta2 below a prefix: "spec" in a Machine, and "spec",
// "template", "spec" in a set.
func machineSpecV1Beta2(prefix ...string) MachineSpecLayout {
	at := below(prefix)
	return MachineSpecLayout{
		ClusterName:             At[string](at("clusterName")...),
		ProviderID:              At[string](at("providerID")...),
		DataSecretName:          At[string](at("bootstrap", "dataSecretName")...),
		Version:                 At[string](at("version")...),
		WantedFailureDomain:     At[string](at("failureDomain")...),
		Bootstrap:               RefAt(at("bootstrap", "configRef")...),
		Infrastructure:          RefAt(at("infrastructureRef")...),
		NodeDrainTimeout:        SecondsAt(at("deletion", "nodeDrainTimeoutSeconds")...),
		NodeVolumeDetachTimeout: SecondsAt(at("deletion", "nodeVolumeDetachTimeoutSeconds")...),
		NodeDeletionTimeout:     SecondsAt(at("deletion", "nodeDeletionTimeoutSeconds")...),
		MinReady:                SecondsAt(at("minReadySeconds")...),
		ReadinessGates:          At[[]ReadinessGate](at("readinessGates")...),
		Taints:                  At[[]Taint](at("taints")...),
	}
}

// machineSpecV1Beta1 returns the same for cluster.x-k8s.io/v1beta1, where minReadySeconds is a field of the sets.
func machineSpecV1Beta1(prefix ...string) MachineSpecLayout {
	at := below(prefix)
	spec := machineSpecV1Beta2(prefix...)
	spec.Bootstrap = objectRefAt(at("bootstrap", "configRef")...)
	spec.Infrastructure = objectRefAt(at("infrastructureRef")...)
	spec.NodeDrainTimeout = At[time.Duration](at("nodeDrainTimeout")...)
	spec.NodeVolumeDetachTimeout = At[time.Duration](at("nodeVolumeDetachTimeout")...)
	spec.NodeDeletionTimeout = At[time.Duration](at("nodeDeletionTimeout")...)
	spec.MinReady = Field[time.Duration]{}
	return spec
}

func below(prefix []string) func(...string) []string {
	return func(more ...string) []string { return slices.Concat(prefix, more) }
}

func (l *MachineSpecLayout) read(x *exchange, into *MachineSpec) {
	load(x, l.ClusterName, &into.ClusterName)
	into.Bootstrap = x.ref(l.Bootstrap)
	into.Infrastructure = x.ref(l.Infrastructure)
	into.Provider = ProviderSpec{Spec: value(x, l.ProviderSpec).Or(nil), Class: x.ref(l.Class)}
	into.DataSecretName = value(x, l.DataSecretName)
	load(x, l.ProviderID, &into.ProviderID)
	load(x, l.Version, &into.Version)
	load(x, l.WantedFailureDomain, &into.WantedFailureDomain)
	into.NodeDrainTimeout = value(x, l.NodeDrainTimeout)
	into.NodeVolumeDetachTimeout = value(x, l.NodeVolumeDetachTimeout)
	into.NodeDeletionTimeout = value(x, l.NodeDeletionTimeout)
	into.MinReady = value(x, l.MinReady)
	load(x, l.ReadinessGates, &into.ReadinessGates)
	load(x, l.Taints, &into.Taints)
	load(x, l.NodeLabels, &into.NodeLabels)
	load(x, l.NodeAnnotations, &into.NodeAnnotations)
}

func readGate(e entry) (ReadinessGate, error) {
	gate := ReadinessGate{ConditionType: e.needed("conditionType"), Negative: e.text("polarity") == "Negative"}
	return gate, e.err
}

func readTaint(e entry) (Taint, error) {
	taint := Taint{Key: e.needed("key"), Value: e.text("value"), Effect: e.needed("effect"), Propagation: e.text("propagation")}
	return taint, e.err
}

// jsonOf returns an object as JSON with sorted keys, nil for null.
func jsonOf(path Path, raw any) (json.RawMessage, error) {
	if raw == nil {
		return nil, nil
	}
	if _, ok := raw.(map[string]any); !ok {
		return nil, &FieldError{Path: path, Want: "object", Got: typeName(raw)}
	}
	return json.Marshal(raw)
}
