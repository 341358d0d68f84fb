package contract

import (
	"fmt"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Kinds are the kinds of one API group for Machines and what keeps a number of them, and how they are made. The reconciler of sets needs
// Set, Machine and Maker; that of deployments needs Deployment, Set, Machine and SetMaker.
type Kinds struct {
	Deployment MachineDeploymentKind
	Set        MachineSetKind
	Machine    Kind
	// Maker makes Machines of that kind for sets of that kind, and SetMaker such sets for deployments of that kind.
	Maker    MachineMaker
	SetMaker MachineSetMaker
	// AllRevisions: a deployment without a limit of the history keeps all old sets, as Gardener's do; otherwise it keeps one.
	AllRevisions bool
}

// ClusterAPI returns the kinds of cluster.x-k8s.io in a version, V1Beta1 or V1Beta2; for any other the error matches ErrUnknownVersion.
func ClusterAPI(v Version) (Kinds, error) {
	switch v {
	case V1Beta2:
		return kindsOf("cluster.x-k8s.io", string(v), MachineDeploymentV1Beta2(), MachineSetV1Beta2(), MachineV1Beta2()), nil
	case V1Beta1:
		return kindsOf("cluster.x-k8s.io", string(v), MachineDeploymentV1Beta1(), MachineSetV1Beta1(), MachineV1Beta1()), nil
	default:
		return Kinds{}, fmt.Errorf("%w: the kinds of cluster.x-k8s.io have %s and %s, not %q", ErrUnknownVersion, V1Beta1, V1Beta2, v)
	}
}

// Kubermatic returns the kinds of cluster.k8s.io/v1alpha1. The CRD of its Machines has no status subresource.
func Kubermatic() Kinds {
	kinds := kindsOf("cluster.k8s.io", "v1alpha1", KubermaticMachineDeployment(), KubermaticMachineSet(), KubermaticMachine())
	kinds.Machine.StatusSubresource = false
	return kinds
}

// Gardener returns the kinds of machine.sapcloud.io/v1alpha1.
func Gardener() Kinds {
	kinds := kindsOf("machine.sapcloud.io", "v1alpha1", GardenerMachineDeployment(), GardenerMachineSet(), GardenerMachine())
	kinds.AllRevisions = true
	return kinds
}

func kindsOf(group, version string, deployment *MachineDeploymentLayout, set *MachineSetLayout, machine *MachineLayout) Kinds {
	gvk := schema.GroupVersion{Group: group, Version: version}.WithKind
	return Kinds{
		Deployment: Unstructured(gvk("MachineDeployment"), deployment), Set: Unstructured(gvk("MachineSet"), set),
		Machine:  Unstructured(gvk("Machine"), machine),
		Maker:    UnstructuredMaker(set, gvk("Machine"), machine),
		SetMaker: UnstructuredSetMaker(deployment, gvk("MachineSet"), set),
	}
}
