package fake

import (
	"encoding/json"
	"fmt"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structural "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
)

// crdSchemas parses the schema of each served version of a CustomResourceDefinition. A version that preserves all
// unknown fields has none.
func crdSchemas(obj map[string]any) (map[string]*structural.Structural, error) {
	var crd apiextensionsv1.CustomResourceDefinition
	body, err := json.Marshal(map[string]any{"spec": obj["spec"]})
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(body, &crd); err != nil {
		return nil, fmt.Errorf("the definition cannot be read: %w", err)
	}
	out := map[string]*structural.Structural{}
	for _, v := range crd.Spec.Versions {
		if v.Schema == nil || v.Schema.OpenAPIV3Schema == nil || crd.Spec.PreserveUnknownFields {
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
