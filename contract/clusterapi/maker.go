package clusterapi

import (
	"maps"
	"slices"
	"strings"

	"github.com/machinist-dev/machinist/contract"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// machineMaker returns the maker of Machines for MachineSets, both as Go types. It makes, and changes in place, what
// contract.UnstructuredMaker does with the layouts of v1beta2, and uses the same names for it.
func machineMaker() contract.MachineMaker { return contract.NewTypedMaker(newMachine, syncMachine) }

func newMachine(set *clusterv1.MachineSet, seed contract.MachineSeed) (*clusterv1.Machine, error) {
	made := &clusterv1.Machine{Spec: *set.Spec.Template.Spec.DeepCopy()}
	seed.ApplyTo(made)
	if set.Spec.ClusterName != "" { // the set has the last word
		made.Spec.ClusterName = set.Spec.ClusterName
	}
	if !seed.Bootstrap.IsZero() {
		made.Spec.Bootstrap.ConfigRef = refTo(seed.Bootstrap)
	}
	if !seed.Infrastructure.IsZero() {
		made.Spec.InfrastructureRef = refTo(seed.Infrastructure)
	}
	return made, nil
}

func syncMachine(set *clusterv1.MachineSet, machine *clusterv1.Machine, given []string) ([]string, error) {
	s := inPlace{given: given}
	s.spec(&set.Spec.Template.Spec, &machine.Spec)
	return s.now, nil
}

// setMaker returns the maker of MachineSets for MachineDeployments, both as Go types. It makes, changes in place and compares what
// contract.UnstructuredSetMaker does with the layouts of v1beta2, and uses the same names for it.
func setMaker() contract.MachineSetMaker {
	return contract.NewTypedSetMaker(newSet, syncSet, templateDiff, copyTemplate)
}

func newSet(d *clusterv1.MachineDeployment, seed contract.MachineSetSeed) (*clusterv1.MachineSet, error) {
	made := &clusterv1.MachineSet{Spec: clusterv1.MachineSetSpec{
		ClusterName: d.Spec.ClusterName, Selector: *d.Spec.Selector.DeepCopy(), Template: *d.Spec.Template.DeepCopy(),
	}}
	seed.ApplyTo(made)
	if _, err := syncSet(d, made, nil); err != nil {
		return nil, err
	}
	made.Spec.Replicas = new(seed.Replicas)
	addTexts(&made.Spec.Template.Labels, seed.TemplateLabels)
	addTexts(&made.Spec.Selector.MatchLabels, seed.SelectorLabels)
	return made, nil
}

func addTexts(to *map[string]string, texts map[string]string) {
	if *to == nil && len(texts) > 0 {
		*to = map[string]string{}
	}
	maps.Copy(*to, texts)
}

func syncSet(d *clusterv1.MachineDeployment, set *clusterv1.MachineSet, given []string) ([]string, error) {
	s := inPlace{given: given}
	from, into := &d.Spec.Template, &set.Spec.Template
	s.spec(&from.Spec, &into.Spec)
	field(&s, "deletionOrder", d.Spec.Deletion.Order, &set.Spec.Deletion.Order)
	field(&s, "machineNaming", d.Spec.MachineNaming.Template, &set.Spec.MachineNaming.Template)
	s.texts("labels.", from.Labels, &into.Labels)
	s.texts("annotations.", from.Annotations, &into.Annotations)
	return s.now, nil
}

// inPlace brings fields from a template to what was made of it, and removes those that were given before and that the template has come to
// be silent about.
type inPlace struct{ given, now []string }

// says records whether the template says anything of a field, and reports whether the target changes.
func (s *inPlace) says(name string, said bool) bool {
	if said {
		s.now = append(s.now, name)
	}
	return said || slices.Contains(s.given, name)
}

// spec is in the order of contract.UnstructuredMaker.
func (s *inPlace) spec(from, into *clusterv1.MachineSpec) {
	pointer(s, "minReady", from.MinReadySeconds, &into.MinReadySeconds)
	pointer(s, "nodeDeletionTimeout", from.Deletion.NodeDeletionTimeoutSeconds, &into.Deletion.NodeDeletionTimeoutSeconds)
	pointer(s, "nodeDrainTimeout", from.Deletion.NodeDrainTimeoutSeconds, &into.Deletion.NodeDrainTimeoutSeconds)
	pointer(s, "nodeVolumeDetachTimeout", from.Deletion.NodeVolumeDetachTimeoutSeconds, &into.Deletion.NodeVolumeDetachTimeoutSeconds)
	list(s, "readinessGates", from.ReadinessGates, &into.ReadinessGates)
	list(s, "taints", from.Taints, &into.Taints)
}

func field[T ~string](s *inPlace, name string, from T, into *T) {
	if s.says(name, from != "") {
		*into = from
	}
}

func pointer[T any](s *inPlace, name string, from *T, into **T) {
	if s.says(name, from != nil) {
		*into = nil
		if from != nil {
			*into = new(*from)
		}
	}
}

func list[T any](s *inPlace, name string, from []T, into *[]T) {
	if s.says(name, len(from) > 0) {
		*into = slices.Clone(from)
	}
}

// texts are the entries of a map, each with its own name, so that those of others stay.
func (s *inPlace) texts(prefix string, from map[string]string, into *map[string]string) {
	keys := slices.Collect(maps.Keys(from))
	for _, name := range s.given {
		if key, ours := strings.CutPrefix(name, prefix); ours {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	for _, key := range slices.Compact(keys) {
		value, said := from[key]
		if !s.says(prefix+key, said) {
			continue
		}
		if said {
			addTexts(into, map[string]string{key: value})
		} else {
			delete(*into, key)
		}
	}
}

// templateDiff names the places in their order.
func templateDiff(d *clusterv1.MachineDeployment, set *clusterv1.MachineSet) ([]string, error) {
	want, have := &d.Spec.Template.Spec, &set.Spec.Template.Spec
	var places []string
	differs := func(place string, is bool) {
		if is {
			places = append(places, "spec.template.spec."+place)
		}
	}
	differs("bootstrap.configRef", want.Bootstrap.ConfigRef != have.Bootstrap.ConfigRef)
	differs("bootstrap.dataSecretName", textAt(want.Bootstrap.DataSecretName) != textAt(have.Bootstrap.DataSecretName))
	differs("failureDomain", want.FailureDomain != have.FailureDomain)
	differs("infrastructureRef", want.InfrastructureRef != have.InfrastructureRef)
	differs("version", want.Version != have.Version)
	return places, nil
}

func copyTemplate(set *clusterv1.MachineSet, d *clusterv1.MachineDeployment) error {
	from, into := set.Spec.Template.Spec.DeepCopy(), &d.Spec.Template.Spec
	into.Bootstrap, into.InfrastructureRef = from.Bootstrap, from.InfrastructureRef
	into.FailureDomain, into.Version = from.FailureDomain, from.Version
	return nil
}
