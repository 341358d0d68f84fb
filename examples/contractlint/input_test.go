package main

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestInput_AKustomizationIsNotBuilt(t *testing.T) {
	dir := files(t, map[string]string{"kustomization.yaml": "resources: [bases/a.yaml]\n", "bases/a.yaml": crd("FooMachine", "")})
	for _, path := range []string{dir, filepath.Join(dir, "kustomization.yaml")} {
		got := lintWith("", path)
		require.Equal(t, exitUsage, got.code)
		require.Contains(t, got.errors, "run kustomize build "+dir+" | contractlint -")
	}
	got := lintWith("", filepath.Join(dir, "bases"))
	require.Equal(t, exitBroken, got.code)
	require.Contains(t, got.out, "if a kustomization sets them, lint what kustomize build prints")
}

func TestInput_AFolderIsSearched(t *testing.T) {
	dir := files(t, map[string]string{
		"config/crd/kustomization.yaml": "resources: [bases/a.yaml]\n",
		"config/crd/bases/a.yaml":       crd("FooMachine", v1beta1),
		"config/crd/patches/webhook.yaml": "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: " +
			"foomachines.infrastructure.cluster.x-k8s.io}\n",
		"config/samples/machine.yaml": `{"apiVersion":"infrastructure.cluster.x-k8s.io/v1","kind":"FooMachine","metadata":{"name":"a"}}`,
		"charts/templates/crd.yaml":   "apiVersion: v1\n{{ if .Values.crds }}\na: {{ b\n",
		".vscode.json":                "{ // apiVersion",
		"tasks.json":                  "{ // no manifest",
		"hack/testdata/bad.yaml":      "a: [",
		".github/workflows/bad.yaml":  "a: [",
		"docs/values.yaml":            "replicas: 3\n---\n- 1\n---\n# nothing\n",
	})
	got := lintWith("", dir)
	require.Equal(t, exitOK, got.code, got.out+got.errors)
	require.Contains(t, got.out, "foomachines.infrastructure.cluster.x-k8s.io as InfraMachine: v1 by contract v1beta1")
	require.Contains(t, got.out, "FooMachine a as InfraMachine: v1 by contract v1beta1")
	require.Contains(t, got.out, "it has no group: a patch and not a whole CustomResourceDefinition")
	require.Contains(t, got.out, "Warning: "+filepath.Join(dir, "charts/templates/crd.yaml")+" is a template and no YAML")
	require.Contains(t, got.out, "checked 2, not judged 1: 0 MUST")
}

func TestInput_AnUnreadableFileInAFolderHidesNothing(t *testing.T) {
	dir := files(t, map[string]string{"a.yaml": crd("FooMachine", v1beta1), "b.yaml": "apiVersion: [", "c.yaml": "apiVersion: ["})
	got := lintWith("", dir, filepath.Join(dir, "d.yaml"))
	require.Equal(t, exitUsage, got.code)
	require.Contains(t, got.out, "checked 1, ")
	for _, file := range []string{"b.yaml", "c.yaml", "d.yaml"} {
		require.Contains(t, got.errors, file)
	}
}

func TestInput_BrokenYAMLInAFolderIsNeverPassedOver(t *testing.T) {
	for name, c := range map[string]struct {
		file, text string
		code       int
	}{
		"cut off before its API version":     {"b.yaml", "kind: CustomResourceDefinition\nmetadata: {", exitUsage},
		"with a tab":                         {"b.yml", "kind: FooMachine\nspec:\n\tproviderID: a\n", exitUsage},
		"a kustomization":                    {"sub/kustomization.yaml", "resources: [", exitUsage},
		"whose description has an action":    {"b.yaml", "apiVersion: v1\ndescription: such as {{ ds.meta_data }}\nmetadata: {", exitUsage},
		"a template":                         {"b.yaml", "apiVersion: v1\n{{- if .Values.crds }}\na: {\n{{ end }}", exitOK},
		"a template with a value":            {"b.yaml", "apiVersion: v1\nname: {{ .Values.name }}\n", exitOK},
		"a template without an API version":  {"b.yaml", "{{- range .Values.list }}\n- a: [\n{{ end }}", exitOK},
		"JSON with comments, for an editor":  {"b.json", "{ // tasks", exitOK},
		"good YAML that is no manifest":      {"b.yaml", "- 1\n---\na: b\n", exitOK},
		"an editor's file, which has a dot":  {".b.yaml", "a: [", exitOK},
		"an encoding that is not UTF-8":      {"b.yaml", "kind: \xff\xfe\n", exitUsage},
		"the same key twice, as Helm has it": {"b.yaml", "a: 1\na: 2\n", exitOK},
	} {
		t.Run(name, func(t *testing.T) {
			dir := files(t, map[string]string{"a.yaml": crd("FooMachine", v1beta1), c.file: c.text})
			got := lintWith("", dir)
			require.Equal(t, c.code, got.code, got.out+got.errors)
			require.Contains(t, got.out, "checked 1, ", "the rest is judged")
			if c.code == exitUsage {
				require.Contains(t, got.errors, filepath.Join(dir, c.file))
			}
		})
	}
}
