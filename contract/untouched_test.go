package contract_test

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/machinist-dev/machinist/contract"
)

// requireUntouched checks that two contents of one object differ in the places of a layout only, and in nothing else by a
// single byte. Of conditions, the entries of the given types may differ; of metadata, the given labels and annotations.
func requireUntouched(t *testing.T, layout any, before, after map[string]any, conditionTypes, labels, annotations []string) {
	t.Helper()
	rest := func(obj map[string]any) string {
		obj = runtime.DeepCopyJSON(obj)
		for _, p := range contract.Places(layout) {
			if p.Writer == "user" {
				continue
			}
			for _, path := range p.Paths {
				if p.Type != "list of conditions" {
					without(obj, path.Segments(), nil)
					continue
				}
				without(obj, path.Segments(), func(v any) any { return otherConditions(v, conditionTypes) })
			}
		}
		for _, key := range labels {
			without(obj, []string{"metadata", "labels", key}, nil)
		}
		for _, key := range annotations {
			without(obj, []string{"metadata", "annotations", key}, nil)
		}
		without(obj, []string{"metadata", "finalizers"}, nil)
		without(obj, []string{"metadata", "ownerReferences"}, nil)
		raw, err := json.Marshal(obj)
		require.NoError(t, err)
		return string(raw)
	}
	require.Equal(t, rest(before), rest(after), "a write changed what it has no business with")
}

// without removes what is at a path, or replaces it when replace returns something, and then what is empty on the way.
func without(obj map[string]any, path []string, replace func(any) any) {
	value, found := obj[path[0]]
	if len(path) > 1 {
		if inner, ok := value.(map[string]any); ok {
			without(inner, path[1:], replace)
			if len(inner) == 0 {
				delete(obj, path[0])
			}
		} else if value == nil {
			delete(obj, path[0])
		}
		return
	}
	if !found {
		return
	}
	delete(obj, path[0])
	if replace != nil {
		if left := replace(value); left != nil {
			obj[path[0]] = left
		}
	}
}

// otherConditions is a list without the entries of some types, nil when none is left.
func otherConditions(list any, types []string) any {
	items, ok := list.([]any)
	if !ok {
		return nil
	}
	var left []any
	for _, item := range items {
		if values, ok := item.(map[string]any); ok {
			if name, ok := values["type"].(string); ok && slices.Contains(types, name) {
				continue
			}
		}
		left = append(left, item)
	}
	if left == nil {
		return nil
	}
	return left
}

func TestRequireUntouched_ItselfFindsWhatChanged(t *testing.T) {
	before := parseJSON(t, fullMachine)
	for _, c := range []struct {
		path    []string
		allowed bool
	}{
		{[]string{"spec", "clusterName"}, false}, {[]string{"status", "nodeInfo", "kubeletVersion"}, false},
		{[]string{"metadata", "labels", "x"}, false}, {[]string{"status", "phase"}, true}, {[]string{"spec", "providerID"}, true},
	} {
		after := runtime.DeepCopyJSON(before)
		without(after, c.path, nil)
		probe := &testing.T{}
		done := make(chan struct{})
		go func() { // FailNow ends the goroutine
			defer close(done)
			requireUntouched(probe, contract.LayoutsOf(contract.V1Beta2).Machine, before, after, nil, nil, nil)
		}()
		<-done
		require.Equal(t, !c.allowed, probe.Failed(), "%v", c.path)
	}
}
