package contract

import (
	"encoding/json"
	"slices"
	"time"
)

// MachineSpecLayout says where a Machine, or the template of a set, keeps what is asked for: the fields of MachineSpec
// with the same names.
type MachineSpecLayout struct {
	ClusterName             Field[string]          `by:"user" absent:"no Cluster"`
	Bootstrap               RefField               `by:"user" absent:"data comes from elsewhere"`
	DataSecretName          Field[string]          `by:"controller or user" absent:"no data yet"`
	Infrastructure          RefField               `by:"user" absent:"no infrastructure object"`
	ProviderSpec            Field[json.RawMessage] `by:"user" absent:"none"`
	Class                   RefField               `by:"user" absent:"none"`
	ProviderID              Field[string]          `by:"controller" absent:"not known yet"`
	Version                 Field[string]          `by:"user" absent:"whatever the image brings"`
	WantedFailureDomain     Field[string]          `by:"user or controller" absent:"anywhere"`
	NodeDrainTimeout        Field[time.Duration]   `by:"user" absent:"no limit"`
	NodeVolumeDetachTimeout Field[time.Duration]   `by:"user" absent:"no limit"`
	NodeDeletionTimeout     Field[time.Duration]   `by:"user" absent:"10 s"`
	MinReady                Field[time.Duration]   `by:"user" absent:"0"`
	ReadinessGates          Field[[]ReadinessGate] `by:"user" absent:"none"`
	Taints                  Field[[]Taint]         `by:"user" absent:"none"`

	NodeLabels, NodeAnnotations Field[map[string]string] `by:"user" absent:"none but the Machine's"`

	// InPlace is what else Machines take over from the template of their set while they run. It has as many places in both.
	InPlace []Path `by:"user" absent:"none"`
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
		ReadinessGates:          At[[]ReadinessGate](at("readinessGates")...),
		Taints:                  At[[]Taint](at("taints")...),
	}
}

// machineSpecV1Beta1 is the same in cluster.x-k8s.io/v1beta1. What a Machine must be ready for stands in the sets there.
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

func (l *MachineSpecLayout) read(r *reader, into *MachineSpec) {
	into.ClusterName = text(r, l.ClusterName)
	into.Bootstrap = r.ref(l.Bootstrap)
	into.Infrastructure = r.ref(l.Infrastructure)
	into.Provider = ProviderSpec{Spec: r.content(l.ProviderSpec, into.Provider.Spec), Class: r.ref(l.Class)}
	into.DataSecretName = value(r, l.DataSecretName)
	into.ProviderID = text(r, l.ProviderID)
	into.Version = text(r, l.Version)
	into.WantedFailureDomain = text(r, l.WantedFailureDomain)
	into.NodeDrainTimeout = value(r, l.NodeDrainTimeout)
	into.NodeVolumeDetachTimeout = value(r, l.NodeVolumeDetachTimeout)
	into.NodeDeletionTimeout = value(r, l.NodeDeletionTimeout)
	into.MinReady = value(r, l.MinReady)
	into.ReadinessGates = readEntries(r, l.ReadinessGates.path, into.ReadinessGates, readGate)
	into.Taints = readEntries(r, l.Taints.path, into.Taints, readTaint)
	into.NodeLabels = r.textMap(l.NodeLabels.path, into.NodeLabels)
	into.NodeAnnotations = r.textMap(l.NodeAnnotations.path, into.NodeAnnotations)
}

// readGate reads a readiness gate: conditionType, and polarity Positive or Negative.
func readGate(e entry) (g ReadinessGate, err error) {
	if g.ConditionType, err = e.needed("conditionType"); err != nil {
		return g, err
	}
	polarity, err := e.text("polarity")
	g.Negative = polarity == "Negative"
	return g, err
}

// readTaint reads a taint: key, value, effect, and propagation where the shape has one.
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

// jsonOf returns an object whose content only another component knows as JSON with sorted keys, nil for null.
func jsonOf(path Path, raw any) (json.RawMessage, error) {
	if raw == nil {
		return nil, nil
	}
	if _, ok := raw.(map[string]any); !ok {
		return nil, &FieldError{Path: path, Want: "object", Got: typeName(raw)}
	}
	return json.Marshal(raw)
}
