package options

import (
	"flag"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Printing selects what is printed in place of running, and which resources the printed rights are for.
type Printing struct {
	// RBAC, NodeRBAC and CRDs print the rights in the cluster of the Machines, those in workload clusters, and the
	// CustomResourceDefinitions.
	RBAC, NodeRBAC, CRDs bool
	// OwnersEnforced: the API server has the admission plugin OwnerReferencesPermissionEnforcement.
	OwnersEnforced bool
	// ProviderResources, RemediationResources and ControlPlaneResources are the objects of others that rights are needed for.
	ProviderResources, RemediationResources, ControlPlaneResources []schema.GroupResource
}

func defaultPrinting() Printing {
	return Printing{
		ProviderResources: []schema.GroupResource{{Group: "infrastructure.cluster.x-k8s.io", Resource: "*"},
			{Group: "bootstrap.cluster.x-k8s.io", Resource: "*"}},
		ControlPlaneResources: []schema.GroupResource{{Group: "controlplane.cluster.x-k8s.io", Resource: "*"}},
	}
}

// AddFlags implements Section.
func (p *Printing) AddFlags(flags *flag.FlagSet) {
	flags.BoolVar(&p.RBAC, "print-rbac", p.RBAC,
		"print the ClusterRole that is needed with the other flags, with --leader-elect a Role for the Lease too, and end")
	flags.BoolVar(&p.NodeRBAC, "print-node-rbac", p.NodeRBAC,
		"print the ClusterRole that --workload-clusters needs in each of them, for the user of its kubeconfig, and end")
	flags.BoolVar(&p.CRDs, "print-crds", p.CRDs,
		"print the CustomResourceDefinitions of machinist.dev, with --driver-as=inframachine those of the driver too, and end")
	flags.BoolVar(&p.OwnersEnforced, "owner-references-enforced", p.OwnersEnforced,
		"for --print-rbac: the API server has the admission plugin OwnerReferencesPermissionEnforcement, as OpenShift's has")
	flags.Var((*resources)(&p.ProviderResources), "provider-resources",
		"for --print-rbac: infrastructure and bootstrap objects that Machines refer to, as `resource.group,...`")
	flags.Var((*resources)(&p.RemediationResources), "remediation-resources",
		"for --print-rbac: what remediation templates of MachineHealthChecks make, as `resource.group,...`")
	flags.Var((*resources)(&p.ControlPlaneResources), "control-plane-resources",
		"for --print-rbac: control planes that Clusters refer to, as `resource.group,...`; they are only read")
}

// Validate implements Section.
func (p *Printing) Validate() error { return nil }

// resources is the value of a flag with a list of resources and their groups.
type resources []schema.GroupResource

// String implements flag.Value.
func (r *resources) String() string {
	var names []string
	for _, resource := range *r {
		names = append(names, resource.String())
	}
	return strings.Join(names, ",")
}

// Set implements flag.Value.
func (r *resources) Set(value string) error {
	*r = nil
	for name := range strings.SplitSeq(value, ",") {
		if name == "" {
			continue
		}
		resource := schema.ParseGroupResource(name)
		if resource.Group == "" {
			return fmt.Errorf("%q: give the resource with its group, such as awsmachines.infrastructure.cluster.x-k8s.io", name)
		}
		*r = append(*r, resource)
	}
	return nil
}
