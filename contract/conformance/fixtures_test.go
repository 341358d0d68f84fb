package conformance_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/yaml"

	"github.com/machinist-dev/machinist/contract/conformance"
)

// Schemas of conditions and addresses as controller-gen writes them, short of descriptions.
const (
	metav1Conditions = `{type: array, items: {type: object, required: [lastTransitionTime, message, reason, status, type], properties: {
		lastTransitionTime: {type: string, format: date-time}, message: {type: string}, observedGeneration: {type: integer, format: int64},
		reason: {type: string}, status: {type: string, enum: ["True", "False", Unknown]}, type: {type: string}}}}`
	oldConditions = `{type: array, items: {type: object, required: [lastTransitionTime, status, type], properties: {
		lastTransitionTime: {type: string, format: date-time}, message: {type: string}, reason: {type: string}, severity: {type: string},
		status: {type: string}, type: {type: string}}}}`
	addressList = `{type: array, items: {type: object, required: [address, type], properties: {
		address: {type: string}, type: {type: string, enum: [Hostname, ExternalIP, InternalIP, ExternalDNS, InternalDNS]}}}}`
	templateBody = `{type: object, properties: {spec: {type: object}, metadata: {type: object, properties: {
		labels: {type: object, additionalProperties: {type: string}}, annotations: {type: object, additionalProperties: {type: string}}}}}}`
)

// goodCRDs have no finding. Each has API version v1beta1 under contract v1beta1 and v1beta2 under v1beta2.
func goodCRDs() map[conformance.Role]string {
	return map[conformance.Role]string{
		conformance.InfraMachine: crdText("infrastructure.cluster.x-k8s.io", "FooMachine", `
      spec: {type: object, properties: {providerID: {type: string}, failureDomain: {type: string}}}
      status: {type: object, properties: {
        ready: {type: boolean}, addresses: `+addressList+`, failureReason: {type: string}, failureMessage: {type: string},
        conditions: `+oldConditions+`, v1beta2: {type: object, properties: {conditions: `+metav1Conditions+`}}}}`, `
      spec: {type: object, properties: {providerID: {type: string}}}
      status: {type: object, properties: {
        initialization: {type: object, properties: {provisioned: {type: boolean}}}, addresses: `+addressList+`,
        failureDomain: {type: string}, conditions: `+metav1Conditions+`}}`),
		conformance.BootstrapConfig: crdText("bootstrap.cluster.x-k8s.io", "FooConfig", `
      status: {type: object, properties: {ready: {type: boolean}, dataSecretName: {type: string}, conditions: `+oldConditions+`}}`, `
      status: {type: object, properties: {
        initialization: {type: object, properties: {dataSecretCreated: {type: boolean}}}, dataSecretName: {type: string},
        conditions: `+metav1Conditions+`}}`),
		conformance.InfraMachinePool: crdText("infrastructure.cluster.x-k8s.io", "FooMachinePool", `
      spec: {type: object, properties: {providerID: {type: string}, providerIDList: {type: array, items: {type: string}}}}
      status: {type: object, properties: {ready: {type: boolean}, replicas: {type: integer, format: int32}, conditions: `+oldConditions+`}}`, `
      spec: {type: object, properties: {providerIDList: {type: array, items: {type: string}}}}
      status: {type: object, properties: {
        initialization: {type: object, properties: {provisioned: {type: boolean}}}, ready: {type: boolean}, replicas: {type: integer},
        infrastructureMachineKind: {type: string}, instances: {type: array, items: {type: object, properties: {
          instanceName: {type: string}, providerID: {type: string}, ready: {type: boolean}, zone: {type: integer}, addresses: `+addressList+`}}},
        conditions: `+metav1Conditions+`}}`),
		conformance.InfraMachineTemplate: crdText("infrastructure.cluster.x-k8s.io", "FooMachineTemplate", `
      spec: {type: object, properties: {template: `+templateBody+`}}`, `
      spec: {type: object, properties: {template: `+templateBody+`}}
      status: {type: object, properties: {
        capacity: {type: object, additionalProperties: {anyOf: [{type: integer}, {type: string}], x-kubernetes-int-or-string: true}},
        nodeInfo: {type: object, properties: {architecture: {type: string, enum: [amd64, arm64]}, operatingSystem: {type: string}}}}}`),
		conformance.InfraMachinePoolTemplate: crdText("infrastructure.cluster.x-k8s.io", "FooMachinePoolTemplate", `
      spec: {type: object, properties: {template: `+templateBody+`}}`, `
      spec: {type: object, properties: {template: `+templateBody+`}}`),
		conformance.BootstrapConfigTemplate: crdText("bootstrap.cluster.x-k8s.io", "FooConfigTemplate", `
      spec: {type: object, properties: {template: `+templateBody+`}}`, `
      spec: {type: object, properties: {template: `+templateBody+`}}`),
	}
}

func crdText(group, kind, v1beta1, v1beta2 string) string {
	return `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: ` + crdName(group, kind) + `
  labels: {cluster.x-k8s.io/v1beta1: v1beta1, cluster.x-k8s.io/v1beta2: v1beta2}
spec:
  group: ` + group + `
  scope: Namespaced
  names: {kind: ` + kind + `, listKind: ` + kind + `List}
  versions:
  - name: v1beta1
    served: true
    subresources: {status: {}}
    schema: {openAPIV3Schema: {type: object}}
    properties:` + v1beta1 + `
  - name: v1beta2
    served: true
    subresources: {status: {}}
    schema: {openAPIV3Schema: {type: object}}
    properties:` + v1beta2 + `
`
}

func crdName(group, kind string) string {
	lower := []byte(kind)
	for i, c := range lower {
		if c >= 'A' && c <= 'Z' {
			lower[i] = c + 'a' - 'A'
		}
	}
	return string(lower) + "s." + group
}

// goodCRD returns a fresh copy to break.
func goodCRD(t testing.TB, role conformance.Role) *unstructured.Unstructured {
	t.Helper()
	text, ok := goodCRDs()[role]
	require.True(t, ok, "there is no CRD for %s", role)
	crd := parse(t, text)
	versions, _, err := unstructured.NestedSlice(crd.Object, "spec", "versions")
	require.NoError(t, err)
	for _, v := range versions { // properties stand one level too high, for the text to be readable
		version, ok := v.(map[string]any)
		require.True(t, ok)
		require.NoError(t, unstructured.SetNestedField(version, version["properties"], "schema", "openAPIV3Schema", "properties"))
		delete(version, "properties")
	}
	require.NoError(t, unstructured.SetNestedSlice(crd.Object, versions, "spec", "versions"))
	return crd
}

func parse(t testing.TB, text string) *unstructured.Unstructured {
	t.Helper()
	raw, err := yaml.YAMLToJSON([]byte(text))
	require.NoError(t, err)
	var content map[string]any
	require.NoError(t, utiljson.Unmarshal(raw, &content))
	return &unstructured.Unstructured{Object: content}
}

// edit changes one thing of a CRD.
type edit func(t *testing.T, crd map[string]any)

// set puts a YAML value at a place of the CRD.
func set(value string, path ...string) edit {
	return func(t *testing.T, crd map[string]any) {
		t.Helper()
		put(t, crd, value, path...)
	}
}

func unset(path ...string) edit {
	return func(t *testing.T, crd map[string]any) {
		t.Helper()
		unstructured.RemoveNestedField(crd, path...)
	}
}

// older and newer put a YAML value at a place of the schema of v1beta1 and v1beta2; an empty value removes what is there. The path is
// that of an object; "[]" goes into a list.
func older(value string, path ...string) edit { return inVersion("v1beta1", value, inSchema(path)...) }

func newer(value string, path ...string) edit { return inVersion("v1beta2", value, inSchema(path)...) }

func inSchema(path []string) []string {
	keys := []string{"schema", "openAPIV3Schema"}
	for _, key := range path {
		if key == "[]" {
			keys = append(keys, "items")
			continue
		}
		keys = append(keys, "properties", key)
	}
	return keys
}

// inVersion puts a YAML value at a place of an API version; an empty value removes what is there.
func inVersion(version, value string, path ...string) edit {
	return func(t *testing.T, crd map[string]any) {
		t.Helper()
		versions, _, err := unstructured.NestedFieldNoCopy(crd, "spec", "versions")
		require.NoError(t, err)
		list, _ := versions.([]any)
		for _, entry := range list {
			v, _ := entry.(map[string]any)
			if v["name"] != any(version) {
				continue
			}
			if value == "" {
				unstructured.RemoveNestedField(v, path...)
				return
			}
			put(t, v, value, path...)
			return
		}
		t.Fatalf("the CRD has no version %s", version)
	}
}

func put(t *testing.T, obj map[string]any, value string, path ...string) {
	t.Helper()
	wrapped := parse(t, "value: "+value)
	require.NoError(t, unstructured.SetNestedField(obj, wrapped.Object["value"], path...))
}
