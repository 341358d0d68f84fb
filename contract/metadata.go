package contract

import (
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

var (
	labelsPath      = NewPath("metadata", "labels")
	annotationsPath = NewPath("metadata", "annotations")
	finalizersPath  = NewPath("metadata", "finalizers")
)

// readMetadata is strict where unstructured's accessors call unreadable metadata absent: a Machine whose annotations cannot
// be read must not pass for one that is not paused.
func readMetadata(u *unstructured.Unstructured, into *MachineState) (err error) {
	into.Key = types.NamespacedName{Namespace: u.GetNamespace(), Name: u.GetName()}
	into.UID = u.GetUID()
	into.ResourceVersion = u.GetResourceVersion()
	into.Generation = u.GetGeneration()
	into.Created = u.GetCreationTimestamp().UTC()
	into.Deleting = time.Time{}
	if at := u.GetDeletionTimestamp(); at != nil {
		into.Deleting = at.UTC()
	}
	into.OwnerReferences = u.GetOwnerReferences()
	if into.Labels, err = textMap(labelsPath, u.Object); err != nil {
		return err
	}
	if into.Annotations, err = textMap(annotationsPath, u.Object); err != nil {
		return err
	}
	into.Finalizers, err = textList(finalizersPath, u.Object)
	return err
}

func textMap(at Path, obj map[string]any) (map[string]string, error) {
	raw, _, err := lookup(at.segments, obj)
	if err != nil || raw == nil {
		return nil, err
	}
	entries, ok := raw.(map[string]any)
	if !ok {
		return nil, &FieldError{Path: at, Want: "object", Got: typeName(raw)}
	}
	texts := make(map[string]string, len(entries))
	for key, value := range entries {
		text, ok := value.(string)
		if !ok {
			return nil, firstWrongText(at, entries)
		}
		texts[key] = text
	}
	return texts, nil
}

// firstWrongText makes the error about several wrong entries the same one every time.
func firstWrongText(at Path, entries map[string]any) error {
	for _, key := range slices.Sorted(maps.Keys(entries)) {
		if _, ok := entries[key].(string); !ok {
			return &FieldError{Path: NewPath(append(at.Segments(), key)...), Want: "string", Got: typeName(entries[key])}
		}
	}
	return nil
}

func textList(at Path, obj map[string]any) ([]string, error) {
	raw, _, err := lookup(at.segments, obj)
	if err != nil || raw == nil {
		return nil, err
	}
	entries, ok := raw.([]any)
	if !ok {
		return nil, &FieldError{Path: at, Want: "list", Got: typeName(raw)}
	}
	texts := make([]string, 0, len(entries))
	for i, value := range entries {
		text, ok := value.(string)
		if !ok {
			return nil, &FieldError{Path: entryPath(at, i), Want: "string", Got: typeName(value)}
		}
		texts = append(texts, text)
	}
	return texts, nil
}
