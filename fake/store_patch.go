package fake

import (
	"encoding/json"
	"net/http"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// patcher returns the function that applies a patch to a record in a view, with the API server's own libraries.
func patcher(v *view, patchType types.PatchType, patch []byte) (func(*record) (map[string]any, error), error) {
	switch patchType {
	case types.JSONPatchType:
		ops, err := jsonpatch.DecodePatch(patch)
		if err != nil {
			return nil, apierrors.NewBadRequest(err.Error())
		}
		return func(current *record) (map[string]any, error) {
			out, err := ops.Apply(current.json(v))
			if err != nil {
				return nil, apierrors.NewGenericServerResponse(http.StatusUnprocessableEntity, "", schema.GroupResource{}, "", err.Error(), 0, false)
			}
			return patched(v, out)
		}, nil
	case types.MergePatchType:
		return changer(v, patch, func(content, changes map[string]any) (map[string]any, error) {
			merge(content, changes) // avoids the encoding to JSON of the JSON patch library
			return content, nil
		})
	case types.StrategicMergePatchType:
		if v.new != nil {
			return changer(v, patch, func(content, changes map[string]any) (map[string]any, error) {
				out, err := strategicpatch.StrategicMergeMapPatch(content, changes, v.new())
				if err != nil {
					return nil, apierrors.NewBadRequest(err.Error())
				}
				return out, nil
			})
		}
	}
	return nil, unsupportedPatch(v)
}

// changer returns the function that applies a patch that is an object. merge may change both of its arguments.
func changer(v *view, patch []byte, merge func(content, changes map[string]any) (map[string]any, error)) (
	func(*record) (map[string]any, error), error,
) {
	changes := map[string]any{}
	if err := utiljson.Unmarshal(patch, &changes); err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	return func(current *record) (map[string]any, error) {
		content, err := merge(current.in(v), runtime.DeepCopyJSON(changes))
		if err != nil {
			return nil, err
		}
		return patchedContent(v, content)
	}, nil
}

// merge applies a merge patch to an object (RFC 7386).
func merge(into, changes map[string]any) {
	for key, change := range changes {
		fields, isObject := change.(map[string]any)
		have, hasObject := into[key].(map[string]any)
		switch {
		case change == nil:
			delete(into, key)
		case isObject && hasObject:
			merge(have, fields)
		case isObject:
			fresh := map[string]any{}
			merge(fresh, fields)
			into[key] = fresh
		default:
			into[key] = change
		}
	}
}

// patched parses the result of a patch. If it is not an object of the kind, the patch is invalid, hence 422 and not 400.
func patched(v *view, body []byte) (map[string]any, error) {
	content, err := decode(v, body)
	if err != nil {
		return nil, invalidPatch(string(body), err)
	}
	return content, nil
}

func patchedContent(v *view, content map[string]any) (map[string]any, error) {
	normal, err := expected(v, content)
	if err != nil {
		body, _ := json.Marshal(content) // cannot fail: it was decoded from JSON
		return nil, invalidPatch(string(body), err)
	}
	return normal, nil
}

func invalidPatch(body string, err error) error {
	return apierrors.NewInvalid(schema.GroupKind{}, "", field.ErrorList{field.Invalid(field.NewPath("patch"), body, err.Error())})
}

// unsupportedPatch returns the error for a strategic merge patch of a custom kind, as on a real server.
func unsupportedPatch(v *view) error {
	accepted := "application/json-patch+json, application/merge-patch+json"
	if v.new != nil {
		accepted += ", application/strategic-merge-patch+json"
	}
	accepted += ", application/apply-patch+yaml"
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusUnsupportedMediaType, Reason: metav1.StatusReasonUnsupportedMediaType,
		Message: "the body of the request was in an unknown format - accepted media types include: " + accepted,
	}}
}
