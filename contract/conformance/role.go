package conformance

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/machinist-dev/machinist/contract"
)

// Role is the use of a kind in Cluster API, as the contract calls it. The zero Role is no role.
type Role string

const (
	// InfraMachine is one machine of an infrastructure provider, like AWSMachine.
	InfraMachine Role = "InfraMachine"
	// InfraMachineTemplate is the template of InfraMachines.
	InfraMachineTemplate Role = "InfraMachineTemplate"
	// InfraMachinePool is a group of machines that the provider manages, like AWSMachinePool.
	InfraMachinePool Role = "InfraMachinePool"
	// InfraMachinePoolTemplate is the template of InfraMachinePools in a ClusterClass.
	InfraMachinePoolTemplate Role = "InfraMachinePoolTemplate"
	// BootstrapConfig generates the bootstrap data of a machine, like KubeadmConfig.
	BootstrapConfig Role = "BootstrapConfig"
	// BootstrapConfigTemplate is the template of BootstrapConfigs.
	BootstrapConfigTemplate Role = "BootstrapConfigTemplate"
)

// Roles returns every Role. The caller owns the slice.
func Roles() []Role { return append(infraRoles(), bootstrapRoles()...) }

// isTemplate reports whether objects of the role are only cloned and have no status that a controller waits for.
func (r Role) isTemplate() bool {
	return strings.HasSuffix(string(r), contract.TemplateSuffix)
}

// suffix returns the suffix of kinds of the role. Rule: "resource definition" of each contract page.
func (r Role) suffix() string {
	return strings.TrimPrefix(strings.TrimPrefix(string(r), "Infra"), "Bootstrap")
}

// RoleOf guesses the role of a kind from its group and its name, by the conventions of providers: a kind that ends in Machine, MachinePool,
// MachineTemplate or MachinePoolTemplate in a group with the part "infrastructure", or one that ends in Config or ConfigTemplate in a group
// with the part "bootstrap". The other groups of Cluster API (core, control plane, IPAM, add-ons) have no role here. A kind of any other
// group has one only if labeled is true, which means that its CRD has a contract label: many projects have a VirtualMachine. False means
// that the kind has no role, like AWSCluster. A name is no proof: see Resembles.
func RoleOf(gk schema.GroupKind, labelled bool) (Role, bool) {
	parts := strings.FieldsFunc(gk.Group, func(r rune) bool { return r == '.' || r == '-' })
	switch {
	case slices.Contains(parts, "infrastructure"):
		return bySuffix(gk.Kind, infraRoles())
	case slices.Contains(parts, "bootstrap"):
		return bySuffix(gk.Kind, bootstrapRoles())
	case !labelled || gk.Group == coreGroup || strings.HasSuffix(gk.Group, "."+coreGroup):
		return "", false
	default:
		return bySuffix(gk.Kind, Roles())
	}
}

// coreGroup is the group of Machine, and the suffix of the groups of Cluster API's own providers.
const coreGroup = "cluster.x-k8s.io"

func infraRoles() []Role {
	return []Role{InfraMachine, InfraMachineTemplate, InfraMachinePool, InfraMachinePoolTemplate}
}

func bootstrapRoles() []Role { return []Role{BootstrapConfig, BootstrapConfigTemplate} }

// bySuffix requires text before the suffix: a kind called Machine names no environment.
func bySuffix(kind string, roles []Role) (Role, bool) {
	for _, role := range roles {
		if strings.HasSuffix(kind, role.suffix()) && kind != role.suffix() {
			return role, true
		}
	}
	return "", false
}

// Resembles reports whether a served API version of a CRD has any field of a role, by any contract. Conditions do not count, because every
// kind may have them. A kind that RoleOf guesses to be an InfraMachine but that has none of the fields may be something else, such as an
// inventory of hosts: check this first.
func Resembles(crd *unstructured.Unstructured, role Role) bool {
	if crd == nil {
		return false
	}
	for _, v := range versionsOf(crd.Object) {
		for _, c := range contract.AllVersions() {
			if v.served && slices.ContainsFunc(placesOf(role, c), func(p place) bool {
				return p.Name != "Conditions" && slices.ContainsFunc(p.Paths, v.keeps)
			}) {
				return true
			}
		}
	}
	return false
}

// place is one field of a layout with the data to check it. Its type and path are defined only in the layout.
type place struct {
	contract.Place
	// main is the path in the contract page; the others are those of providers in transition.
	main contract.Path
	// shape is the required schema.
	shape shape
	rule  rule
}

// fallbackSuffix is the suffix of a layout's second field for a value, which readers also read.
const fallbackSuffix = "Fallback"

// provisioned is the field whose fallback matters for pools.
const provisioned = "Provisioned"

// placesOf returns the fields of a role's layout that have a path, nil for a contract version without a layout.
func placesOf(role Role, v contract.Version) []place {
	var places []place
	for _, f := range contract.Places(layoutOf(role, v)) {
		if len(f.Paths) == 0 {
			continue
		}
		places = append(places, place{Place: f, main: mainPath(f.Paths), shape: shapeOf(f.Type), rule: ruleOf(f)})
	}
	return places
}

// layoutOf returns a pointer to a layout, or nil when the contract has none.
func layoutOf(role Role, v contract.Version) any {
	switch role {
	case InfraMachine:
		return contract.LayoutsOf(v).InfraMachine
	case InfraMachinePool:
		return contract.LayoutsOf(v).InfraMachinePool
	case BootstrapConfig:
		return contract.LayoutsOf(v).BootstrapConfig
	case InfraMachineTemplate, BootstrapConfigTemplate, InfraMachinePoolTemplate:
		return contract.LayoutsOf(v).Template
	default:
		return nil
	}
}

// mainPath returns the shortest path: those of providers in transition include a struct that is named after a contract.
func mainPath(paths []contract.Path) contract.Path {
	return slices.MinFunc(paths, func(a, b contract.Path) int { return len(a.Segments()) - len(b.Segments()) })
}

// rule is the contract's name of a rule, and the consequence of breaking it.
type rule struct{ name, why string }

func ruleOf(p contract.Place) rule {
	const waits = "its owner waits for it to be true, without an end and without an error"
	known := map[string]rule{
		provisioned:                 {"initialization completed", waits},
		"DataSecretCreated":         {"initialization completed", waits},
		"DataSecretName":            {"data secret", "the infrastructure provider waits for the data of the first boot"},
		"ProviderID":                {"provider ID", "the Node is found by it"},
		"ProviderIDList":            {"providerIDList", "the Nodes of the pool are found by it"},
		"Replicas":                  {"replicas", "the MachinePool reports it"},
		"Conditions":                {"conditions", "people see on the owner what is wrong with the object"},
		"Addresses":                 {"addresses", "the Machine shows them"},
		"FailureDomain":             {"failure domain", "the Machine shows it"},
		"FailureReason":             {"terminal failures", "the owner shows it"},
		"FailureMessage":            {"terminal failures", "the owner shows it"},
		"InfrastructureMachineKind": {"MachinePoolMachines support", "the Machines of the pool are made by it"},
		"Spec":                      {"template resource definition", "objects are cloned from it"},
		"Labels":                    {"template resource definition", "clones get it"},
		"Annotations":               {"template resource definition", "clones get it"},
	}
	if r, ok := known[strings.TrimSuffix(p.Name, fallbackSuffix)]; ok {
		return r
	}
	return rule{p.Name, "a reader that cannot read it stops"}
}

// shapeOf maps the type names of layouts to those of schemas.
func shapeOf(typeName string) shape {
	switch typeName {
	case "string", "time", "duration":
		return scalar(typeString)
	case "bool":
		return scalar(typeBoolean)
	case "integer", "32-bit integer", "seconds":
		return scalar(typeInteger)
	case "list of strings":
		return listOf("list of strings", scalar(typeString))
	case "list of addresses":
		return addressesShape()
	case "list of conditions":
		return conditionsShape()
	case "map of strings":
		return shape{name: "map of strings", typed: typeObject, values: new(scalar(typeString))}
	default:
		return scalar(typeObject)
	}
}
