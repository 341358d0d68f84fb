package main

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/contract/conformance"
)

const labelsList = "labels: [{pairs: {cluster.x-k8s.io/v1beta1: v1}, includeSelectors: true}]\n"

func TestKustomize_LabelsReachTheCRDs(t *testing.T) {
	bare, header := crd("FooMachine", ""), "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\n"
	for name, contents := range map[string]map[string]string{
		"commonLabels": {
			"kustomization.yaml": header + "commonLabels: {cluster.x-k8s.io/v1beta1: v1}\nresources: [bases/a.yaml]\n", "bases/a.yaml": bare},
		"labels": {
			"kustomization.yml": labelsList + "resources: [bases/a.yaml]\n", "bases/a.yaml": bare},
		"a folder that includes another one": {
			"Kustomization": labelsList + "resources: [../base]\n", "../base/kustomization.yaml": "resources: [a.yaml]", "../base/a.yaml": bare},
		"a folder that another one includes": {
			"kustomization.yaml": "bases: [base]\n", "base/kustomization.yaml": labelsList + "resources: [a.yaml]", "base/a.yaml": bare},
		"a component": {
			"kustomization.yaml": "resources: [a.yaml]\ncomponents: [labels]\n", "labels/kustomization.yaml": "kind: Component\n" + labelsList,
			"a.yaml": bare},
		"a strategic merge in a file": {
			"kustomization.yaml": "resources: [a.yaml]\npatches: [{path: p.yaml}]\n", "a.yaml": bare,
			"p.yaml": "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata:\n  name: " +
				"foomachines.infrastructure.cluster.x-k8s.io\n  labels: {cluster.x-k8s.io/v1beta1: v1}\n"},
		"a strategic merge as the first kustomize had it": {
			"kustomization.yaml": "resources: [a.yaml]\npatches: [p.yaml]\n", "a.yaml": bare,
			"p.yaml": "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata:\n  name: " +
				"foomachines.infrastructure.cluster.x-k8s.io\n  labels: {cluster.x-k8s.io/v1beta1: v1}\n"},
		"a key in another case, which kustomize reads too": {
			"kustomization.yaml": "commonlabels: {cluster.x-k8s.io/v1beta1: v1}\nresources: [a.yaml]\n", "a.yaml": bare},
		"a strategic merge as it was once written": {
			"kustomization.yaml": "resources: [a.yaml]\npatchesStrategicMerge:\n- |-\n  apiVersion: apiextensions.k8s.io/v1\n  kind: " +
				"CustomResourceDefinition\n  metadata:\n    name: foomachines.infrastructure.cluster.x-k8s.io\n" +
				"    labels: {cluster.x-k8s.io/v1beta1: v1}\n",
			"a.yaml": bare},
		"a merge with a target": {
			"kustomization.yaml": "resources: [a.yaml]\npatches:\n- target: {kind: CustomResourceDefinition, name: foo.*}\n  patch: |\n    " +
				"metadata:\n      name: ignored\n      labels: {cluster.x-k8s.io/v1beta1: v1}\n",
			"a.yaml": bare},
		"operations with a target": {
			"kustomization.yaml": "resources: [a.yaml]\npatches:\n- target: {group: apiextensions.k8s.io, version: v1, kind: " +
				"CustomResourceDefinition}\n  patch: |-\n    - op: add\n      path: /metadata/labels/cluster.x-k8s.io~1v1beta1\n      value: v1\n",
			"a.yaml": bare},
		"operations as they were once written": {
			"kustomization.yaml": "resources: [a.yaml]\npatchesJson6902:\n- target: {kind: CustomResourceDefinition, name: " +
				"foomachines.infrastructure.cluster.x-k8s.io}\n  path: p.json\n",
			"a.yaml": bare, "p.json": `[{"op":"add","path":"/metadata/labels/cluster.x-k8s.io~1v1beta1","value":"v1"}]`},
	} {
		t.Run(name, func(t *testing.T) {
			root := map[string]string{}
			for file, text := range contents {
				root[filepath.Join("overlay", file)] = text
			}
			dir := filepath.Join(files(t, root), "overlay")
			got := lintWith("", "-o", "json", dir)
			require.Equal(t, exitOK, got.code, got.out+got.errors)
			checked := decoded(t, got.out).Checked
			require.Len(t, checked, 1)
			require.Equal(t, []conformance.Judged{{APIVersion: "v1", Contract: contract.V1Beta1}}, checked[0].Judged)
			require.Regexp(t, `a\.yaml \(with .*/overlay/[Kk]ustomization`, checked[0].Source)
		})
	}
}

func TestKustomize_PatchesChangeWhatTheySelect(t *testing.T) {
	dir := files(t, map[string]string{
		"a.yaml": crd("FooMachine", v1beta1) + "---" + crd("BarMachine", v1beta1+", tier: edge"),
		"kustomization.yaml": `
resources: [a.yaml]
patches:
- {target: {name: foo}, patch: "[{op: remove, path: /spec}]"}
- {target: {labelSelector: tier=edge}, patch: "[{op: replace, path: /spec/scope, value: Cluster}]"}
- {target: {annotationSelector: none}, patch: "[{op: remove, path: /spec}]"}
`,
	})
	in := newInput(nil)
	in.read(dir)
	require.Empty(t, in.errs)
	scopes := map[string]string{}
	for _, d := range in.documents {
		scopes[definedBy(d).Kind], _, _ = unstructured.NestedString(d.Object, "spec", "scope")
	}
	require.Equal(t, map[string]string{"FooMachine": "Namespaced", "BarMachine": "Cluster"}, scopes)
}

func TestKustomize_AFolderThatIsIncludedTwiceIsNotShared(t *testing.T) {
	dir := files(t, map[string]string{
		"base/kustomization.yaml": "resources: [a.yaml]", "base/a.yaml": crd("FooMachine", ""),
		"one/kustomization.yaml": "resources: [../base]\n" + labelsList,
		"two/kustomization.yaml": "resources: [../base]\n",
	})
	in := newInput(nil)
	in.read(filepath.Join(dir, "one"))
	in.read(filepath.Join(dir, "two"))
	in.read(filepath.Join(dir, "base"))
	require.Empty(t, in.errs)
	require.Len(t, in.documents, 3)
	require.True(t, labelled(in.documents[0]))
	require.False(t, labelled(in.documents[1]))
	require.False(t, labelled(in.documents[2]))
}

func TestKustomize_WhatCannotBeDoneIsReported(t *testing.T) {
	for name, c := range map[string]struct {
		kustomization string
		code          int
		want          string
	}{
		"a remote resource": {"resources: [a.yaml, 'https://example.com/x.yaml', 'github.com/a/b?ref=v1']", exitOK,
			"has the remote resource https://example.com/x.yaml: it was not read"},
		"a remote component": {"resources: [a.yaml]\ncomponents: ['https://example.com/x']", exitOK,
			"remote resource https://example.com/x"},
		"transformers": {"resources: [a.yaml]\ntransformers: [t.yaml]", exitOK, "has transformers, which are not carried out"},
		"a directive in a patch": {"resources: [a.yaml]\npatches: [{patch: \"{$patch: delete, kind: X}\"}]", exitOK,
			"has a $patch directive"},
		"a missing resource":  {"resources: [b.yaml]", exitUsage, "read resource of "},
		"a missing patch":     {"resources: [a.yaml]\npatches: [{path: p.yaml}]", exitUsage, "read patch of "},
		"a missing component": {"resources: [a.yaml]\ncomponents: [c]", exitUsage, "has no kustomization.yaml"},
		"a cycle":             {"resources: [a.yaml, ../x]", exitUsage, "it includes itself"},
		"a folder of nothing": {"resources: [.empty]", exitUsage, "no such file"},
		"operations without target": {"resources: [a.yaml]\npatches: [{patch: \"[{op: remove, path: /spec}]\"}]", exitUsage,
			"a list of operations needs a target"},
		"operations that do not fit": {"resources: [a.yaml]\npatches: [{target: {kind: C.*}, patch: \"[{op: remove, path: /x/y}]\"}]", exitUsage,
			"apply patch (inline) of"},
		"a wrong pattern": {"resources: [a.yaml]\npatches: [{target: {kind: '('}, patch: \"[{op: remove, path: /x}]\"}]", exitUsage,
			"missing closing )"},
		"a wrong selector": {"resources: [a.yaml]\npatches: [{target: {labelSelector: '!!'}, patch: \"[{op: remove, path: /x}]\"}]",
			exitUsage, "apply patch"},
		"a patch that is no YAML": {"resources: [a.yaml]\npatches: [{patch: \"a: [\"}]", exitUsage, "apply patch (inline)"},
		"no YAML":                 {"resources: [", exitUsage, "read "},
		"another shape":           {"resources: {a: b}", exitUsage, "cannot unmarshal"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := files(t, map[string]string{"x/kustomization.yaml": c.kustomization, "x/a.yaml": crd("FooMachine", v1beta1)})
			got := lintWith("", filepath.Join(dir, "x", "kustomization.yaml"))
			require.Equal(t, c.code, got.code, got.out+got.errors)
			require.Contains(t, got.out+got.errors, c.want)
		})
	}
}
