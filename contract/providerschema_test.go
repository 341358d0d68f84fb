package contract_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"

	"github.com/machinist-dev/machinist/contract"
)

const (
	providerAWS = "sigs.k8s.io/cluster-api-provider-aws/v2@v2.13.0"
	providerGCP = "sigs.k8s.io/cluster-api-provider-gcp@v1.13.1"
)

// providerCRD is a published CRD and the contract that its labels name for each of its versions, by role.
type providerCRD struct {
	module, file, role string
	contracts          map[string]contract.Version
}

// Cluster API's own providers fulfil two contracts, one version each; AWS lists two API versions under contract v1beta1.
func providerCRDs() []providerCRD {
	both := map[string]contract.Version{"v1beta1": contract.V1Beta1, "v1beta2": contract.V1Beta2}
	aws := map[string]contract.Version{"v1beta2": contract.V1Beta1}
	older := map[string]contract.Version{"v1beta1": contract.V1Beta1, "v1beta2": contract.V1Beta1}
	gcp := map[string]contract.Version{"v1beta1": contract.V1Beta1}
	const own, base = "config/crd/bases/", "infrastructure.cluster.x-k8s.io_"
	const config, plane = "bootstrap/kubeadm/" + own + "bootstrap.cluster.x-k8s.io_", "controlplane/kubeadm/" + own +
		"controlplane.cluster.x-k8s.io_"
	return []providerCRD{
		{clusterAPI, config + "kubeadmconfigs.yaml", "BootstrapConfig", both},
		{clusterAPI, config + "kubeadmconfigtemplates.yaml", "Template", both},
		{clusterAPI, plane + "kubeadmcontrolplanes.yaml", "ControlPlane", both},
		{providerAWS, own + base + "awsmachines.yaml", "InfraMachine", older},
		{providerAWS, own + base + "awsmachinetemplates.yaml", "Template", older},
		{providerAWS, own + base + "awsmachinepools.yaml", "InfraMachinePool", older},
		{providerAWS, own + base + "awsmanagedmachinepools.yaml", "InfraMachinePool", older},
		{providerAWS, own + base + "rosamachinepools.yaml", "InfraMachinePool", aws},
		{providerAWS, own + "bootstrap.cluster.x-k8s.io_eksconfigs.yaml", "BootstrapConfig", older},
		{providerAWS, own + "bootstrap.cluster.x-k8s.io_nodeadmconfigs.yaml", "BootstrapConfig", aws},
		{providerAWS, own + "bootstrap.cluster.x-k8s.io_eksconfigtemplates.yaml", "Template", older},
		{providerAWS, own + "controlplane.cluster.x-k8s.io_rosacontrolplanes.yaml", "ControlPlane", aws},
		{providerAWS, own + "controlplane.cluster.x-k8s.io_awsmanagedcontrolplanes.yaml", "ControlPlane", older},
		{providerGCP, own + base + "gcpmachines.yaml", "InfraMachine", gcp},
		{providerGCP, own + base + "gcpmachinetemplates.yaml", "Template", gcp},
		{providerGCP, own + base + "gcpmachinepools.yaml", "InfraMachinePool", gcp},
		{providerGCP, own + base + "gcpmanagedmachinepools.yaml", "InfraMachinePool", gcp},
		{providerGCP, own + "bootstrap.cluster.x-k8s.io_gkeconfigs.yaml", "BootstrapConfig", gcp},
		{providerGCP, own + base + "gcpmanagedcontrolplanes.yaml", "ControlPlane", gcp},
	}
}

// onlyInV1Beta2 are places of that contract, which none of these providers has for its infrastructure.
func onlyInV1Beta2() []string {
	return []string{"InfraMachine.FailureDomain", "InfraMachinePool.ProvisionedFallback", "ControlPlane.CurrentVersions"}
}

// Published providers judge the tables: what the contract demands is in every one of them, and whatever of the rest they
// have is of the type that is read.
func TestProviderLayouts_FitThePublishedProviders(t *testing.T) {
	folders, seen := map[string]string{}, map[string]bool{}
	for _, crd := range providerCRDs() {
		if folders[crd.module] == "" {
			folders[crd.module] = moduleDir(t, crd.module)
		}
		schemas := schemasOf(t, filepath.Join(folders[crd.module], crd.file))
		for version, v := range crd.contracts {
			schema := schemas[version]
			require.NotNil(t, schema, "%s has no version %s", crd.file, version)
			for _, p := range contract.Places(providerLayouts(v)[crd.role]) {
				for i, path := range p.Paths {
					what := strings.Join([]string{filepath.Base(crd.file), version, string(v), p.Name, path.String()}, " ")
					node := schema.at(path.Segments()...)
					if path.Segments()[0] == "metadata" || node == nil && (p.Need != contract.NeedMust || i > 0) {
						continue
					}
					require.NotNil(t, node, "%s: the contract demands it", what)
					fits(t, what, node, p.Type)
					seen[crd.role+"."+p.Name] = true
				}
			}
		}
	}
	for role, layout := range providerLayouts(contract.V1Beta2) {
		for _, p := range contract.Places(layout) {
			name := role + "." + p.Name
			if len(p.Paths) > 0 && p.Paths[0].Segments()[0] != "metadata" && seen[name] == slices.Contains(onlyInV1Beta2(), name) {
				t.Errorf("%s: seen in a published provider is %v: is the place right?", name, seen[name])
			}
		}
	}
}

// schemasOf returns the schema of every version of a CRD in a file.
func schemasOf(t *testing.T, file string) map[string]*schemaNode {
	t.Helper()
	raw, err := os.ReadFile(file)
	require.NoError(t, err)
	var crd struct {
		Spec struct {
			Versions []struct {
				Name   string `json:"name"`
				Schema struct {
					OpenAPIV3Schema *schemaNode `json:"openAPIV3Schema"`
				} `json:"schema"`
			} `json:"versions"`
		} `json:"spec"`
	}
	require.NoError(t, yaml.Unmarshal(raw, &crd))
	schemas := map[string]*schemaNode{}
	for _, v := range crd.Spec.Versions {
		schemas[v.Name] = v.Schema.OpenAPIV3Schema
	}
	return schemas
}
