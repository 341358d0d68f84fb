package contract

import (
	"encoding/json"
	"slices"
)

// MachineSpecLayout says where a Machine, or the template of a set, keeps what is asked for: the fields of MachineSpec
// with the same names.
type MachineSpecLayout struct {
	ClusterName             Field[string]       `by:"user" absent:"no Cluster"`
	Bootstrap               RefField            `by:"user" absent:"data comes from elsewhere"`
	DataSecretName          Field[string]       `by:"controller or user" absent:"no data yet"`
	Infrastructure          RefField            `by:"user" absent:"no infrastructure object"`
	ProviderSpec            ContentField        `by:"user" absent:"none"`
	Class                   RefField            `by:"user" absent:"none"`
	ProviderID              Field[string]       `by:"controller" absent:"not known yet"`
	Version                 Field[string]       `by:"user" absent:"whatever the image brings"`
	WantedFailureDomain     Field[string]       `by:"user" absent:"anywhere"`
	NodeDrainTimeout        DurationField       `by:"user" absent:"no limit"`
	NodeVolumeDetachTimeout DurationField       `by:"user" absent:"no limit"`
	NodeDeletionTimeout     DurationField       `by:"user" absent:"10 s"`
	MinReady                DurationField       `by:"user" absent:"0"`
	ReadinessGates          ReadinessGatesField `by:"user" absent:"none"`
	Taints                  TaintsField         `by:"user" absent:"none"`
	// InPlace is what else Machines take over from the template of their set while they run. It has as many places in both.
	InPlace ContentsField `by:"user" absent:"none"`
}

// machineSpecV1Beta2 is the spec of a Machine in cluster.x-k8s.io/v1beta2 below a prefix: that of a Machine itself is
// "spec", that of the template of a set "spec", "template", "spec".
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
		ReadinessGates:          ReadinessGatesAt(at("readinessGates")...),
		Taints:                  TaintsAt(at("taints")...),
	}
}

// machineSpecV1Beta1 is the same in cluster.x-k8s.io/v1beta1. What a Machine must be ready for stands in the sets there.
func machineSpecV1Beta1(prefix ...string) MachineSpecLayout {
	at := below(prefix)
	spec := machineSpecV1Beta2(prefix...)
	spec.Bootstrap = ObjectRefAt(at("bootstrap", "configRef")...)
	spec.Infrastructure = ObjectRefAt(at("infrastructureRef")...)
	spec.NodeDrainTimeout = DurationAt(at("nodeDrainTimeout")...)
	spec.NodeVolumeDetachTimeout = DurationAt(at("nodeVolumeDetachTimeout")...)
	spec.NodeDeletionTimeout = DurationAt(at("nodeDeletionTimeout")...)
	spec.MinReady = DurationField{}
	return spec
}

func below(prefix []string) func(...string) []string {
	return func(more ...string) []string { return slices.Concat(prefix, more) }
}

func (l *MachineSpecLayout) read(r *reader, into *MachineSpec) {
	into.ClusterName = text(r, l.ClusterName)
	into.Bootstrap = r.ref(l.Bootstrap)
	into.Infrastructure = r.ref(l.Infrastructure)
	into.Provider = ProviderSpec{Spec: r.content(l.ProviderSpec, into.Provider.Spec), Class: r.ref(l.Class)}
	into.DataSecretName = value(r, l.DataSecretName)
	into.ProviderID = text(r, l.ProviderID)
	into.Version = text(r, l.Version)
	into.WantedFailureDomain = text(r, l.WantedFailureDomain)
	into.NodeDrainTimeout = r.duration(l.NodeDrainTimeout)
	into.NodeVolumeDetachTimeout = r.duration(l.NodeVolumeDetachTimeout)
	into.NodeDeletionTimeout = r.duration(l.NodeDeletionTimeout)
	into.MinReady = r.duration(l.MinReady)
	into.ReadinessGates = readEntries(r, l.ReadinessGates.path, into.ReadinessGates, readGate)
	into.Taints = readEntries(r, l.Taints.path, into.Taints, readTaint)
}

// ReadinessGatesField is the place of a list of readiness gates: conditionType, and polarity Positive or Negative.
type ReadinessGatesField struct{ path Path }

// ReadinessGatesAt returns the ReadinessGatesField at the given keys.
func ReadinessGatesAt(segments ...string) ReadinessGatesField {
	return ReadinessGatesField{path: NewPath(segments...)}
}

func readGate(e entry) (g ReadinessGate, err error) {
	if g.ConditionType, err = e.needed("conditionType"); err != nil {
		return g, err
	}
	polarity, err := e.text("polarity")
	g.Negative = polarity == "Negative"
	return g, err
}

// TaintsField is the place of a list of taints: key, value, effect, and propagation where the shape has one.
type TaintsField struct{ path Path }

// TaintsAt returns the TaintsField at the given keys.
func TaintsAt(segments ...string) TaintsField { return TaintsField{path: NewPath(segments...)} }

func readTaint(e entry) (t Taint, err error) {
	if t.Key, err = e.needed("key"); err != nil {
		return t, err
	}
	if t.Value, err = e.text("value"); err != nil {
		return t, err
	}
	if t.Effect, err = e.needed("effect"); err != nil {
		return t, err
	}
	t.Propagation, err = e.text("propagation")
	return t, err
}

// readEntries reads a list of objects.
func readEntries[T comparable](r *reader, at Path, before []T, read func(entry) (T, error)) []T {
	if r.err != nil {
		return nil
	}
	items, found, err := listAt(at, r.obj)
	if err != nil || !found {
		r.err = err
		return nil
	}
	values, err := entriesOf(at, items, before, read)
	r.err = err
	return values
}

// ContentField is the place of an object whose content only another component knows. The zero ContentField is "no such place".
type ContentField struct{ path Path }

// ContentAt returns the ContentField at the given keys.
func ContentAt(segments ...string) ContentField { return ContentField{path: NewPath(segments...)} }

// Get returns the object as JSON with sorted keys, nil when it is absent or null. Another type is an error that matches
// ErrWrongType.
func (f ContentField) Get(obj map[string]any) (json.RawMessage, error) {
	raw, _, err := lookup(f.path.segments, obj)
	if err != nil || raw == nil {
		return nil, err
	}
	if _, ok := raw.(map[string]any); !ok {
		return nil, &FieldError{Path: f.path, Want: "object", Got: TypeName(raw)}
	}
	return json.Marshal(raw)
}
