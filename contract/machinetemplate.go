package contract

// MachineTemplate is what a set makes its Machines of. Maps are read-only views.
type MachineTemplate struct {
	// Labels and Annotations are those that Machines get.
	Labels, Annotations map[string]string
	// MachineSpec is the spec that Machines get. Its MinReady stands in the set itself in some shapes, and is read from there.
	MachineSpec
}

// MachineTemplateLayout says where a set keeps the template of its Machines: the fields of MachineTemplate with the same
// names.
type MachineTemplateLayout struct {
	Labels      Field[map[string]string] `by:"user" absent:"none"`
	Annotations Field[map[string]string] `by:"user" absent:"none"`
	// MadeOf is what decides which machine is made. A MachineDeployment whose template differs there, or in Bootstrap or Infrastructure,
	// from that of its set needs another set. Everything else that the layout names changes in place.
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

// machineTemplateV1Beta1 knows that sets of that version say themselves how long a Node must be ready.
func machineTemplateV1Beta1() MachineTemplateLayout {
	template := machineTemplateV1Beta2()
	template.MachineSpecLayout = machineSpecV1Beta1("spec", "template", "spec")
	template.MinReady = SecondsAt("spec", "minReadySeconds")
	return template
}

func (l *MachineTemplateLayout) read(r *reader, into *MachineTemplate) {
	into.Labels = r.textMap(l.Labels.path, into.Labels)
	into.Annotations = r.textMap(l.Annotations.path, into.Annotations)
	l.MachineSpecLayout.read(r, &into.MachineSpec)
}
