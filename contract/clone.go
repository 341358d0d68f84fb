package contract

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// TemplateSuffix is the suffix of the kind of a template. The rest of that kind is the kind of the objects made from the template.
const TemplateSuffix = "Template"

var (
	errNotATemplate = errors.New("not a template")
	errNoCloneName  = errors.New("the new object has no name")
)

// cloneError names the template and the reason.
func cloneError(template *unstructured.Unstructured, reason error) error {
	if template == nil {
		template = &unstructured.Unstructured{}
	}
	return fmt.Errorf("make an object from %s: %w", describe(cmp.Or(template.GetKind(), "an object without a kind"), template), reason)
}

// Clone describes the object that FromTemplate makes: its name, its owner and its additional metadata. FromTemplate neither retains nor
// changes it.
type Clone struct {
	// Name is required. The caller chooses it, so that a repeated creation makes the same object.
	Name string
	// Namespace is the namespace of the new object, empty for none. Cluster API creates the object in the namespace of its Machine.
	Namespace string
	// ClusterName becomes the label ClusterNameLabel and overrides the template and Labels. Empty means that there is no Cluster: no label is
	// set.
	ClusterName string
	// Labels and Annotations are added to those of the template and override them.
	Labels, Annotations map[string]string
	// Owner becomes the only owner reference; nil for none.
	Owner *metav1.OwnerReference
}

// FromTemplate returns the object that a template of any provider describes, such as an InfraMachine from an InfraMachineTemplate. Rule:
// contract pages "InfraMachineTemplate" and "BootstrapConfigTemplate"; Cluster API's controllers/external GenerateTemplate.
//
// The API version is that of the template, and the kind is that of the template without TemplateSuffix. The body is a copy of
// spec.template, which may be absent; a status in it is dropped, because the status belongs to the provider. From spec.template.metadata
// only labels and annotations are copied. The labels and annotations of the clone, ClusterNameLabel and, always, the annotations
// ClonedFromNameAnnotation and ClonedFromGroupKindAnnotation are added.
//
// The result shares no memory with the template, which is not changed: it may come from a cache. An error names the template; for content
// of the wrong type it matches ErrWrongType. Cluster API treats a spec or a spec.template that is not an object as absent. Here that is an
// error, because the object would lack what the author of the template wanted.
func FromTemplate(template *unstructured.Unstructured, clone Clone) (*unstructured.Unstructured, error) {
	made, err := fromTemplate(template, clone)
	if err != nil {
		return nil, cloneError(template, err)
	}
	return made, nil
}

func fromTemplate(template *unstructured.Unstructured, clone Clone) (*unstructured.Unstructured, error) {
	kind, err := kindOfClone(template)
	if err != nil {
		return nil, err
	}
	if clone.Name == "" {
		return nil, fmt.Errorf("%w: give it one", errNoCloneName)
	}
	body, err := templateObject(template.Object, "spec", "template")
	if err != nil {
		return nil, err
	}
	r, labels, annotations := exchange{obj: template.Object}, map[string]string{}, map[string]string{}
	maps.Copy(labels, value(&r, templateTable.Labels).value)
	maps.Copy(annotations, value(&r, templateTable.Annotations).value)
	if r.err != nil {
		return nil, r.err
	}
	made := &unstructured.Unstructured{Object: make(map[string]any, len(body)+3)}
	for key, value := range body {
		switch key {
		case "apiVersion", "kind", "metadata", "status":
			continue
		}
		if made.Object[key], err = copyJSON(value, "spec", "template", key); err != nil {
			return nil, err
		}
	}
	made.SetAPIVersion(template.GetAPIVersion())
	made.SetKind(kind)
	made.SetName(clone.Name)
	made.SetNamespace(clone.Namespace)
	maps.Copy(labels, clone.Labels)
	if clone.ClusterName != "" {
		labels[ClusterNameLabel] = clone.ClusterName
	}
	if len(labels) > 0 {
		made.SetLabels(labels)
	}
	maps.Copy(annotations, clone.Annotations)
	annotations[ClonedFromNameAnnotation] = template.GetName()
	annotations[ClonedFromGroupKindAnnotation] = template.GroupVersionKind().GroupKind().String()
	made.SetAnnotations(annotations)
	if clone.Owner != nil {
		made.SetOwnerReferences([]metav1.OwnerReference{*clone.Owner})
	}
	return made, nil
}

// kindOfClone returns the kind of the objects made from a template.
func kindOfClone(template *unstructured.Unstructured) (string, error) {
	if template == nil || template.Object == nil {
		return "", fmt.Errorf("%w: there is no object", errNotATemplate)
	}
	kind, found := strings.CutSuffix(template.GetKind(), TemplateSuffix)
	switch {
	case !found || kind == "":
		return "", fmt.Errorf("%w: its kind must be that of the objects to make with the suffix %s: correct the reference to it",
			errNotATemplate, TemplateSuffix)
	case template.GroupVersionKind().Version == "":
		return "", fmt.Errorf("%w: its apiVersion is %q", errNotATemplate, template.GetAPIVersion())
	case template.GetName() == "":
		return "", fmt.Errorf("%w: it has no name", errNotATemplate)
	}
	return kind, nil
}

// templateObject returns the object at a path, nil when it is absent.
func templateObject(obj map[string]any, segments ...string) (map[string]any, error) {
	raw, _, err := lookup(segments, obj)
	if err != nil || raw == nil {
		return nil, err
	}
	inner, ok := raw.(map[string]any)
	if !ok {
		return nil, &FieldError{Path: NewPath(segments...), Want: "object", Got: typeName(raw)}
	}
	return inner, nil
}

// copyJSON copies JSON content. Where apimachinery's copy panics, it returns an error: on a Go value that JSON content cannot hold, such as
// an int in an object built in code.
func copyJSON(value any, place ...string) (copied any, err error) {
	switch value := value.(type) {
	case nil, string, bool, int64, float64, json.Number:
		return value, nil
	case map[string]any:
		object := make(map[string]any, len(value))
		for _, key := range slices.Sorted(maps.Keys(value)) {
			if object[key], err = copyJSON(value[key], append(place, key)...); err != nil {
				return nil, err
			}
		}
		return object, nil
	case []any:
		list := make([]any, len(value))
		for i := range value {
			if list[i], err = copyJSON(value[i], append(place, strconv.Itoa(i))...); err != nil {
				return nil, err
			}
		}
		return list, nil
	default:
		return nil, &FieldError{Path: NewPath(place...), Want: "JSON content (integers as int64)", Got: typeName(value)}
	}
}

// TemplateLayout locates what clones get from a template of any role. Rule: the sections "...Template resource definition" of the contract
// pages, which are the same in every version. The tags are those of MachineLayout, and need is the requirement level of the contract.
type TemplateLayout struct {
	// Labels and Annotations are set on every clone.
	Labels      Field[map[string]string] `by:"user" need:"MAY" absent:"none"`
	Annotations Field[map[string]string] `by:"user" need:"MAY" absent:"none"`
	// Spec is the spec of every clone.
	Spec Field[json.RawMessage] `by:"user" need:"MUST" absent:"clones have no spec"`
}

var templateTable = TemplateLayout{
	Labels:      At[map[string]string]("spec", "template", "metadata", "labels"),
	Annotations: At[map[string]string]("spec", "template", "metadata", "annotations"),
	Spec:        At[json.RawMessage]("spec", "template", "spec"),
}
