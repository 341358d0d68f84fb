package autoscaler_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/contract/autoscaler"
)

func TestStandingOf(t *testing.T) {
	set, template := parse(t, machineSetYAML), parse(t, templateYAML)
	owned := with(t, set, "metadata/ownerReferences",
		[]any{map[string]any{"kind": "MachineDeployment", "name": "d", "apiVersion": "other/v1", "uid": "u"}})
	empty := with(t, set, "spec/replicas", int64(0))
	tests := map[string]struct {
		group    *unstructured.Unstructured
		template *unstructured.Unstructured
		want     autoscaler.Standing
		is       error
		err      string
	}{
		"with bounds and replicas it is a group": {group: set, want: autoscaler.StandingGroup},
		"owned by a MachineDeployment of any group, and whatever its annotations": {
			group: with(t, owned, "metadata/annotations", minKey, "x"), want: autoscaler.StandingOwned},
		"an owner without a name is none": {group: with(t, set, "metadata/ownerReferences", []any{map[string]any{"kind": "MachineDeployment"}}),
			want: autoscaler.StandingGroup},
		"only MachineSets are owned so": {group: with(t, owned, "kind", "MachinePool"), want: autoscaler.StandingGroup},
		"a maximum of zero": {group: with(t, with(t, set, "metadata/annotations", minKey, "0"), "metadata/annotations", maxKey, "0"),
			want: autoscaler.StandingUnscaled},
		"no annotations": {group: with(t, set, "metadata/annotations", nil), want: autoscaler.StandingUnscaled},
		"paused with any value": {group: with(t, set, "metadata/annotations", contract.PausedAnnotation, "false"),
			want: autoscaler.StandingPaused},
		"a pause does not heal bad annotations": {
			group: with(t, with(t, set, "metadata/annotations", contract.PausedAnnotation, ""), "metadata/annotations", minKey, "9"),
			want:  autoscaler.StandingBroken, is: autoscaler.ErrMinAboveMax, err: "MachineSet default/workers: annotation " + maxKey +
				`: found "5", want at least the minimum size, 9 (one such object makes the autoscaler drop every node group of the cluster)`},
		"no replicas": {group: with(t, set, "spec/replicas", nil), want: autoscaler.StandingBroken, is: contract.ErrWrongType,
			err: "MachineSet default/workers: spec.replicas: want integer, found nothing"},
		"replicas of another type": {group: with(t, with(t, set, "metadata/annotations", nil), "spec/replicas", "2"),
			want: autoscaler.StandingBroken, is: contract.ErrWrongType,
			err: "MachineSet default/workers: spec.replicas: want integer, found string"},
		"no replicas do not matter while it is paused": {
			group: with(t, with(t, set, "spec/replicas", nil), "metadata/annotations", contract.PausedAnnotation, ""),
			want:  autoscaler.StandingPaused},
		"at zero, and nothing known of its Nodes":   {group: empty, want: autoscaler.StandingHidden},
		"at zero, with a template that says enough": {group: empty, template: template, want: autoscaler.StandingGroup},
		"at zero, with a template that says little": {group: empty, template: with(t, template, "status/capacity/memory", nil),
			want: autoscaler.StandingHidden},
		"at zero, one bad annotation hides the template": {group: with(t, empty, "metadata/annotations", prefix+"maxPods", "many"),
			template: template,
			want:     autoscaler.StandingHidden},
		"at zero, a bad label hides nothing": {group: with(t, empty, "metadata/annotations", prefix+"labels", "many"), template: template,
			want: autoscaler.StandingGroup},
		"at zero, with two annotations": {
			group: with(t, with(t, empty, "metadata/annotations", prefix+"cpu", "1"), "metadata/annotations", prefix+"memory", "1Gi"),
			want:  autoscaler.StandingGroup},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := autoscaler.StandingOf(autoscaler.DefaultKeys(), tc.group, tc.template)
			require.Equal(t, tc.want.String(), got.String())
			if tc.err == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorIs(t, err, tc.is)
			require.EqualError(t, err, tc.err)
		})
	}
	require.Equal(t, "Standing(9)", autoscaler.Standing(9).String())
}

func TestRollingOut(t *testing.T) {
	deployment := parse(t, `{kind: MachineDeployment, apiVersion: cluster.x-k8s.io/v1beta2, metadata: {namespace: default, name: d}}`)
	set := func(name, revision, spec, status string) *unstructured.Unstructured {
		s := parse(t, `{kind: MachineSet, apiVersion: cluster.x-k8s.io/v1beta2, metadata: {namespace: default, name: `+name+
			`, labels: {cluster.x-k8s.io/deployment-name: d}}, spec: {replicas: `+spec+`}, status: {replicas: `+status+`}}`)
		if revision != "-" {
			s = with(t, s, "metadata/annotations", autoscaler.RevisionAnnotation, revision)
		}
		return s
	}
	tests := map[string]struct {
		sets []*unstructured.Unstructured
		want bool
		err  string
	}{
		"without MachineSets nothing rolls":   {},
		"one MachineSet is the latest":        {sets: []*unstructured.Unstructured{set("a", "1", "3", "3")}},
		"an old one at zero is done":          {sets: []*unstructured.Unstructured{set("a", "1", "0", "0"), set("b", "2", "3", "3")}},
		"an old one that wants replicas":      {sets: []*unstructured.Unstructured{set("a", "1", "1", "0"), set("b", "2", "3", "3")}, want: true},
		"an old one that still has some":      {sets: []*unstructured.Unstructured{set("b", "2", "3", "3"), set("a", "1", "0", "1")}, want: true},
		"numbers are compared as numbers":     {sets: []*unstructured.Unstructured{set("a", "9", "0", "0"), set("b", "10", "3", "3")}},
		"without any revision it never ends":  {sets: []*unstructured.Unstructured{set("a", "-", "1", "1")}, want: true},
		"a zero before a number makes it old": {sets: []*unstructured.Unstructured{set("a", "01", "1", "1")}, want: true},
		"others are not looked at": {sets: []*unstructured.Unstructured{set("b", "2", "3", "3"),
			with(t, set("a", "1", "1", "1"), "metadata/labels", autoscaler.DeploymentNameLabel, "other"),
			with(t, set("c", "x", "1", "1"), "metadata/namespace", "other")}},
		"a revision that is no number": {sets: []*unstructured.Unstructured{set("a", "x", "1", "1")},
			err: `MachineSet default/a: annotation machinedeployment.clusters.x-k8s.io/revision: found "x", want a whole number (the autoscaler removes no Node of the MachineDeployment)`},
		"replicas that are no number": {sets: []*unstructured.Unstructured{set("a", "1", `"x"`, "1"), set("b", "2", "1", "1")},
			err: "MachineSet default/a: spec.replicas: want integer, found string"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := autoscaler.RollingOut(deployment, tc.sets)
			if tc.err != "" {
				require.EqualError(t, err, tc.err)
				return
			}
			require.NoError(t, err)
			require.Equal(t, tc.want, got)
		})
	}
}
