package contract

// MachineSetState is everything that a decision about a MachineSet may need, whatever shape the object has. Strings, maps,
// slices and the selector are read-only views.
type MachineSetState struct {
	Metadata
	ReplicatedState

	// FullyLabeledReplicas counts the Machines that have all labels of the template. Cluster API has deprecated it.
	FullyLabeledReplicas Opt[int32]
}

// MachineSetUpdate is what a pass wants to change. The zero update changes nothing. Where MachineSetState has no Opt, zero
// and absent are the same to every reader, and setting the zero value removes the field.
type MachineSetUpdate struct {
	MetadataUpdate
	ReplicatedUpdate

	FullyLabeledReplicas Change[int32]
}

// MachineSetKind is a kind of MachineSet and how to read it.
type MachineSetKind = KindOf[MachineSetState, MachineSetUpdate]

// MachineSetLayout says where a MachineSet of one shape keeps its state: the fields of MachineSetState and MachineSetUpdate
// with the same names. As in a MachineLayout, a zero Field is "no such place", and tables are shared: copy one to make a
// layout of your own.
type MachineSetLayout struct {
	ReplicatedLayout

	FullyLabeledReplicas Field[int32] `by:"controller" absent:"unknown"`
}

var machineSetV1Beta2 = MachineSetLayout{
	ReplicatedLayout:     replicatedV1Beta2(),
	FullyLabeledReplicas: At[int32]("status", "deprecated", "v1beta1", "fullyLabeledReplicas"),
}

// MachineSetV1Beta2 returns the layout of MachineSet in cluster.x-k8s.io/v1beta2. The table is shared and must not be
// changed.
func MachineSetV1Beta2() *MachineSetLayout { return &machineSetV1Beta2 }

var machineSetV1Beta1 = MachineSetLayout{
	ReplicatedLayout:     replicatedV1Beta1(),
	FullyLabeledReplicas: At[int32]("status", "fullyLabeledReplicas"),
}

// MachineSetV1Beta1 returns the layout of MachineSet in cluster.x-k8s.io/v1beta1. Conditions are written in both shapes and
// places that this version has. The table is shared and must not be changed.
func MachineSetV1Beta1() *MachineSetLayout { return &machineSetV1Beta1 }

func (l *MachineSetLayout) missing() bool { return l == nil }

func (l *MachineSetLayout) read(obj map[string]any, into *MachineSetState) error {
	r := &reader{obj: obj}
	r.metadata(&into.Metadata)
	l.ReplicatedLayout.read(r, &into.ReplicatedState)
	into.FullyLabeledReplicas = value(r, l.FullyLabeledReplicas)
	return r.err
}

func (l *MachineSetLayout) write(obj map[string]any, u MachineSetUpdate) error {
	w := &writer{obj: obj}
	w.metadata(u.MetadataUpdate)
	l.ReplicatedLayout.write(w, u.ReplicatedUpdate)
	put(w, l.FullyLabeledReplicas, u.FullyLabeledReplicas)
	return w.err
}
