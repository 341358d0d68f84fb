package contract_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/machinist-dev/machinist/contract"
)

const (
	labelV1Alpha4 = contract.LabelPrefix + "v1alpha4"
	labelV1Beta1  = contract.LabelPrefix + "v1beta1"
	labelV1Beta2  = contract.LabelPrefix + "v1beta2"
)

func TestResolve(t *testing.T) {
	older := func(version string) contract.Resolved {
		return contract.Resolved{Contract: contract.V1Beta1, APIVersion: version}
	}
	newer := func(version string) contract.Resolved {
		return contract.Resolved{Contract: contract.V1Beta2, APIVersion: version}
	}
	for name, c := range map[string]struct {
		labels map[string]string
		want   contract.Resolved
	}{
		"one contract, one version":            {map[string]string{labelV1Beta1: "v1beta1"}, older("v1beta1")},
		"the newer contract wins":              {map[string]string{labelV1Beta1: "v1beta5", labelV1Beta2: "v1beta2"}, newer("v1beta2")},
		"a new API version of an old contract": {map[string]string{labelV1Beta1: "v1beta1_v1beta2"}, older("v1beta2")},
		"beta goes over alpha":                 {map[string]string{labelV1Beta1: "v1alpha1_v1beta1"}, older("v1beta1")},
		"the order in the label is no order":   {map[string]string{labelV1Beta1: "v1beta1_v1alpha1"}, older("v1beta1")},
		"GA goes over beta":                    {map[string]string{labelV1Beta2: "v2beta1_v1"}, newer("v1")},
		"v10 goes over v2":                     {map[string]string{labelV1Beta2: "v2_v10_v9"}, newer("v10")},
		"v1alpha10 goes over v1alpha9":         {map[string]string{labelV1Beta2: "v1alpha10_v1alpha9"}, newer("v1alpha10")},
		"an empty newer label falls through":   {map[string]string{labelV1Beta1: "v1", labelV1Beta2: ""}, older("v1")},
		"stray separators are no versions":     {map[string]string{labelV1Beta2: "__v1_"}, newer("v1")},
		"a version beats a word":               {map[string]string{labelV1Beta2: "zebra_v1alpha1"}, newer("v1alpha1")},
		"a word can be a version":              {map[string]string{labelV1Beta2: "zebra"}, newer("zebra")},
		"spaces make no version":               {map[string]string{labelV1Beta2: " v3_v1_ "}, newer("v1")},
		"capitals make no version":             {map[string]string{labelV1Beta2: "V3_v1"}, newer("v1")},
		"a list with commas is no version":     {map[string]string{labelV1Beta2: "v2,v3", labelV1Beta1: "v1"}, older("v1")},
		"garbage falls through too":            {map[string]string{labelV1Beta2: "_ _\x00_v 1", labelV1Beta1: "v1"}, older("v1")},
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

func TestResolve_HonoursOldContractsOnRequestOnly(t *testing.T) {
	labels := map[string]string{labelV1Alpha4: "v1alpha4", contract.V1Alpha3.Label(): "v1alpha3"}
	_, err := contract.Resolve("things.example.com", labels)
	require.ErrorIs(t, err, contract.ErrNoContract)
	for _, honoured := range [][]contract.Version{
		contract.AllVersions(),
		{contract.V1Alpha3, contract.V1Alpha4},
		{contract.V1Alpha4, contract.V1Beta2, contract.V1Alpha3},
	} {
		before := slices.Clone(honoured)
		got, err := contract.Resolve("things.example.com", labels, honoured...)
		require.NoError(t, err)
		require.Equal(t, contract.Resolved{Contract: contract.V1Alpha4, APIVersion: "v1alpha4"}, got)
		require.Equal(t, before, honoured, "the list is the caller's")
	}
	got, err := contract.Resolve("things.example.com", labels, contract.V1Alpha3)
	require.NoError(t, err)
	require.Equal(t, contract.Resolved{Contract: contract.V1Alpha3, APIVersion: "v1alpha3"}, got)
}

func TestResolve_Refuses(t *testing.T) {
	const missing, empty = "no supported contract label", "which names no API version"
	for name, c := range map[string]struct {
		labels      map[string]string
		label, says string
	}{
		"no labels":                      {nil, labelV1Beta2, missing},
		"a label without the API prefix": {map[string]string{"v1beta2": "v1beta2"}, labelV1Beta2, missing},
		"labels of no contract":          {map[string]string{"cluster.x-k8s.io/provider": "x"}, labelV1Beta2, missing},
		"an older contract only":         {map[string]string{labelV1Alpha4: "v1alpha4"}, labelV1Beta2, "only contract v1alpha4"},
		"an empty older contract":        {map[string]string{labelV1Alpha4: ""}, labelV1Beta2, missing},
		"an empty label":                 {map[string]string{labelV1Beta2: ""}, labelV1Beta2, empty},
		"an empty label of the older":    {map[string]string{labelV1Beta1: ""}, labelV1Beta1, empty},
		"two empty labels":               {map[string]string{labelV1Beta1: "", labelV1Beta2: "_"}, labelV1Beta2, `"_"`},
		"nothing but separators":         {map[string]string{labelV1Beta1: "__"}, labelV1Beta1, `"__"`},
		"a space":                        {map[string]string{labelV1Beta2: " "}, labelV1Beta2, `" "`},
		"an API version with its group":  {map[string]string{labelV1Beta2: "g/v1"}, labelV1Beta2, `"g/v1"`},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := contract.Resolve("things.example.com", c.labels)
			checkTrouble(t, err, contract.ErrNoContract, c.label)
			require.ErrorContains(t, err, c.says)
		})
	}
}

// checkTrouble checks that an error is of exactly one kind, and carries what a program needs to say it in its own words.
func checkTrouble(t *testing.T, err, is error, label string) {
	t.Helper()
	var matched []error
	for _, sentinel := range []error{contract.ErrNoContract, contract.ErrNoCRD} {
		if errors.Is(fmt.Errorf("wrapped: %w", err), sentinel) {
			matched = append(matched, sentinel)
		}
	}
	require.Equal(t, []error{is}, matched, "the kinds of trouble are different errors")
	trouble, ok := errors.AsType[*contract.ResolveError](err)
	require.True(t, ok)
	require.Equal(t, label, trouble.Label)
	require.NotEmpty(t, trouble.CRD)
	require.NotEmpty(t, trouble.Remedy)
	require.False(t, apierrors.IsNotFound(err), "nothing here is about an object")
}

func TestMissingCRD_IsNotAMissingObject(t *testing.T) {
	gk := schema.GroupKind{Group: "example.com", Kind: "Thing"}
	err := contract.MissingCRD(gk)
	checkTrouble(t, err, contract.ErrNoCRD, "")
	object := fmt.Errorf("read: %w", apierrors.NewNotFound(schema.GroupResource{Group: "example.com", Resource: "things"}, "a"))
	require.True(t, apierrors.IsNotFound(object))
	require.NotErrorIs(t, object, contract.ErrNoCRD)
}

func TestVersions(t *testing.T) {
	contract.Versions()[0] = "changed"
	contract.AllVersions()[0] = "changed"
	require.Equal(t, []contract.Version{contract.V1Beta2, contract.V1Beta1}, contract.Versions())
	require.Equal(t, []contract.Version{contract.V1Beta2, contract.V1Beta1, contract.V1Alpha4, contract.V1Alpha3}, contract.AllVersions())
}

func FuzzResolve(f *testing.F) {
	for _, label := range []string{"", "_", "__v1", "v1beta1_v1beta2", "v1 _v2", "V1", "v01_v1", "v1_v01", "v18446744073709551616_v1",
		"zebra_ape", "v1\xff"} {
		f.Add(label, "v1beta1", "v1alpha4_v1", uint64(1))
		f.Add("v1", label, label, uint64(2))
	}
	f.Fuzz(func(t *testing.T, newer, older, oldest string, seed uint64) {
		labels := map[string]string{labelV1Beta2: newer, labelV1Beta1: older, labelV1Alpha4: oldest, "cluster.x-k8s.io/provider": newer}
		shuffled := map[string]string{}
		for key, value := range labels {
			shuffled[key] = shuffle(value, seed)
		}
		for _, contracts := range [][]contract.Version{nil, contract.AllVersions()} {
			got, err := contract.Resolve("crd", labels, contracts...)
			again, errAgain := contract.Resolve("crd", shuffled, contracts...)
			require.Equal(t, got, again, "the order in a label is no order")
			require.Equal(t, err == nil, errAgain == nil)
			if err != nil {
				require.ErrorIs(t, err, contract.ErrNoContract)
				continue
			}
			require.Contains(t, strings.Split(labels[got.Contract.Label()], "_"), got.APIVersion)
		}
	})
}

func shuffle(label string, seed uint64) string {
	names := strings.Split(label, "_")
	random := rand.New(rand.NewPCG(seed, seed))
	random.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	return strings.Join(names, "_")
}
