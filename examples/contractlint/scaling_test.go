package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// deployment returns a MachineDeployment that scales from zero by its annotations.
func deployment(annotations string) string {
	return `
apiVersion: cluster.x-k8s.io/v1beta2
kind: MachineDeployment
metadata:
  namespace: default
  name: workers
  annotations: {` + annotations + `}
spec:
  clusterName: blue
  replicas: 0
  selector: {matchLabels: {pool: workers}}
  template:
    metadata: {labels: {cluster.x-k8s.io/cluster-name: blue, pool: workers}}
    spec:
      clusterName: blue
      infrastructureRef: {apiGroup: infrastructure.cluster.x-k8s.io, kind: FooMachineTemplate, name: large}
`
}

const (
	sizes = "cluster.x-k8s.io/cluster-api-autoscaler-node-group-min-size: '0', " +
		"cluster.x-k8s.io/cluster-api-autoscaler-node-group-max-size: '5'"
	capacity = "capacity.cluster-autoscaler.kubernetes.io/cpu: '4', capacity.cluster-autoscaler.kubernetes.io/memory: 16Gi"
)

// template returns an infrastructure template that says what its machines offer.
const template = `
apiVersion: infrastructure.cluster.x-k8s.io/v1
kind: FooMachineTemplate
metadata: {namespace: default, name: large}
spec: {template: {spec: {}}}
status: {capacity: {cpu: '4', memory: 16Gi}, nodeInfo: {architecture: arm64, operatingSystem: linux}}
`

func scaledWith(t *testing.T, stdin string, args ...string) []string {
	t.Helper()
	got := lintWith(stdin, append(args, "-o", "json", "-")...)
	require.Empty(t, got.errors)
	var findings []string
	for _, c := range decoded(t, got.out).Checked {
		if c.As != asScalable && c.As != asMember {
			continue
		}
		for _, f := range c.Findings {
			findings = append(findings, f.Level.String()+" "+f.Path)
		}
	}
	return findings
}

func TestScaling_AGroupIsJudgedByItsAnnotationsAndItsTemplate(t *testing.T) {
	const memory = "metadata.annotations.capacity.cluster-autoscaler.kubernetes.io/memory"
	for name, c := range map[string]struct {
		stdin string
		want  []string
	}{
		"sizes and capacity in annotations": {stdin: deployment(sizes + ", " + capacity)},
		"capacity in the template":          {stdin: deployment(sizes) + "---" + template},
		"a template that was not looked at": {stdin: deployment(sizes), want: []string{
			"SHOULD metadata.annotations.capacity.cluster-autoscaler.kubernetes.io/cpu", "SHOULD " + memory}},
		"a template without memory": {
			stdin: deployment(sizes) + "---" + strings.Replace(template, ", memory: 16Gi", "", 1),
			want:  []string{"MUST " + memory}},
		"a template of another namespace": {
			stdin: deployment(sizes) + "---" + strings.Replace(template, "namespace: default", "namespace: other", 1),
			want:  []string{"SHOULD metadata.annotations.capacity.cluster-autoscaler.kubernetes.io/cpu", "SHOULD " + memory}},
		"a size that is no number": {
			stdin: deployment(strings.Replace(sizes, "'5'", "many", 1) + ", " + capacity),
			want:  []string{"MUST metadata.annotations.cluster.x-k8s.io/cluster-api-autoscaler-node-group-max-size"}},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, c.want, scaledWith(t, c.stdin, "-autoscaler", "cluster.x-k8s.io"))
		})
	}
}

func TestScaling_MachinesInTheInputAreJudgedWithTheirGroup(t *testing.T) {
	machine := func(providerID string) string {
		return `
apiVersion: cluster.x-k8s.io/v1beta2
kind: Machine
metadata: {namespace: default, name: workers-` + providerID + `, labels: {cluster.x-k8s.io/cluster-name: blue, pool: workers},
  ownerReferences: [{apiVersion: cluster.x-k8s.io/v1beta2, kind: MachineDeployment, name: workers, uid: x, controller: true}]}
spec: {clusterName: blue, providerID: "example://one"}
`
	}
	got := lintWith(deployment(sizes+", "+capacity)+"---"+machine("a")+"---"+machine("b"), "-autoscaler", "cluster.x-k8s.io", "-")
	require.Contains(t, got.out, "MachineDeployment default/workers as what cluster-autoscaler scales")
	require.Contains(t, got.out, `"one" also in Machine default/workers-b`, "two Machines have the same provider ID")
	require.Contains(t, got.out, "1 CRD or object checked")
}

func TestScaling_ShowsWhatTheAutoscalerMakesOfAGroup(t *testing.T) {
	standing := func(stdin string) string {
		got := lintWith(stdin, "-autoscaler", "cluster.x-k8s.io", "-")
		_, after, found := strings.Cut(got.out, "ok ")
		require.True(t, found, got.out)
		line, _, _ := strings.Cut(after, "\n")
		return "ok " + strings.Join(strings.Fields(line), " ")
	}
	require.Equal(t, "ok standing (group), a new Node (cpu 4, memory 16Gi, pods 110)", standing(deployment(sizes+", "+capacity)))
	require.Equal(t, "ok standing (hidden)", standing(deployment(sizes)))
	require.Equal(t, "ok standing (unscaled)", standing(deployment("")))

	old := `
apiVersion: cluster.x-k8s.io/v1beta2
kind: MachineSet
metadata:
  namespace: default
  name: workers-1
  labels: {cluster.x-k8s.io/deployment-name: workers}
  ownerReferences: [{apiVersion: cluster.x-k8s.io/v1beta2, kind: MachineDeployment, name: workers, uid: x, controller: true}]
spec: {replicas: 1}
`
	require.Equal(t, "ok standing (hidden), Nodes (none is removed during the rollout)", standing(deployment(sizes)+"---"+old))
}

func TestScaling_ACRDNeedsTheScaleSubresource(t *testing.T) {
	bare := strings.NewReplacer("infrastructure.cluster.x-k8s.io", "machines.example.com", "foosets", "machinesets", "FooSet", "MachineSet").
		Replace(crd("FooSet", ""))
	findings := scaledWith(t, bare, "-autoscaler", "machines.example.com")
	require.Contains(t, findings, "MUST spec.versions[v1].subresources.scale")
	require.Empty(t, scaledWith(t, bare, "-autoscaler", "cluster.x-k8s.io"), "another group is not judged")
	require.Empty(t, scaledWith(t, bare), "the autoscaler was not asked about")
}

func TestScaling_AFindingIsABrokenRule(t *testing.T) {
	broken := deployment(strings.Replace(sizes, "'5'", "many", 1))
	require.Equal(t, exitBroken, lintWith(broken, "-autoscaler", "cluster.x-k8s.io", "-").code)
	require.Equal(t, exitUsage, lintWith(broken, "-").code, "without the flag there is nothing to judge")
}
