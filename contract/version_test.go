package contract_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/machinist-dev/machinist/contract"
)

const (
	labelV1Beta1 = contract.LabelPrefix + "v1beta1"
	labelV1Beta2 = contract.LabelPrefix + "v1beta2"
)

func TestResolve_TakesTheNewestContractAndItsHighestVersion(t *testing.T) {
	for name, c := range map[string]struct {
		labels map[string]string
		want   contract.Resolved
	}{
		"one contract, one version":          {map[string]string{labelV1Beta1: "v1beta1"}, contract.Resolved{Contract: contract.V1Beta1, APIVersion: "v1beta1"}},
		"the newer contract wins":            {map[string]string{labelV1Beta1: "v1beta5", labelV1Beta2: "v1beta2"}, contract.Resolved{Contract: contract.V1Beta2, APIVersion: "v1beta2"}},
		"beta goes over alpha":               {map[string]string{labelV1Beta1: "v1alpha1_v1beta1"}, contract.Resolved{Contract: contract.V1Beta1, APIVersion: "v1beta1"}},
		"the order in the label is no order": {map[string]string{labelV1Beta1: "v1beta1_v1alpha1"}, contract.Resolved{Contract: contract.V1Beta1, APIVersion: "v1beta1"}},
		"GA goes over beta":                  {map[string]string{labelV1Beta2: "v2beta1_v1"}, contract.Resolved{Contract: contract.V1Beta2, APIVersion: "v1"}},
		"v10 goes over v2":                   {map[string]string{labelV1Beta2: "v2_v10_v9"}, contract.Resolved{Contract: contract.V1Beta2, APIVersion: "v10"}},
		"v1alpha10 goes over v1alpha9":       {map[string]string{labelV1Beta2: "v1alpha10_v1alpha9"}, contract.Resolved{Contract: contract.V1Beta2, APIVersion: "v1alpha10"}},
		"an empty newer label falls through": {map[string]string{labelV1Beta1: "v1", labelV1Beta2: ""}, contract.Resolved{Contract: contract.V1Beta1, APIVersion: "v1"}},
		"stray separators are no versions":   {map[string]string{labelV1Beta2: "_v1_"}, contract.Resolved{Contract: contract.V1Beta2, APIVersion: "v1"}},
		"a version beats a word":             {map[string]string{labelV1Beta2: "zebra_v1alpha1"}, contract.Resolved{Contract: contract.V1Beta2, APIVersion: "v1alpha1"}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := contract.Resolve("things.example.com", c.labels)
			require.NoError(t, err)
			require.Equal(t, c.want, got)
		})
	}
}

// Cluster API looks the contract of an API version up in map order, which changes from call to call when two contracts
// list it.
func TestResolve_AVersionUnderTwoContractsIsAlwaysReadWithTheNewer(t *testing.T) {
	for range 1000 {
		labels := map[string]string{
			"cluster.x-k8s.io/provider": "v1beta1", labelV1Beta1: "v1beta1", labelV1Beta2: "v1beta1",
			"cluster.x-k8s.io/v1alpha4": "v1beta1", "clusterctl.cluster.x-k8s.io": "",
		}
		got, err := contract.Resolve("things.example.com", labels)
		require.NoError(t, err)
		require.Equal(t, contract.Resolved{Contract: contract.V1Beta2, APIVersion: "v1beta1"}, got)
	}
}

func TestResolve_SaysWhichLabelIsMissing(t *testing.T) {
	for name, labels := range map[string]map[string]string{
		"no labels":                      nil,
		"an empty label":                 {labelV1Beta2: ""},
		"nothing but separators":         {labelV1Beta1: "__"},
		"a contract that nobody reads":   {contract.LabelPrefix + "v1alpha4": "v1alpha4"},
		"a label without the API prefix": {"v1beta2": "v1beta2"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := contract.Resolve("things.example.com", labels)
			require.ErrorIs(t, err, contract.ErrNoContract)
			require.EqualError(t, err, "CustomResourceDefinition things.example.com has no supported contract label: "+
				"its provider must set cluster.x-k8s.io/v1beta2 to the API versions that fulfil it")
		})
	}
}

func TestVersions_EachHasItsLayouts(t *testing.T) {
	contract.Versions()[0] = "changed"
	require.Equal(t, []contract.Version{contract.V1Beta2, contract.V1Beta1}, contract.Versions())
	for _, v := range contract.Versions() {
		require.Equal(t, v, contract.InfraMachine(v).Version)
		require.Equal(t, v, contract.BootstrapConfig(v).Version)
	}
	require.Nil(t, contract.InfraMachine("v1alpha2"))
	require.Nil(t, contract.BootstrapConfig("v1alpha2"))
}

func TestCRDName_IsThePluralOfTheKindAndTheGroup(t *testing.T) {
	for kind, want := range map[string]string{
		"AWSMachine":       "awsmachines",
		"KubeadmConfig":    "kubeadmconfigs",
		"IPAddress":        "ipaddresses",
		"Gateway":          "gateways",
		"PlacementPolicy":  "placementpolicies",
		"Box":              "boxes",
		"Batch":            "batches",
		"Mesh":             "meshes",
		"Y":                "ys",
		"AWSMachineStatus": "awsmachinestatuses",
	} {
		t.Run(kind, func(t *testing.T) {
			require.Equal(t, want+".example.com", contract.CRDName(schema.GroupKind{Group: "example.com", Kind: kind}))
		})
	}
	require.Equal(t, ".", contract.CRDName(schema.GroupKind{}), "no panic on nothing")
}
