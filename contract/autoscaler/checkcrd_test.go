package autoscaler_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/machinist-dev/machinist/contract/autoscaler"
)

// clusterAPI is downloaded and never required, because it pins other versions of Kubernetes.
const clusterAPI = "sigs.k8s.io/cluster-api@v1.13.6"

// clusterAPICRD reads one of Cluster API's own CRDs.
func clusterAPICRD(t *testing.T, plural string) *unstructured.Unstructured {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "mod", "download", "-json", clusterAPI)
	cmd.Dir = t.TempDir() // outside this module, whose go.sum must stay as it is
	out, err := cmd.Output()
	require.NoError(t, err, "%s", out)
	var module struct{ Dir string }
	require.NoError(t, json.Unmarshal(out, &module))
	text, err := os.ReadFile(filepath.Join(module.Dir, "config/crd/bases/cluster.x-k8s.io_"+plural+".yaml"))
	require.NoError(t, err)
	return parse(t, string(text))
}

func TestCheckCRD_FindsNothingInClusterAPIsOwn(t *testing.T) {
	for _, plural := range []string{"machinesets", "machinedeployments", "machinepools", "machines"} {
		t.Run(plural, func(t *testing.T) {
			crd := clusterAPICRD(t, plural)
			before := crd.DeepCopy()
			require.Empty(t, short(autoscaler.CheckCRD(autoscaler.DefaultKeys(), crd)))
			require.Equal(t, before, crd)
		})
	}
}

const crdYAML = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: machinesets.cluster.k8s.io}
spec:
  group: cluster.k8s.io
  scope: Namespaced
  names: {kind: MachineSet, plural: machinesets}
  versions:
    - name: v1
      served: true
      storage: true
      subresources: {status: {}, scale: {
        specReplicasPath: .spec.replicas, statusReplicasPath: .status.replicas, labelSelectorPath: .status.selector}}
      schema:
        openAPIV3Schema:
          type: object
          properties:
            spec:
              type: object
              properties:
                replicas: {type: integer}
                clusterName: {type: string}
                selector: {type: object}
                template: {type: object, x-kubernetes-preserve-unknown-fields: true}
            status: {type: object, properties: {replicas: {type: integer}}}
    - {name: v0, served: false, storage: false}
`

func TestCheckCRD_OneThingWrong(t *testing.T) {
	crd := parse(t, crdYAML)
	// version changes the first version.
	version := func(place string, value any) *unstructured.Unstructured {
		versions, _, err := unstructured.NestedSlice(crd.Object, "spec", "versions")
		require.NoError(t, err)
		first, ok := versions[0].(map[string]any)
		require.True(t, ok)
		versions[0] = with(t, &unstructured.Unstructured{Object: first}, place, value).Object
		return with(t, crd, "spec/versions", versions)
	}
	const v1, scale = "spec.versions[v1]: ", "spec.versions[v1].subresources.scale"
	const specProperties = "schema/openAPIV3Schema/properties/spec/properties/"
	tests := map[string]struct {
		crd  *unstructured.Unstructured
		want []string
	}{
		"nothing wrong": {crd: crd},
		"no object":     {crd: nil, want: []string{`MUST kind: found nothing, want CustomResourceDefinition`}},
		"no CRD":        {crd: parse(t, machineSetYAML), want: []string{`MUST kind: found nothing, want CustomResourceDefinition`}},
		"another kind": {crd: with(t, crd, "spec/names/kind", "NodeClaim"),
			want: []string{`MUST spec.names.kind: found "NodeClaim", want MachineSet, MachineDeployment or MachinePool, or Machine`}},
		"another group": {crd: with(t, crd, "spec/group", "example.com"),
			want: []string{`MUST spec.group: found "example.com", want "cluster.k8s.io"`}},
		"another plural": {crd: with(t, crd, "spec/names/plural", "sets"),
			want: []string{`MUST spec.names.plural: found "sets", want "machinesets"`}},
		"another scope": {crd: with(t, crd, "spec/scope", "Cluster"),
			want: []string{`MUST spec.scope: found "Cluster", want "Namespaced"`}},
		"a group of another type": {crd: with(t, crd, "spec/group", true), want: []string{`MUST spec.group: found bool, want string`}},
		"versions of another type": {crd: with(t, crd, "spec/versions", "v1"),
			want: []string{`MUST spec.versions: found string, want list`}},
		"no served version": {crd: version("served", false),
			want: []string{`MUST spec.versions: found no served version, want one`}},
		"no scale subresource": {crd: version("subresources", nil),
			want: []string{`MUST ` + scale + `: found nothing, want specReplicasPath .spec.replicas and statusReplicasPath .status.replicas`}},
		"another path of replicas": {crd: version("subresources/scale/specReplicasPath", ".spec.size"),
			want: []string{`MUST ` + scale + `.specReplicasPath: found ".spec.size", want .spec.replicas`}},
		"another path of the status": {crd: version("subresources/scale/statusReplicasPath", nil),
			want: []string{`MUST ` + scale + `.statusReplicasPath: found nothing, want .status.replicas`}},
		"no path of the selector": {crd: version("subresources/scale/labelSelectorPath", nil),
			want: []string{`SHOULD ` + scale + `.labelSelectorPath: found nothing, want the path of a text, as .status.selector`}},
		"replicas are pruned": {crd: version(specProperties+"replicas", nil),
			want: []string{`MUST ` + v1 + `spec.replicas: found nothing, want integer`}},
		"replicas are text": {crd: version(specProperties+"replicas/type", "string"),
			want: []string{`MUST ` + v1 + `spec.replicas: found string, want integer`}},
		"the selector is pruned": {crd: version(specProperties+"selector", nil),
			want: []string{`MUST ` + v1 + `spec.selector: found nothing, want object`}},
		"the name of the Cluster is pruned": {crd: version(specProperties+"clusterName", nil),
			want: []string{`SHOULD ` + v1 + `spec.clusterName: found nothing, want string`}},
		"the template is pruned": {crd: version(specProperties+"template", map[string]any{"type": "object"}), want: []string{
			`SHOULD ` + v1 + `spec.template.spec.infrastructureRef.kind: found nothing, want string`,
			`SHOULD ` + v1 + `spec.template.spec.infrastructureRef.name: found nothing, want string`}},
		"a schema of another type": {crd: version("schema/openAPIV3Schema", "x"),
			want: []string{`MUST ` + v1 + `schema.openAPIV3Schema: found string, want object`}},
		"a pool needs its list": {crd: with(t, with(t, crd, "spec/names/kind", "MachinePool"), "spec/names/plural", "machinepools"),
			want: []string{`MUST ` + v1 + `spec.providerIDList: found nothing, want array`}},
		"a Machine needs other fields, and no scale": {
			crd: with(t, with(t, version("subresources", nil), "spec/names/kind", "Machine"), "spec/names/plural", "machines"), want: []string{
				`MUST ` + v1 + `spec.providerID: found nothing, want string`, `MUST ` + v1 + `status.nodeRef: found nothing, want object`}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			require.ElementsMatch(t, tc.want, short(autoscaler.CheckCRD(autoscaler.KeysFor("cluster.k8s.io"), tc.crd)))
		})
	}
}
