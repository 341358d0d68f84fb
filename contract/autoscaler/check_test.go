package autoscaler_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/contract/autoscaler"
	"github.com/machinist-dev/machinist/contract/conformance"
)

const (
	minPath = "metadata.annotations." + minKey
	maxPath = "metadata.annotations." + maxKey
	cpuPath = "metadata.annotations." + prefix + "cpu"
	memPath = "metadata.annotations." + prefix + "memory"
)

// ofKind turns the fixture into another kind of the same group.
func ofKind(t *testing.T, kind string) *unstructured.Unstructured {
	t.Helper()
	group := with(t, parse(t, machineSetYAML), "kind", kind)
	if kind == "MachinePool" {
		group = with(t, group, "spec/selector", nil)
		group = with(t, group, "spec/providerIDList", []any{"example://eu/1", "example://eu/2"})
	}
	return group
}

func TestCheck_FindsNothingInGroupsThatMeetTheContract(t *testing.T) {
	sized := func(group *unstructured.Unstructured) *unstructured.Unstructured {
		group = with(t, group, "metadata/annotations", prefix+"cpu", "4")
		return with(t, group, "metadata/annotations", prefix+"memory", "16Gi")
	}
	atZero := func(group *unstructured.Unstructured) *unstructured.Unstructured {
		group = with(t, with(t, group, "spec/replicas", int64(0)), "metadata/annotations", minKey, "0")
		return with(t, group, "status", nil)
	}
	for _, kind := range []string{"MachineSet", "MachineDeployment", "MachinePool"} {
		group := ofKind(t, kind)
		v1beta1 := with(t, group, "spec/template/spec/infrastructureRef", map[string]any{"apiVersion": "infrastructure.example.com/v1",
			"kind": "ExampleMachineTemplate", "name": "workers", "namespace": "default"})
		tests := map[string]struct {
			group  *unstructured.Unstructured
			around autoscaler.Around
		}{
			"between its bounds":                            {group: group},
			"with a reference of v1beta1":                   {group: v1beta1},
			"without a template, as a Node is always there": {group: with(t, group, "spec/template/spec/infrastructureRef", nil)},
			"at zero with annotations":                      {group: atZero(sized(group))},
			"at zero with a template":                       {group: atZero(group), around: autoscaler.Around{Template: parse(t, templateYAML)}},
			"with empty lists around it": {group: group,
				around: autoscaler.Around{Machines: []*unstructured.Unstructured{}, MachineSets: []*unstructured.Unstructured{}}},
			"named by the label alone": {group: with(t, group, "spec/clusterName", nil)},
		}
		for name, tc := range tests {
			t.Run(kind+" "+name, func(t *testing.T) {
				before := tc.group.DeepCopy()
				require.Empty(t, short(autoscaler.Check(autoscaler.DefaultKeys(), tc.group, tc.around)))
				require.Equal(t, before, tc.group)
			})
		}
	}
}

func TestCheck_OfAnotherAPIGroup(t *testing.T) {
	group := with(t, ofKind(t, "MachineDeployment"), "apiVersion", "cluster.k8s.io/v1alpha1")
	group = with(t, group, "metadata/annotations", map[string]any{
		"cluster.k8s.io/cluster-api-autoscaler-node-group-min-size": "1", "cluster.k8s.io/cluster-api-autoscaler-node-group-max-size": "5"})
	group = with(t, with(t, group, "metadata/labels", map[string]any{"cluster.k8s.io/cluster-name": "blue"}), "spec/clusterName", nil)
	require.Empty(t, short(autoscaler.Check(autoscaler.KeysFor("cluster.k8s.io"), group, autoscaler.Around{})))
	require.ElementsMatch(t, []string{
		`MUST apiVersion: found "cluster.k8s.io/v1alpha1", want a version of group cluster.x-k8s.io`,
		`SHOULD ` + maxPath + `: found nothing, want a whole number above 0`,
		`SHOULD spec.clusterName: found nothing, want the name of the Cluster, here or in the label cluster.x-k8s.io/cluster-name`,
	}, short(autoscaler.Check(autoscaler.Keys{}, group, autoscaler.Around{})))
}

func TestCheck_OneThingWrong(t *testing.T) {
	group := ofKind(t, "MachineDeployment")
	set := func(place string, more ...any) *unstructured.Unstructured { return with(t, group, place, more...) }
	annotate := func(key, value string) *unstructured.Unstructured { return set("metadata/annotations", key, value) }
	ref := func(key string, value any) *unstructured.Unstructured {
		return set("spec/template/spec/infrastructureRef", key, value)
	}
	tests := map[string]struct {
		group *unstructured.Unstructured
		want  []string
	}{
		"no object": {group: nil, want: []string{`MUST kind: found nothing, want MachineSet, MachineDeployment or MachinePool`}},
		"a kind that is never scaled": {group: set("kind", "MachineDeployments"),
			want: []string{`MUST kind: found "MachineDeployments", want MachineSet, MachineDeployment or MachinePool`}},
		"a group of its own": {group: set("apiVersion", "example.com/v1"),
			want: []string{`MUST apiVersion: found "example.com/v1", want a version of group cluster.x-k8s.io`}},
		"an annotation that is no text": {group: set("metadata/annotations", "other", int64(1)), want: []string{
			`MUST metadata.annotations.other: found integer, want string`,
			`SHOULD ` + maxPath + `: found nothing, want a whole number above 0`}},
		"a label that is no text": {group: set("metadata/labels", "other", true),
			want: []string{`MUST metadata.labels.other: found bool, want string`}},

		"a minimum that is no number": {group: annotate(minKey, "one"),
			want: []string{`MUST ` + minPath + `: found "one", want a whole number from 0`}},
		"a minimum above the maximum": {group: annotate(minKey, "6"),
			want: []string{`MUST ` + maxPath + `: found "5", want at least the minimum size, 6`}},
		"a minimum without a maximum": {group: set("metadata/annotations", maxKey, nil),
			want: []string{`MUST ` + maxPath + `: found nothing, want at least the minimum size, 1`}},
		"a maximum beyond 32 bits": {group: annotate(maxKey, "5000000000"),
			want: []string{`SHOULD ` + maxPath + `: found 5000000000, want a number of at most 32 bits`}},
		"a maximum alone": {group: set("metadata/annotations", minKey, nil),
			want: []string{`SHOULD ` + minPath + `: found nothing, want a minimum size beside the maximum`}},
		"a maximum of zero": {group: with(t, annotate(maxKey, "0"), "metadata/annotations", minKey, "0"),
			want: []string{`SHOULD ` + maxPath + `: found "0", want a whole number above 0`}},
		"a group that may lose its last Node": {group: with(t, annotate(minKey, "0"), "spec/template/spec/infrastructureRef", nil),
			want: []string{
				`SHOULD ` + cpuPath + `: found nothing, want a quantity, here or in status.capacity.cpu of the infrastructure template`,
				`SHOULD ` + memPath + `: found nothing, want a quantity, here or in status.capacity.memory of the infrastructure template`}},
		"a group that may lose its last Node, and a template that may know": {group: annotate(minKey, "0")},
		"replicas above the maximum": {group: set("spec/replicas", int64(6)),
			want: []string{`SHOULD spec.replicas: found 6, want a size from 1 to 5`}},
		"no replicas": {group: set("spec/replicas", nil),
			want: []string{`MUST spec.replicas: found nothing, want an integer, written back by a default when the author left it out`}},
		"replicas of another type": {group: set("spec/replicas", "2"),
			want: []string{`MUST spec.replicas: found string, want integer`}},
		"replicas below zero": {group: set("spec/replicas", int64(-1)),
			want: []string{`MUST spec.replicas: found -1, want an integer from 0`}},
		"a pause": {group: annotate(contract.PausedAnnotation, "true"),
			want: []string{`SHOULD metadata.annotations.cluster.x-k8s.io/paused: found "true", want no such annotation`}},
		"no Cluster": {
			group: with(t, set("metadata/labels", nil), "spec/clusterName", nil),
			want:  []string{`SHOULD spec.clusterName: found nothing, want the name of the Cluster, here or in the label cluster.x-k8s.io/cluster-name`}},
		"a Cluster without a name": {group: set("spec/clusterName", ""),
			want: []string{`SHOULD spec.clusterName: found "", want the name of the Cluster, or no field beside the label cluster.x-k8s.io/cluster-name`}},
		"a Cluster of another type": {group: set("spec/clusterName", true),
			want: []string{`SHOULD spec.clusterName: found bool, want string`}},
		"two Clusters": {group: set("spec/clusterName", "red"),
			want: []string{`SHOULD metadata.labels.cluster.x-k8s.io/cluster-name: found "blue", want "red", as in spec.clusterName`}},
		"no selector": {group: set("spec/selector", nil),
			want: []string{`MUST spec.selector: found nothing, want object`}},
		"a selector of another type": {group: set("spec/selector", "set=workers"),
			want: []string{`MUST spec.selector: found string, want object`}},
		"a selector of everything": {group: set("spec/selector", map[string]any{}),
			want: []string{`MUST spec.selector: found a selector of everything, want one that selects the Machines of this group only`}},
		"a selector with a bad label": {group: set("spec/selector/matchLabels", map[string]any{"a b": "c"}),
			want: []string{`MUST spec.selector.matchLabels: found "a b=c", want valid labels`}},
		"a selector of numbers": {
			group: set("spec/selector/matchLabels", map[string]any{"a": int64(1)}),
			want:  []string{`MUST spec.selector.matchLabels.a: found integer, want string`}},
		"expressions of another shape": {group: set("spec/selector/matchExpressions", "a in (b)"),
			want: []string{`MUST spec.selector.matchExpressions: found another shape, want a list of key, operator and values`}},
		"an expression with a bad operator": {
			group: set("spec/selector/matchExpressions", []any{map[string]any{"key": "a", "operator": "Is"}}),
			want:  []string{`MUST spec.selector.matchExpressions[0]: found "\"Is\" is not a valid label selector operator", want a valid requirement`}},
		"an option that cannot be read": {group: annotate("cluster.x-k8s.io/autoscaling-options-maxnodeprovisiontime", "20"),
			want: []string{`SHOULD metadata.annotations.cluster.x-k8s.io/autoscaling-options-maxnodeprovisiontime: found "20", want a duration from 0, as in "10m" or "1h30m"`}},

		"a capacity that cannot be read": {group: annotate(prefix+"cpu", "four"),
			want: []string{`SHOULD ` + cpuPath + `: found "four", want a quantity, as in "4", "500m" or "16Gi"`}},
		"a taint that cannot be": {group: annotate(prefix+"taints", "a=b"),
			want: []string{`SHOULD metadata.annotations.` + prefix + `taints: found "a=b" (entry 1), want key=value:Effect or key:Effect`}},
		"a taint of the template that cannot be": {group: set("spec/template/spec/taints", []any{map[string]any{"key": "a", "effect": "Never"}}),
			want: []string{`SHOULD spec.template.spec.taints[0]: found "a:Never", want a taint with effect NoSchedule, PreferNoSchedule or NoExecute`}},
		"taints of another type": {group: set("spec/template/spec/taints", "x"),
			want: []string{`SHOULD spec.template.spec.taints: found string, want list`}},
		"a reference that is not flat": {group: ref("more", map[string]any{}),
			want: []string{`SHOULD spec.template.spec.infrastructureRef.more: found object, want string`}},
		"a reference without a kind": {group: ref("kind", nil),
			want: []string{`SHOULD spec.template.spec.infrastructureRef.kind: found nothing, want a text`}},
		"a reference without a name": {group: ref("name", ""),
			want: []string{`SHOULD spec.template.spec.infrastructureRef.name: found nothing, want a text`}},
		"a reference without a group": {group: ref("apiGroup", nil),
			want: []string{`SHOULD spec.template.spec.infrastructureRef.apiGroup: found nothing, want the API group, or apiVersion instead of it`}},
		"a reference with an empty group": {group: with(t, ref("apiGroup", ""), "spec/template/spec/infrastructureRef", "apiVersion", "a/v1"),
			want: []string{`SHOULD spec.template.spec.infrastructureRef.apiGroup: found nothing, want the API group, or apiVersion instead of it`}},
		"a reference to another namespace": {group: ref("namespace", "other"),
			want: []string{`SHOULD spec.template.spec.infrastructureRef.namespace: found "other", want "default"`}},
		"a kind with another plural": {group: ref("kind", "Box"),
			want: []string{`SHOULD spec.template.spec.infrastructureRef.kind: found "Box", want a kind whose plural is made by an s`}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got := short(autoscaler.Check(autoscaler.DefaultKeys(), tc.group, autoscaler.Around{}))
			require.ElementsMatch(t, tc.want, got)
		})
	}
}

func TestCheck_WithoutAMaximumSizeOnlyWhatStopsTheClusterIsAMust(t *testing.T) {
	group := with(t, ofKind(t, "MachineDeployment"), "metadata/annotations", nil)
	group = with(t, with(t, group, "spec/selector", nil), "spec/replicas", nil)
	for _, f := range autoscaler.Check(autoscaler.DefaultKeys(), group, autoscaler.Around{}) {
		require.Equal(t, conformance.Should, f.Level, f.String())
	}
	group = with(t, group, "spec/replicas", "2")
	require.Contains(t, short(autoscaler.Check(autoscaler.DefaultKeys(), group, autoscaler.Around{})),
		"MUST spec.replicas: found string, want integer")
}

func TestCheck_AtZeroReplicas(t *testing.T) {
	group := with(t, with(t, ofKind(t, "MachineDeployment"), "spec/replicas", int64(0)), "metadata/annotations", minKey, "0")
	template := parse(t, templateYAML)
	const want = ", want a quantity, here or in status.capacity."
	tests := map[string]struct {
		group    *unstructured.Unstructured
		template *unstructured.Unstructured
		want     []string
	}{
		"nothing is known": {group: with(t, group, "spec/template/spec/infrastructureRef", nil), want: []string{
			`MUST ` + cpuPath + `: found nothing` + want + `cpu of the infrastructure template`,
			`MUST ` + memPath + `: found nothing` + want + `memory of the infrastructure template`}},
		"the template was not looked at": {group: group, want: []string{
			`SHOULD ` + cpuPath + `: found nothing, and the infrastructure template was not looked at` + want + `cpu of the infrastructure template`,
			`SHOULD ` + memPath + `: found nothing, and the infrastructure template was not looked at` + want +
				`memory of the infrastructure template`}},
		"the template knows one of two": {group: group, template: with(t, template, "status/capacity/memory", nil), want: []string{
			`MUST ` + memPath + `: found nothing` + want + `memory of the infrastructure template`}},
		"the template is dropped": {group: with(t, group, "metadata/annotations", prefix+"memory", "1Gi"),
			template: with(t, template, "status/capacity/cpu", int64(4)), want: []string{
				`SHOULD ExampleMachineTemplate default/workers: status.capacity.cpu: found integer, want string`,
				`MUST ` + cpuPath + `: found nothing` + want + `cpu of the infrastructure template`}},
		"a bad annotation hides the template": {group: with(t, group, "metadata/annotations", prefix+"cpu", "four"), template: template,
			want: []string{
				`MUST ` + cpuPath + `: found "four", want a quantity, as in "4", "500m" or "16Gi"`}},
		"the reference cannot be followed": {group: with(t, group, "spec/template/spec/infrastructureRef/name", nil), want: []string{
			`MUST spec.template.spec.infrastructureRef.name: found nothing, want a text`,
			`MUST ` + cpuPath + `: found nothing` + want + `cpu of the infrastructure template`,
			`MUST ` + memPath + `: found nothing` + want + `memory of the infrastructure template`}},
		"the template's pods are not asked for": {group: group, template: with(t, template, "status/capacity/pods", "250"), want: []string{
			`SHOULD ExampleMachineTemplate default/workers: status.capacity.pods: found 250, want the number in annotation ` + prefix +
				`maxPods of the group`}},
		"the template has no architecture": {group: group, template: with(t, template, "status/nodeInfo/architecture", nil), want: []string{
			`SHOULD ExampleMachineTemplate default/workers: status.nodeInfo.architecture: found nothing, want a value, here or as label kubernetes.io/arch in annotation ` + prefix + `labels`}},
		"the annotation has the architecture": {group: with(t, group, "metadata/annotations", prefix+"labels", "kubernetes.io/arch=arm64"),
			template: with(t, template, "status/nodeInfo/architecture", nil)},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			require.ElementsMatch(t, tc.want, short(autoscaler.Check(autoscaler.DefaultKeys(), tc.group, autoscaler.Around{Template: tc.template})))
		})
	}
}

func TestCheck_OrdersMustBeforeShouldAndBoundsWhatIsAlike(t *testing.T) {
	ids := make([]any, 0, 100000)
	for i := range 100000 {
		ids = append(ids, int64(i))
	}
	pool := with(t, with(t, ofKind(t, "MachinePool"), "spec/providerIDList", ids), "spec/replicas", int64(9))
	findings := autoscaler.Check(autoscaler.DefaultKeys(), pool, autoscaler.Around{})
	require.Len(t, findings, 12)
	require.Equal(t, "integer, and the like at 99989 more places", findings[10].Found)
	require.Equal(t, conformance.Should, findings[11].Level)
	if diff := cmp.Diff(findings, autoscaler.Check(autoscaler.DefaultKeys(), pool, autoscaler.Around{})); diff != "" {
		t.Errorf("the second time (-first +second):\n%s", diff)
	}
	for _, f := range findings {
		require.Less(t, len(f.String()), 500)
	}
}

func TestCheck_FindingsOfAMachineSetOfADeployment(t *testing.T) {
	set := with(t, parse(t, machineSetYAML), "metadata/ownerReferences", []any{map[string]any{"kind": "MachineDeployment", "name": "d"}})
	set = with(t, set, "metadata/labels", autoscaler.DeploymentNameLabel, "d")
	set = with(t, set, "metadata/annotations", autoscaler.RevisionAnnotation, "3")
	const revision = "metadata.annotations." + autoscaler.RevisionAnnotation
	tests := map[string]struct {
		set  *unstructured.Unstructured
		want []string
	}{
		"it meets the contract":                      {set: set},
		"it is no group, so that its sizes are free": {set: with(t, set, "metadata/annotations", minKey, "x")},
		"and so are its replicas and selector":       {set: with(t, with(t, set, "spec/replicas", nil), "spec/selector", nil)},
		"no revision": {set: with(t, set, "metadata/annotations", autoscaler.RevisionAnnotation, nil),
			want: []string{`MUST ` + revision + `: found nothing, want a whole number in plain decimal digits, from its creation on`}},
		"a revision that is no number": {set: with(t, set, "metadata/annotations", autoscaler.RevisionAnnotation, "v3"),
			want: []string{`MUST ` + revision + `: found "v3", want a whole number in plain decimal digits, from its creation on`}},
		"a revision that is not compared as a number": {set: with(t, set, "metadata/annotations", autoscaler.RevisionAnnotation, "03"),
			want: []string{`MUST ` + revision + `: found "03", want a whole number in plain decimal digits, from its creation on`}},
		"no label": {set: with(t, set, "metadata/labels", autoscaler.DeploymentNameLabel, nil),
			want: []string{`SHOULD metadata.labels.cluster.x-k8s.io/deployment-name: found nothing, want "d"`}},
		"another label": {set: with(t, set, "metadata/labels", autoscaler.DeploymentNameLabel, "e"),
			want: []string{`SHOULD metadata.labels.cluster.x-k8s.io/deployment-name: found "e", want "d"`}},
		"replicas that cannot be read": {set: with(t, set, "status/replicas", "3"),
			want: []string{`MUST status.replicas: found string, want integer`}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			require.ElementsMatch(t, tc.want, short(autoscaler.Check(autoscaler.DefaultKeys(), tc.set, autoscaler.Around{})))
			deployment := with(t, ofKind(t, "MachineDeployment"), "metadata/name", "d")
			var below []string
			for _, line := range tc.want {
				below = append(below, strings.Replace(line, " ", " MachineSet default/workers: ", 1))
			}
			require.ElementsMatch(t, below, short(autoscaler.Check(autoscaler.DefaultKeys(), deployment, autoscaler.Around{
				MachineSets: []*unstructured.Unstructured{tc.set, nil, with(t, tc.set, "metadata/namespace", "other")}})),
				"seen from its MachineDeployment")
		})
	}
}

func TestCheck_ProviderIDListOfAPool(t *testing.T) {
	pool := ofKind(t, "MachinePool")
	list := func(ids ...any) *unstructured.Unstructured { return with(t, pool, "spec/providerIDList", ids) }
	tests := map[string]struct {
		pool *unstructured.Unstructured
		want []string
	}{
		"of another type": {pool: with(t, pool, "spec/providerIDList", "x"),
			want: []string{`MUST spec.providerIDList: found string, want list`}},
		"an entry of another": {pool: list("example://eu/1", int64(2)),
			want: []string{`MUST spec.providerIDList[1]: found integer, want string`}},
		"an empty entry": {pool: list("example://eu/1", ""),
			want: []string{`MUST spec.providerIDList[1]: found "", want the provider ID of an instance`}},
		"an entry without a key": {pool: list("example://eu/1", "example://eu/"),
			want: []string{`MUST spec.providerIDList[1]: found "example://eu/", want the provider ID of an instance`}},
		"one entry twice": {pool: list("example://eu/1", "example://eu/1"),
			want: []string{`SHOULD spec.providerIDList[1]: found "example://eu/1" once more, want every provider ID once`}},
		"a made-up ID": {pool: list("example://eu/1", "failed-machine-default_a"),
			want: []string{`MUST spec.providerIDList[1]: found "failed-machine-default_a", want the ID of an instance`}},
		"fewer than are ready": {pool: list("example://eu/1"),
			want: []string{`MUST spec.providerIDList: found 1 entries for 2 ready replicas, want the provider IDs of all instances`}},
		"none while it starts": {pool: with(t, with(t, pool, "spec/providerIDList", nil), "status", nil),
			want: []string{`SHOULD spec.providerIDList: found nothing, want the provider IDs of all instances`}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			require.ElementsMatch(t, tc.want, short(autoscaler.Check(autoscaler.DefaultKeys(), tc.pool, autoscaler.Around{})))
		})
	}
}

func TestCheck_SaysWhichRuleIsBroken(t *testing.T) {
	group := with(t, ofKind(t, "MachineDeployment"), "metadata/annotations", minKey, "x")
	findings := autoscaler.Check(autoscaler.DefaultKeys(), group, autoscaler.Around{})
	require.Len(t, findings, 1)
	want := conformance.Finding{Level: conformance.Must, Path: minPath, Found: `"x"`, Want: "a whole number from 0",
		Rule: "one such object makes the autoscaler drop every node group of the cluster"}
	if diff := cmp.Diff(want, findings[0]); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	require.Equal(t, fmt.Sprintf("MUST %s: found \"x\", want a whole number from 0 (%s)", minPath, want.Rule), findings[0].String())
}
