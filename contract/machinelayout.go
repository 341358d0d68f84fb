package contract

import (
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// MachineLayout says where a Machine of one shape keeps its state: the fields of MachineState and MachineUpdate with the
// same names. A zero Field is "no such place": it reads as absent and what is written there is lost, so give state that
// the schema has no field for an annotation (AtAnnotation); how far a deletion is has one without being told. The tables that
// this package returns are shared: copy one to make a layout of your own.
//
// The tags say who writes a field and what it means when it is missing.
type MachineLayout struct {
	MachineSpecLayout

	Phase               Field[string]    `by:"controller" absent:"no phase yet"`
	NodeName            Field[string]    `by:"controller" absent:"no Node was matched"`
	NodeUID             Field[string]    `by:"controller" absent:"the Node was matched by a controller that does not store it"`
	NodeKind            Field[string]    `by:"controller" absent:"no Node was matched"`
	NodeAPIVersion      Field[string]    `by:"controller" absent:"no Node was matched"`
	BootstrapReady      Field[bool]      `by:"controller" absent:"not yet"`
	InfrastructureReady Field[bool]      `by:"controller" absent:"not yet"`
	Addresses           Field[[]Address] `by:"controller" absent:"none known"`
	FailureDomain       Field[string]    `by:"controller" absent:"unknown"`
	Conditions          ConditionsField  `by:"controller" absent:"none"`
	ObservedGeneration  Field[int64]     `by:"controller" absent:"0: never looked at"`
	LastUpdated         Field[time.Time] `by:"controller" absent:"the phase never changed"`
	DrainStarted        Field[time.Time] `by:"controller" absent:"not begun"`
	VolumeDetachStarted Field[time.Time] `by:"controller" absent:"not begun"`
	FailureReason       Field[string]    `by:"controller" absent:"no failure"`
	FailureMessage      Field[string]    `by:"controller" absent:"no failure"`
	CertificatesExpire  Field[time.Time] `by:"controller" absent:"unknown"`
}

func (l *MachineLayout) missing() bool { return l == nil }

func (l *MachineLayout) read(obj map[string]any, into *MachineState) error {
	r := &reader{obj: obj} // stays on the stack: nothing below keeps it
	r.metadata(&into.Metadata)
	l.MachineSpecLayout.read(r, &into.MachineSpec)
	into.Phase = text(r, l.Phase)
	into.Node = NodeRef{Name: text(r, l.NodeName), UID: types.UID(text(r, l.NodeUID))}
	into.BootstrapReady = value(r, l.BootstrapReady)
	into.InfrastructureReady = value(r, l.InfrastructureReady)
	into.Addresses = readEntries(r, l.Addresses.path, into.Addresses, readAddress)
	into.FailureDomain = text(r, l.FailureDomain)
	into.Conditions = r.conditions(l.Conditions, into.Conditions)
	into.ObservedGeneration = value(r, l.ObservedGeneration).Or(0)
	into.LastUpdated = r.time(l.LastUpdated)
	into.DrainStarted, into.VolumeDetachStarted = r.time(l.DrainStarted), r.time(l.VolumeDetachStarted)
	into.FailureReason = text(r, l.FailureReason)
	into.FailureMessage = text(r, l.FailureMessage)
	into.CertificatesExpire = r.time(l.CertificatesExpire)
	return r.err
}

func (l *MachineLayout) write(obj map[string]any, u MachineUpdate) error {
	w := &writer{obj: obj}
	w.metadata(u.MetadataUpdate)
	put(w, l.ProviderID, orClear(u.ProviderID))
	put(w, l.DataSecretName, u.DataSecretName) // an Opt in the state: the empty name is a value
	put(w, l.Phase, orClear(u.Phase))
	l.writeNode(w, u.Node)
	put(w, l.BootstrapReady, u.BootstrapReady)
	put(w, l.InfrastructureReady, u.InfrastructureReady)
	putList(w, l.Addresses.path, u.Addresses, addressContent)
	put(w, l.FailureDomain, orClear(u.FailureDomain))
	put(w, l.WantedFailureDomain, orClear(u.WantedFailureDomain)) // it may be the same field
	w.conditions(l.Conditions, u.Conditions, u.RemoveConditions)
	put(w, l.ObservedGeneration, orClear(u.ObservedGeneration))
	put(w, l.LastUpdated, orClear(u.LastUpdated))
	put(w, l.DrainStarted, orClear(u.DrainStarted))
	put(w, l.VolumeDetachStarted, orClear(u.VolumeDetachStarted))
	put(w, l.FailureReason, orClear(u.FailureReason))
	put(w, l.FailureMessage, orClear(u.FailureMessage))
	put(w, l.CertificatesExpire, orClear(u.CertificatesExpire))
	return w.err
}

// writeNode writes the members of the reference together: where it says of what kind it is, it says so as long as it
// names a Node.
func (l *MachineLayout) writeNode(w *writer, node Change[NodeRef]) {
	put(w, l.NodeName, orClear(mapped(node, func(n NodeRef) string { return n.Name })))
	put(w, l.NodeUID, orClear(mapped(node, func(n NodeRef) string { return string(n.UID) })))
	constant := func(text string) Change[string] {
		return orClear(mapped(node, func(n NodeRef) string {
			if n.Name == "" {
				return ""
			}
			return text
		}))
	}
	put(w, l.NodeKind, constant("Node"))
	put(w, l.NodeAPIVersion, constant("v1"))
}
