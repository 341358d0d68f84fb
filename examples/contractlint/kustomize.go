package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// kustomization is the part of a kustomization that can change the contract labels or the schema of a CRD.
type kustomization struct {
	Resources             []string          `json:"resources"`
	Bases                 []string          `json:"bases"`
	Components            []string          `json:"components"`
	CommonLabels          map[string]string `json:"commonLabels"`
	Labels                []labelPairs      `json:"labels"`
	Patches               []patch           `json:"patches"`
	PatchesStrategicMerge []string          `json:"patchesStrategicMerge"`
	PatchesJSON6902       []patch           `json:"patchesJson6902"`

	// What is not carried out, and said to be so.
	Transformers []any `json:"transformers"`
	Generators   []any `json:"generators"`
	Replacements []any `json:"replacements"`
	HelmCharts   []any `json:"helmCharts"`
}

type labelPairs struct {
	Pairs map[string]string `json:"pairs"`
}

func kustomizationNames() []string {
	return []string{"kustomization.yaml", "kustomization.yml", "Kustomization"}
}

// kustomizationIn returns the path of a folder's kustomization, empty when it has none.
func kustomizationIn(dir string) string {
	for _, name := range kustomizationNames() {
		if info, err := os.Stat(filepath.Join(dir, name)); err == nil && !info.IsDir() {
			return filepath.Join(dir, name)
		}
	}
	return ""
}

// kustomize builds a folder as kustomize would, as far as CRDs and provider objects are concerned.
func (in *input) kustomize(dir string) ([]document, error) {
	dir = filepath.Clean(dir)
	if done, ok := in.built[dir]; ok {
		return done.documents, done.err
	}
	documents, err := in.buildFolder(dir, nil, nil)
	in.built[dir] = build{documents: documents, err: err}
	return documents, err
}

// buildFolder adds the resources of a folder to those collected so far, and then changes them all: a component changes what its
// user has. Within are the folders that are being built.
func (in *input) buildFolder(dir string, collected []document, within []string) ([]document, error) {
	file := kustomizationIn(dir)
	switch {
	case slices.Contains(within, dir):
		return nil, fmt.Errorf("build %s: it includes itself", dir)
	case file == "":
		return nil, fmt.Errorf("build %s: it has no kustomization.yaml", dir)
	}
	raw, err := os.ReadFile(file) //nolint:gosec // the person who runs this names the files
	if err != nil {
		return nil, fmt.Errorf("build %s: %w", dir, err)
	}
	var k kustomization
	if err := yaml.Unmarshal(raw, &k); err != nil {
		return nil, fmt.Errorf("read %s: %w", file, err)
	}
	in.warnUnread(file, k)
	within = append(slices.Clone(within), dir)
	for _, resource := range slices.Concat(k.Resources, k.Bases) {
		found, err := in.resource(file, filepath.Join(dir, resource), resource, within)
		if err != nil {
			return nil, err
		}
		collected = append(collected, found...)
	}
	for _, component := range k.Components {
		if in.isRemote(file, component) {
			continue
		}
		if collected, err = in.buildFolder(filepath.Join(dir, component), collected, within); err != nil {
			return nil, err
		}
	}
	return in.change(file, k, collected)
}

func (in *input) resource(file, path, name string, within []string) ([]document, error) {
	if in.isRemote(file, name) {
		return nil, nil
	}
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("read resource of %s: %w", file, err)
	}
	if info.IsDir() {
		return in.buildFolder(path, nil, within)
	}
	raw, err := os.ReadFile(path) //nolint:gosec // a kustomization names its files
	if err != nil {
		return nil, fmt.Errorf("read resource of %s: %w", file, err)
	}
	return decode(raw, path)
}

// isRemote warns about what only a network can answer.
func (in *input) isRemote(file, name string) bool {
	remote := strings.Contains(name, "://") || strings.HasPrefix(name, "git@") || strings.Contains(name, "?ref=") ||
		strings.HasPrefix(name, "github.com/")
	if remote {
		in.warn("%s has the remote resource %s: it was not read", file, name)
	}
	return remote
}

func (in *input) warn(format string, args ...any) {
	if text := fmt.Sprintf(format, args...); !slices.Contains(in.warnings, text) {
		in.warnings = append(in.warnings, text)
	}
}

func (in *input) warnUnread(file string, k kustomization) {
	for _, unread := range []struct {
		key   string
		items []any
	}{{"transformers", k.Transformers}, {"generators", k.Generators}, {"replacements", k.Replacements}, {"helmCharts", k.HelmCharts}} {
		if len(unread.items) > 0 {
			in.warn("%s has %s, which are not carried out: lint the built manifests if they touch CRDs", file, unread.key)
		}
	}
}

// change carries out patches and labels in kustomize's order.
func (in *input) change(file string, k kustomization, documents []document) ([]document, error) {
	var patches []patch
	for _, text := range k.PatchesStrategicMerge {
		patches = append(patches, mergePatch(filepath.Dir(file), text))
	}
	documents, err := in.apply(file, append(patches, k.Patches...), documents)
	if err != nil {
		return nil, err
	}
	for i := range documents {
		documents[i].Unstructured = withLabels(documents[i].Unstructured, k.CommonLabels)
		for _, labels := range k.Labels {
			documents[i].Unstructured = withLabels(documents[i].Unstructured, labels.Pairs)
		}
		documents[i].overlay = file
	}
	return in.apply(file, k.PatchesJSON6902, documents)
}

// withLabels keeps labels that cannot be read as they are, for the linter to find.
func withLabels(obj *unstructured.Unstructured, labels map[string]string) *unstructured.Unstructured {
	if len(labels) == 0 {
		return obj
	}
	obj = obj.DeepCopy() // a folder that two others include is read once
	for key, value := range labels {
		_ = unstructured.SetNestedField(obj.Object, value, "metadata", "labels", key) // fails where metadata is no object
	}
	return obj
}

// listedIn returns the documents of a file as the nearest kustomization has them that lists the file: one in its folder or up
// to two folders above. Controller-gen writes to config/crd/bases, and the labels stand in config/crd.
func (in *input) listedIn(path string) []document {
	dir := filepath.Dir(path)
	for range 3 {
		if kustomizationIn(dir) != "" {
			all, err := in.kustomize(dir)
			if err != nil {
				in.warn("labels for %s were not looked for in %s: %v", path, dir, err)
			}
			var own []document
			for _, d := range all {
				if same(d.file, path) {
					own = append(own, d)
				}
			}
			if len(own) > 0 {
				return own
			}
		}
		dir = parent(dir)
	}
	return nil
}

// parent works for relative paths too.
func parent(dir string) string {
	if dir == "." || filepath.Base(dir) == ".." {
		return filepath.Join(dir, "..")
	}
	return filepath.Dir(dir)
}

// same compares paths that may be written in different ways.
func same(a, b string) bool {
	first, errA := filepath.Abs(a)
	second, errB := filepath.Abs(b)
	return errA == nil && errB == nil && first == second
}
