package conformance_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/contract/conformance"
)

// anyObject is what a fuzzed text decodes to; its content is nil when that is no JSON object.
func anyObject(text []byte) *unstructured.Unstructured {
	var content map[string]any
	if err := utiljson.Unmarshal(text, &content); err != nil {
		return &unstructured.Unstructured{}
	}
	return &unstructured.Unstructured{Object: content}
}

func FuzzCheckCRD(f *testing.F) {
	const head = `"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition"`
	for _, text := range []string{
		`{}`, `null`, `[]`, `{` + head + `}`, `{` + head + `,"metadata":[],"spec":7}`,
		`{` + head + `,"metadata":{"labels":{"cluster.x-k8s.io/v1beta2":"v1"}},"spec":{"group":"g","names":{"kind":"K"},"versions":[null,{"name":"v1","served":true}]}}`,
		`{` + head + `,"metadata":{"labels":[]},"spec":{"names":{"kind":"y"},"group":"","versions":{"name":"v1"}}}`,
		`{` + head + `,"spec":{"versions":[{"name":"v1","served":true,"schema":{"openAPIV3Schema":{"properties":{"status":{"type":["a"],"properties":7}}}}}]}}`,
		`{` + head + `,"spec":{"versions":[{"name":"v1","served":true,"schema":{"openAPIV3Schema":{"properties":{"status":{"properties":{"conditions":{"type":"array","items":{"type":"object","required":7,"properties":{"status":{"type":"string","enum":[1,null,{}]}}}}}}}}}}]}}`,
	} {
		f.Add([]byte(text))
	}
	for role := range goodCRDs() {
		raw, err := json.Marshal(goodCRD(f, role).Object)
		require.NoError(f, err)
		f.Add(raw)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		crd := anyObject(text)
		before := crd.DeepCopy()
		for _, role := range append(conformance.Roles(), "") {
			report := conformance.CheckCRD(crd, role)
			require.Equal(t, report, conformance.CheckCRD(crd, role), "two looks see the same")
			sound(t, report)
		}
		require.Empty(t, cmp.Diff(before.Object, crd.Object), "looking changes nothing")
	})
}

func FuzzCheckObject(f *testing.F) {
	for _, text := range []string{
		`{}`, `null`, `[]`, `{"kind":7}`, `{"apiVersion":"a/b/c","kind":"FooMachine","metadata":{"name":["x"],"annotations":{"a":1}}}`,
		`{"spec":{"providerID":7,"failureDomain":null,"template":{"metadata":{"labels":{"a":1}},"spec":[]}},"status":{"ready":"x"}}`,
		`{"status":{"initialization":{"provisioned":true,"dataSecretCreated":true},"addresses":[{"type":"x","address":""}],"conditions":[null]}}`,
		`{"spec":{"providerIDList":["",7]},"status":{"ready":true,"replicas":1e30,"capacity":{"cpu":"x"},"nodeInfo":{"architecture":"z"}}}`,
		`{"status":{"v1beta2":{"conditions":[{"type":"Ready","status":"True","observedGeneration":1.5}]},"dataSecretName":"A b"}}`,
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		obj := anyObject(text)
		before := obj.DeepCopy()
		for _, role := range append(conformance.Roles(), "") {
			for _, version := range append(contract.AllVersions(), "v9") {
				report := conformance.CheckObject(obj, role, version)
				require.Equal(t, report, conformance.CheckObject(obj, role, version), "two looks see the same")
				sound(t, report)
			}
		}
		require.Empty(t, cmp.Diff(before.Object, obj.Object), "looking changes nothing")
	})
}

// sound checks what holds for every report.
func sound(t *testing.T, report conformance.Report) {
	t.Helper()
	for i, f := range report.Findings {
		if f.Path == "" || f.Found == "" || f.Want == "" || f.Rule == "" {
			t.Fatalf("finding %d says too little: %s", i, f)
		}
		if i > 0 && report.Findings[i-1].Level > f.Level {
			t.Fatalf("finding %d, a MUST, comes after a SHOULD", i)
		}
	}
	_, err := json.Marshal(report)
	require.NoError(t, err)
}
