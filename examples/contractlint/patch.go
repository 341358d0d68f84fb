package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	utiljson "k8s.io/apimachinery/pkg/util/json"
)

// patch is an entry of patches or patchesJson6902.
type patch struct {
	Path   string  `json:"path"`
	Patch  string  `json:"patch"`
	Target *target `json:"target"`
}

// UnmarshalJSON also reads the name of a file, which is what an entry of patches was before kustomize v2.
func (p *patch) UnmarshalJSON(raw []byte) error {
	if json.Unmarshal(raw, &p.Path) == nil {
		return nil
	}
	type plain patch // without this method
	return json.Unmarshal(raw, (*plain)(p))
}

// target selects documents. Names are regular expressions that must match all of the text; an empty one matches all.
type target struct {
	Group              string `json:"group"`
	Version            string `json:"version"`
	Kind               string `json:"kind"`
	Name               string `json:"name"`
	Namespace          string `json:"namespace"`
	LabelSelector      string `json:"labelSelector"`
	AnnotationSelector string `json:"annotationSelector"`
}

// mergePatch makes a patch of an entry of patchesStrategicMerge, which is a file or the patch itself.
func mergePatch(dir, entry string) patch {
	if info, err := os.Stat(filepath.Join(dir, entry)); err == nil && !info.IsDir() || !strings.Contains(entry, "\n") {
		return patch{Path: entry}
	}
	return patch{Patch: entry}
}

// apply carries out patches on the documents that they select.
func (in *input) apply(file string, patches []patch, documents []document) ([]document, error) {
	for _, p := range patches {
		text := []byte(p.Patch)
		if p.Path != "" {
			raw, err := os.ReadFile(filepath.Join(filepath.Dir(file), p.Path)) //nolint:gosec // a kustomization names its files
			if err != nil {
				return nil, fmt.Errorf("read patch of %s: %w", file, err)
			}
			text = raw
		}
		var err error
		if documents, err = in.applyOne(file, p, text, documents); err != nil {
			return nil, fmt.Errorf("apply patch %s of %s: %w", p.name(), file, err)
		}
	}
	return documents, nil
}

func (p patch) name() string {
	if p.Path != "" {
		return p.Path
	}
	return "(inline)"
}

// applyOne tells the two kinds of patches apart as kustomize does: a list of operations, or objects to merge.
func (in *input) applyOne(file string, p patch, text []byte, documents []document) ([]document, error) {
	if value, err := parseYAML(text); err == nil {
		if operations, ok := value.([]any); ok {
			return applyOperations(p.Target, operations, documents)
		}
	}
	overlays, err := decodePatches(text)
	if err != nil {
		return nil, err
	}
	for _, overlay := range overlays {
		if hasDirective(overlay) {
			in.warn("patch %s of %s has a $patch directive, which is not carried out: lint the built manifests if it touches CRDs", p.name(), file)
			continue
		}
		if documents, err = applyOverlay(p.Target, overlay, documents); err != nil {
			return nil, err
		}
	}
	return documents, nil
}

// decodePatches reads objects that need no kind when a target selects what they change.
func decodePatches(text []byte) ([]map[string]any, error) {
	var overlays []map[string]any
	for part := range bytes.SplitSeq(append([]byte("\n"), text...), []byte("\n---")) {
		value, err := parseYAML(part)
		if err != nil {
			return nil, err
		}
		if overlay, ok := value.(map[string]any); ok {
			overlays = append(overlays, overlay)
		}
	}
	return overlays, nil
}

// hasDirective looks for the instructions of a strategic merge that a plain merge does not have.
func hasDirective(value any) bool {
	switch value := value.(type) {
	case map[string]any:
		for key, inner := range value {
			if strings.HasPrefix(key, "$") || hasDirective(inner) {
				return true
			}
		}
	case []any:
		return slices.ContainsFunc(value, hasDirective)
	}
	return false
}

func applyOperations(t *target, operations []any, documents []document) ([]document, error) {
	if t == nil {
		return nil, fmt.Errorf("a list of operations needs a target")
	}
	raw, err := json.Marshal(operations)
	if err != nil {
		return nil, err
	}
	decoded, err := jsonpatch.DecodePatch(raw)
	if err != nil {
		return nil, err
	}
	return changed(t.matches, documents, decoded.Apply)
}

// applyOverlay merges an object. Without a target it changes the document of its own kind and name. Lists are replaced, as
// kustomize does with those of CRDs and of kinds that it does not know.
func applyOverlay(t *target, overlay map[string]any, documents []document) ([]document, error) {
	own := &unstructured.Unstructured{Object: overlay}
	matches := func(d document) (bool, error) {
		return d.GroupVersionKind().GroupKind() == own.GroupVersionKind().GroupKind() && d.GetName() == own.GetName(), nil
	}
	if t != nil {
		matches = t.matches
		overlay = own.DeepCopy().Object
		delete(overlay, "apiVersion")
		delete(overlay, "kind")
		unstructured.RemoveNestedField(overlay, "metadata", "name")
	}
	raw, err := json.Marshal(overlay)
	if err != nil {
		return nil, err
	}
	return changed(matches, documents, func(doc []byte) ([]byte, error) { return jsonpatch.MergePatch(doc, raw) })
}

// changed returns the documents with the selected ones replaced; the given ones stay as they are.
func changed(matches func(document) (bool, error), documents []document, change func([]byte) ([]byte, error)) ([]document, error) {
	after := make([]document, 0, len(documents))
	for _, d := range documents {
		selected, err := matches(d)
		if err != nil {
			return nil, err
		}
		if selected {
			rewritten, err := rewrite(d.Unstructured, change)
			if err != nil {
				return nil, fmt.Errorf("%s %s: %w", d.GetKind(), d.GetName(), err)
			}
			d.Unstructured = rewritten
		}
		after = append(after, d)
	}
	return after, nil
}

func rewrite(obj *unstructured.Unstructured, change func([]byte) ([]byte, error)) (*unstructured.Unstructured, error) {
	before, err := json.Marshal(obj.Object)
	if err != nil {
		return nil, err
	}
	after, err := change(before)
	if err != nil {
		return nil, err
	}
	var content map[string]any
	if err := utiljson.Unmarshal(after, &content); err != nil {
		return nil, err
	}
	return &unstructured.Unstructured{Object: content}, nil
}

func (t *target) matches(d document) (bool, error) {
	gvk := d.GroupVersionKind()
	for _, part := range []struct{ want, got string }{
		{t.Group, gvk.Group}, {t.Version, gvk.Version}, {t.Kind, gvk.Kind}, {t.Name, d.GetName()}, {t.Namespace, d.GetNamespace()},
	} {
		if part.want == "" {
			continue
		}
		pattern, err := regexp.Compile("^(?:" + part.want + ")$")
		if err != nil {
			return false, err
		}
		if !pattern.MatchString(part.got) {
			return false, nil
		}
	}
	for _, part := range []struct {
		selector string
		pairs    map[string]string
	}{{t.LabelSelector, d.GetLabels()}, {t.AnnotationSelector, d.GetAnnotations()}} {
		selector, err := labels.Parse(part.selector)
		if err != nil || !selector.Matches(labels.Set(part.pairs)) {
			return false, err
		}
	}
	return true, nil
}
