package contract

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// ReplicatedState is what MachineSets, MachineDeployments and MachinePools have in common: the desired number of replicas, their template,
// and the observed numbers. Strings, maps, slices and the selector are read-only views.
type ReplicatedState struct {
	ClusterName string
	// Replicas is the desired number. Absent is not zero: the number is unknown, and nothing can be decided.
	Replicas Opt[int32]
	// Selector says which Machines are the set's own; nil selects none. MachinePools of Cluster API have no selector.
	Selector *metav1.LabelSelector
	Template MachineTemplate
	// DeletionOrder is which Machines go first when there are too many: Random, Newest or Oldest; empty counts as Random.
	DeletionOrder string
	// MachineNaming is the template of the names of new Machines, empty for the default.
	MachineNaming string

	// SelectorText is the selector as text, which the scale subresource hands out.
	SelectorText string
	// ObservedReplicas is how many there are, those that are being deleted included.
	ObservedReplicas Opt[int32]
	// ReadyReplicas, AvailableReplicas and UpToDateReplicas count by the conditions of Machines, as v1beta2 does. Objects of
	// v1beta1 have them below status.v1beta2, and what was written by a controller older than that has none: they are then
	// absent, and never filled from counters that mean something else. Rule: Cluster API proposal "improving status in CAPI
	// resources".
	ReadyReplicas, AvailableReplicas, UpToDateReplicas Opt[int32]
	// NodeReadyReplicas and NodeAvailableReplicas count by the Nodes of Machines: what v1beta1 calls readyReplicas and
	// availableReplicas, and v1beta2 keeps below status.deprecated.v1beta1.
	NodeReadyReplicas, NodeAvailableReplicas Opt[int32]

	Conditions         []metav1.Condition
	ObservedGeneration int64
}

// ReplicatedUpdate is what a pass wants to change in what MachineSets, MachineDeployments and MachinePools have in common.
// The zero update changes nothing. Where ReplicatedState has no Opt, zero and absent are the same to every reader, and setting
// the zero value removes the field. A counter that is zero is another value than an absent one.
type ReplicatedUpdate struct {
	Replicas                                           Change[int32]
	SelectorText                                       Change[string]
	ObservedReplicas                                   Change[int32]
	ReadyReplicas, AvailableReplicas, UpToDateReplicas Change[int32]
	NodeReadyReplicas, NodeAvailableReplicas           Change[int32]
	ObservedGeneration                                 Change[int64]

	// Conditions are upserted by type; the others of the list stay. An empty reason becomes ReasonNotReported.
	Conditions []metav1.Condition
	// RemoveConditions are types to remove.
	RemoveConditions []string
}

// ReplicatedLayout says where a set of one shape keeps the fields of ReplicatedState with the same names.
type ReplicatedLayout struct {
	ClusterName           Field[string]                `by:"user" absent:"no Cluster"`
	Replicas              Field[int32]                 `by:"user or controller" absent:"not decided yet"`
	Selector              Field[*metav1.LabelSelector] `by:"user" absent:"selects nothing"`
	Template              MachineTemplateLayout
	DeletionOrder         Field[string]   `by:"user" absent:"Random"`
	MachineNaming         Field[string]   `by:"user" absent:"the name of the set and a suffix"`
	SelectorText          Field[string]   `by:"controller" absent:"not known yet"`
	ObservedReplicas      Field[int32]    `by:"controller" absent:"unknown"`
	ReadyReplicas         Field[int32]    `by:"controller" absent:"unknown"`
	AvailableReplicas     Field[int32]    `by:"controller" absent:"unknown"`
	UpToDateReplicas      Field[int32]    `by:"controller" absent:"unknown"`
	NodeReadyReplicas     Field[int32]    `by:"controller" absent:"unknown"`
	NodeAvailableReplicas Field[int32]    `by:"controller" absent:"unknown"`
	Conditions            ConditionsField `by:"controller" absent:"none"`
	ObservedGeneration    Field[int64]    `by:"controller" absent:"0: never looked at"`
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

// conditionsV1Beta1 are the two lists of cluster.x-k8s.io/v1beta1: both are written, and the one in metav1 shape is read
// while there is one.
func conditionsV1Beta1() ConditionsField {
	return ConditionsAt("status", "v1beta2", "conditions").and(conditionsShaped(shapeV1Beta1, "status", "conditions"))
}

func (l *ReplicatedLayout) read(r *reader, into *ReplicatedState) {
	into.ClusterName = text(r, l.ClusterName)
	into.Replicas = value(r, l.Replicas)
	into.Selector = r.selector(l.Selector.path, into.Selector)
	l.Template.read(r, &into.Template)
	into.DeletionOrder = text(r, l.DeletionOrder)
	into.MachineNaming = text(r, l.MachineNaming)
	into.SelectorText = text(r, l.SelectorText)
	into.ObservedReplicas = value(r, l.ObservedReplicas)
	into.ReadyReplicas = value(r, l.ReadyReplicas)
	into.AvailableReplicas = value(r, l.AvailableReplicas)
	into.UpToDateReplicas = value(r, l.UpToDateReplicas)
	into.NodeReadyReplicas = value(r, l.NodeReadyReplicas)
	into.NodeAvailableReplicas = value(r, l.NodeAvailableReplicas)
	into.Conditions = r.conditions(l.Conditions, into.Conditions)
	into.ObservedGeneration = value(r, l.ObservedGeneration).Or(0)
}

func (l *ReplicatedLayout) write(w *writer, u ReplicatedUpdate) {
	put(w, l.Replicas, u.Replicas)
	put(w, l.SelectorText, orClear(u.SelectorText))
	put(w, l.ObservedReplicas, u.ObservedReplicas)
	put(w, l.ReadyReplicas, u.ReadyReplicas)
	put(w, l.AvailableReplicas, u.AvailableReplicas)
	put(w, l.UpToDateReplicas, u.UpToDateReplicas)
	put(w, l.NodeReadyReplicas, u.NodeReadyReplicas)
	put(w, l.NodeAvailableReplicas, u.NodeAvailableReplicas)
	w.conditions(l.Conditions, u.Conditions, u.RemoveConditions)
	put(w, l.ObservedGeneration, orClear(u.ObservedGeneration))
}
