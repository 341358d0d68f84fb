package fake

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structural "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// definition is the spec of a CustomResourceDefinition.
type definition struct {
	apiextensionsv1.CustomResourceDefinitionSpec
}

func readDefinition(content map[string]any) (d definition, err error) {
	body, err := json.Marshal(content["spec"])
	if err == nil {
		err = json.Unmarshal(body, &d)
	}
	if err != nil {
		return d, fmt.Errorf("the definition cannot be read: %w", err)
	}
	return d, nil
}

func (d definition) groupKind() schema.GroupKind {
	return schema.GroupKind{Group: d.Group, Kind: d.Names.Kind}
}

// serveCRD serves the versions of a CustomResourceDefinition, and stops serving versions that it no longer has.
func (s *Store) serveCRD(content map[string]any) error {
	d, err := readDefinition(content)
	if err != nil {
		return err
	}
	schemas, err := d.schemas()
	errs, served := []error{err}, map[string]bool{}
	status := slices.ContainsFunc(d.Versions, func(v apiextensionsv1.CustomResourceDefinitionVersion) bool {
		return v.Subresources != nil && v.Subresources.Status != nil
	})
	for _, v := range d.Versions {
		if !v.Served {
			continue
		}
		served[v.Name] = true
		errs = append(errs, s.registry.register(ServedKind{
			GVK: d.groupKind().WithVersion(v.Name), Resource: d.Names.Plural, Status: status,
			clusterScoped: d.Scope == apiextensionsv1.ClusterScoped,
		}))
	}
	for gvr, v := range s.registry.views {
		switch {
		case v.GroupKind != d.groupKind():
		case len(served) > 0 && !served[gvr.Version]:
			delete(s.registry.views, gvr)
		default:
			v.kind.managers = nil
			v.schema = schemas[gvr.Version]
		}
	}
	return errors.Join(errs...)
}

// establish writes the status that the API server's controllers write to an accepted definition.
func establish(content map[string]any, now metav1.Time) {
	d, _ := readDefinition(content) // cannot fail: it is served
	names, _, _ := unstructured.NestedMap(content, "spec", "names")
	condition := func(t, reason string) any {
		return map[string]any{"type": t, "status": "True", "reason": reason, "lastTransitionTime": now.UTC().Format(timeFormat)}
	}
	stored := []any{}
	for _, v := range d.Versions {
		if v.Storage {
			stored = append(stored, v.Name)
		}
	}
	content["status"] = map[string]any{
		"acceptedNames": names, "storedVersions": stored,
		"conditions": []any{condition("NamesAccepted", "NoConflicts"), condition("Established", "InitialNamesAccepted")},
	}
}

// schemas parses the schema of each version. A version that preserves all unknown fields has none.
func (d definition) schemas() (map[string]*structural.Structural, error) {
	out := map[string]*structural.Structural{}
	for _, v := range d.Versions {
		if v.Schema == nil || v.Schema.OpenAPIV3Schema == nil || d.PreserveUnknownFields {
			continue
		}
		var internal apiextensions.JSONSchemaProps
		err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(v.Schema.OpenAPIV3Schema, &internal, nil)
		if err != nil {
			return nil, fmt.Errorf("the schema of version %s cannot be read: %w", v.Name, err)
		}
		if out[v.Name], err = structural.NewStructural(&internal); err != nil {
			return nil, fmt.Errorf("the schema of version %s is not structural: %w", v.Name, err)
		}
	}
	return out, nil
}

// prune removes fields that are not in the schema of a custom kind, as the API server does when it decodes an object.
func (v *view) prune(content map[string]any) {
	if v.schema != nil {
		pruning.Prune(content, v.schema, true)
	}
}
