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

// TemplateSuffix is what the kind of a template ends in; what stands before it is the kind of the objects made from it.
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

// Clone says what an object made from a template is called, what it belongs to, and what is added to it. Nothing of it is
// kept or changed.
type Clone struct {
	// Name is needed. It is the caller's to choose, so that a creation that is repeated makes the same object.
	Name string
	// Namespace is where the object will live, empty for none. Cluster API keeps an object beside its Machine.
	Namespace string
	// ClusterName becomes the label ClusterNameLabel, whatever template and Labels say. Empty means that there is no Cluster,
	// and sets no label.
	ClusterName string
	// Labels and Annotations are added to the template's and win over them.
	Labels, Annotations map[string]string
	// Owner becomes the only owner reference; nil for none.
	Owner *metav1.OwnerReference
}

// FromTemplate returns the object that a template of any provider stands for: an InfraMachine of an InfraMachineTemplate, a
// BootstrapConfig of a BootstrapConfigTemplate. Rule: contract pages "InfraMachineTemplate" and "BootstrapConfigTemplate";
// Cluster API's controllers/external GenerateTemplate.
//
// API version and kind are the template's, without TemplateSuffix. The body is a copy of spec.template, which may be absent;
// a status in it is left out, because it belongs to the provider. Of spec.template.metadata the labels and annotations are
// taken and nothing else: no name, no UID, no resource version, no finalizers, no owner references, no timestamps. To them
// come those of the clone, ClusterNameLabel and, always, the annotations ClonedFromNameAnnotation and
// ClonedFromGroupKindAnnotation.
//
// The template is neither changed nor shared: it may come from a cache. An error names the template; for content of another type it
// matches ErrWrongType. Where Cluster API takes a spec or a spec.template of another type than object for an absent one, this is an
// error, because the object would be made without what its author asked for.
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
	r, labels, annotations := reader{obj: template.Object}, map[string]string{}, map[string]string{}
	maps.Copy(labels, r.textMap(templateTable.Labels.path, nil))
	maps.Copy(annotations, r.textMap(templateTable.Annotations.path, nil))
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

// kindOfClone returns the kind of the objects that a template stands for.
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

// templateObject returns the object at a place, nil when it is absent.
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

// copyJSON copies JSON content. It fails where apimachinery's own copy panics: on a Go value that JSON content cannot hold, such
// as an int in an object that was written by hand.
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

// TemplateLayout says where a template of any role keeps what an object is cloned from. Rule: the sections "...Template resource
// definition" of the contract pages; they have been the same in every version. The tags are those of MachineLayout and say what the
// contract demands.
type TemplateLayout struct {
	// Labels and Annotations are put on every clone.
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
