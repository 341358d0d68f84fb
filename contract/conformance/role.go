package conformance

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/machinist-dev/machinist/contract"
)

// Role is what Cluster API uses a kind for, in the contract's word. The zero Role is none of them.
type Role string

const (
	// InfraMachine is one machine of an infrastructure provider, like AWSMachine.
	InfraMachine Role = "InfraMachine"
	// InfraMachineTemplate is what InfraMachines are cloned from.
	InfraMachineTemplate Role = "InfraMachineTemplate"
	// InfraMachinePool is a group of machines that the provider manages, like AWSMachinePool.
	InfraMachinePool Role = "InfraMachinePool"
	// InfraMachinePoolTemplate is what InfraMachinePools are cloned from in a ClusterClass.
	InfraMachinePoolTemplate Role = "InfraMachinePoolTemplate"
	// BootstrapConfig makes the data of a machine's first boot, like KubeadmConfig.
	BootstrapConfig Role = "BootstrapConfig"
	// BootstrapConfigTemplate is what BootstrapConfigs are cloned from.
	BootstrapConfigTemplate Role = "BootstrapConfigTemplate"
)

// Roles returns every Role. The slice is the caller's.
func Roles() []Role { return append(infraRoles(), bootstrapRoles()...) }

// isTemplate reports whether objects of the role are only cloned and have no status that a controller waits for.
func (r Role) isTemplate() bool {
	return strings.HasSuffix(string(r), contract.TemplateSuffix)
}

// suffix is how kinds of the role end. Rule: "resource definition" of each contract page.
func (r Role) suffix() string {
	return strings.TrimPrefix(strings.TrimPrefix(string(r), "Infra"), "Bootstrap")
}

// RoleOf guesses the role of a kind from its group and its name, as providers use them: a kind that ends in Machine,
// MachinePool, MachineTemplate or MachinePoolTemplate in a group with the part "infrastructure", one that ends in Config or
// ConfigTemplate in a group with the part "bootstrap". The other groups of Cluster API (core, control plane, IPAM, add-ons)
// have no role here. A kind of any further group has one only if labelled is true, which says that its CRD has a contract
// label: VirtualMachine is a word of many projects. False means that the kind is none of these, like AWSCluster. A name is no
// proof: see Resembles.
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

// coreGroup is the group of Machine itself, and the end of the groups that Cluster API's own providers use.
const coreGroup = "cluster.x-k8s.io"

func infraRoles() []Role {
	return []Role{InfraMachine, InfraMachineTemplate, InfraMachinePool, InfraMachinePoolTemplate}
}

func bootstrapRoles() []Role { return []Role{BootstrapConfig, BootstrapConfigTemplate} }

// bySuffix wants something before the suffix: a kind called Machine names no environment.
func bySuffix(kind string, roles []Role) (Role, bool) {
	for _, role := range roles {
		if strings.HasSuffix(kind, role.suffix()) && kind != role.suffix() {
			return role, true
		}
	}
	return "", false
}

// Resembles reports whether a served API version of a CRD has any field of a role, by any contract. Conditions do not count,
// because every kind may have them. A kind that RoleOf guesses to be an InfraMachine and that has none of the fields may be
// something else, such as an inventory of hosts: ask before it is judged.
func Resembles(crd *unstructured.Unstructured, role Role) bool {
	if crd == nil {
		return false
	}
	for _, v := range versionsOf(crd.Object) {
		for _, c := range contract.AllVersions() {
			if v.served && slices.ContainsFunc(placesOf(role, c), v.signOf) {
				return true
			}
		}
	}
	return false
}

// signOf reports whether a version can hold a field that not every kind has.
func (v apiVersion) signOf(p place) bool {
	return !strings.HasPrefix(p.Name, "Conditions") && slices.ContainsFunc(p.Paths, v.keeps)
}
