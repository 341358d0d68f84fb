package conformance_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/machinist-dev/machinist/contract/conformance"
)

func TestRoleOf(t *testing.T) {
	const (
		infra     = "infrastructure.cluster.x-k8s.io"
		bootstrap = "bootstrap.cluster.x-k8s.io"
		control   = "controlplane.cluster.x-k8s.io"
		none      = conformance.Role("")
	)
	for _, c := range []struct {
		group, kind string
		want        conformance.Role
		whenLabels  conformance.Role // what it is when its CRD has contract labels
	}{
		{infra, "AWSMachine", conformance.InfraMachine, conformance.InfraMachine},
		{infra, "Metal3Machine", conformance.InfraMachine, conformance.InfraMachine},
		{infra, "AzureMachinePoolMachine", conformance.InfraMachine, conformance.InfraMachine},
		{infra, "AWSMachineTemplate", conformance.InfraMachineTemplate, conformance.InfraMachineTemplate},
		{infra, "AWSManagedMachinePool", conformance.InfraMachinePool, conformance.InfraMachinePool},
		{infra, "DockerMachinePoolTemplate", conformance.InfraMachinePoolTemplate, conformance.InfraMachinePoolTemplate},
		{"vmware.infrastructure.cluster.x-k8s.io", "VSphereMachine", conformance.InfraMachine, conformance.InfraMachine},
		{"infrastructure.example.com", "FooMachine", conformance.InfraMachine, conformance.InfraMachine},
		{infra, "AWSCluster", none, none},
		{infra, "AWSClusterControllerIdentity", none, none},
		{infra, "GCPManagedControlPlane", none, none},
		{infra, "ROSARoleConfig", none, none},
		{infra, "VSphereVM", none, none},
		{infra, "Metal3MachineList", none, none},
		{infra, "Machine", none, none},
		{bootstrap, "KubeadmConfig", conformance.BootstrapConfig, conformance.BootstrapConfig},
		{bootstrap, "EKSConfigTemplate", conformance.BootstrapConfigTemplate, conformance.BootstrapConfigTemplate},
		{bootstrap, "KubeadmConfigList", none, none},
		{"bootstrap.example.com", "FooConfig", conformance.BootstrapConfig, conformance.BootstrapConfig},
		{control, "KubeadmControlPlane", none, none},
		{control, "AWSManagedControlPlaneTemplate", none, none},
		{"cluster.x-k8s.io", "MachinePool", none, none},
		{"cluster.x-k8s.io", "FooMachine", none, none},
		{"runtime.cluster.x-k8s.io", "ExtensionConfig", none, none},
		{"pool.kubevirt.io", "VirtualMachinePool", none, conformance.InfraMachinePool},
		{"rke-machine.cattle.io", "Amazonec2Machine", none, conformance.InfraMachine},
		{"foo.example.com", "FooConfigTemplate", none, conformance.BootstrapConfigTemplate},
		{"", "", none, none},
	} {
		t.Run(c.group+"/"+c.kind, func(t *testing.T) {
			for labelled, want := range map[bool]conformance.Role{false: c.want, true: c.whenLabels} {
				role, ok := conformance.RoleOf(schema.GroupKind{Group: c.group, Kind: c.kind}, labelled)
				require.Equal(t, want, role)
				require.Equal(t, want != none, ok)
			}
		})
	}
}

func TestResembles(t *testing.T) {
	pooled := set(`{openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {pool: {type: string}, machine: {type: object}}},
		status: {type: object, properties: {reserved: {type: boolean}, conditions: {type: array}}}}}}`, "schema")
	for _, role := range conformance.Roles() {
		crd := goodCRD(t, role)
		require.True(t, conformance.Resembles(crd, role), role)
		for _, v := range crd.Object["spec"].(map[string]any)["versions"].([]any) {
			pooled(t, v.(map[string]any))
		}
		require.False(t, conformance.Resembles(crd, role), "an inventory of hosts has conditions, as every kind may, and is no %s", role)
	}
	loose := goodCRD(t, conformance.InfraMachine)
	inVersion("v1beta2", "{openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}", "schema")(t, loose.Object)
	inVersion("v1beta1", "{openAPIV3Schema: {type: object}}", "schema")(t, loose.Object)
	require.True(t, conformance.Resembles(loose, conformance.InfraMachine), "a schema that keeps everything may hold the fields")
	inVersion("v1beta2", "false", "served")(t, loose.Object)
	require.False(t, conformance.Resembles(loose, conformance.InfraMachine), "what is not served is not read")
	require.False(t, conformance.Resembles(nil, conformance.InfraMachine))
	require.False(t, conformance.Resembles(goodCRD(t, conformance.InfraMachine), conformance.Role("Machine")))
}
