package autoscaler_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/machinist-dev/machinist/contract/conformance"
)

// parse reads an object from YAML, with the integer types of a decoder of Kubernetes.
func parse(t testing.TB, text string) *unstructured.Unstructured {
	t.Helper()
	content, err := yaml.YAMLToJSON([]byte(strings.ReplaceAll(text, "\t", "  ")))
	require.NoError(t, err)
	obj := &unstructured.Unstructured{}
	require.NoError(t, obj.UnmarshalJSON(content))
	return obj
}

// with returns a copy in which each place holds another value; nil removes it. Places are written with slashes, and keys with
// slashes of their own come as a separate text: with(obj, "metadata/annotations", "a/b", value).
func with(t testing.TB, obj *unstructured.Unstructured, place string, more ...any) *unstructured.Unstructured {
	t.Helper()
	changed := obj.DeepCopy()
	segments := strings.Split(place, "/")
	if len(more) == 2 {
		key, ok := more[0].(string)
		require.True(t, ok)
		segments = append(segments, key)
	}
	value := more[len(more)-1]
	if value == nil {
		unstructured.RemoveNestedField(changed.Object, segments...)
		return changed
	}
	require.NoError(t, unstructured.SetNestedField(changed.Object, value, segments...))
	return changed
}

// short leaves the rule out of findings: it is prose.
func short(findings []conformance.Finding) []string {
	var lines []string
	for _, f := range findings {
		line, _, _ := strings.Cut(f.String(), " ("+f.Rule+")")
		lines = append(lines, line)
	}
	return lines
}

const machineSetYAML = `
apiVersion: cluster.x-k8s.io/v1beta2
kind: MachineSet
metadata:
  namespace: default
  name: workers
  labels: {cluster.x-k8s.io/cluster-name: blue}
  annotations:
    cluster.x-k8s.io/cluster-api-autoscaler-node-group-min-size: "1"
    cluster.x-k8s.io/cluster-api-autoscaler-node-group-max-size: "5"
spec:
  clusterName: blue
  replicas: 2
  selector: {matchLabels: {set: workers}}
  template:
    metadata: {labels: {set: workers, node-role.kubernetes.io/worker: ""}}
    spec:
      clusterName: blue
      taints: [{key: dedicated, value: batch, effect: NoSchedule, propagation: Always}]
      infrastructureRef: {apiGroup: infrastructure.example.com, kind: ExampleMachineTemplate, name: workers}
status: {replicas: 2, readyReplicas: 2}
`

const templateYAML = `
apiVersion: infrastructure.example.com/v1
kind: ExampleMachineTemplate
metadata: {namespace: default, name: workers}
status:
  capacity: {cpu: "4", memory: 16Gi, nvidia.com/gpu: "1"}
  nodeInfo: {architecture: arm64, operatingSystem: linux}
`

const machineYAML = `
apiVersion: cluster.x-k8s.io/v1beta2
kind: Machine
metadata:
  namespace: default
  name: workers-a
  labels: {set: workers}
  ownerReferences: [{apiVersion: cluster.x-k8s.io/v1beta2, kind: MachineSet, name: workers, uid: u, controller: true}]
spec: {clusterName: blue, providerID: "example://eu/1"}
status: {phase: Running, nodeRef: {name: node-a}}
`
