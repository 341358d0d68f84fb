package contract_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/machinist-dev/machinist/contract"
)

func sortedKeys(m map[string]any) []string { return slices.Sorted(maps.Keys(m)) }

func TestMergePatch_IsTheSmallestDocument(t *testing.T) {
	for name, c := range map[string]struct {
		before, after, patch string
	}{
		"nothing and nothing":                            {before: `{}`, after: `{}`, patch: `null`},
		"a value that is gone":                           {before: `{"a":{"b":1,"c":2}}`, after: `{"a":{"c":2}}`, patch: `{"a":{"b":null}}`},
		"an object that is gone is emptied key by key":   {before: `{"a":{"b":1,"c":{"d":2}}}`, after: `{}`, patch: `{"a":{"b":null,"c":{"d":null}}}`},
		"an empty object that is new":                    {before: `{}`, after: `{"a":{}}`, patch: `{"a":{}}`},
		"a list is replaced as a whole":                  {before: `{"a":[1,2]}`, after: `{"a":[1,3]}`, patch: `{"a":[1,3]}`},
		"a null counts as absent":                        {before: `{"a":1}`, after: `{"a":null}`, patch: `{"a":null}`},
		"a null that is new cannot be written":           {before: `{}`, after: `{"a":null}`, patch: `null`},
		"a null in a new object cannot be written":       {before: `{}`, after: `{"a":{"b":null}}`, patch: `{"a":{}}`},
		"objects that differ in such a null":             {before: `{"a":{}}`, after: `{"a":{"b":null}}`, patch: `null`},
		"an object that becomes null is emptied by keys": {before: `{"a":{"b":1}}`, after: `{"a":null}`, patch: `{"a":{"b":null}}`},
		"a null that was there can be removed":           {before: `{"a":null}`, after: `{}`, patch: `{"a":null}`},
		"a null that stays":                              {before: `{"a":null}`, after: `{"a":null}`, patch: `null`},
	} {
		t.Run(name, func(t *testing.T) {
			got := contract.MergePatch(parseJSON(t, c.before), parseJSON(t, c.after))
			raw, err := json.Marshal(got)
			require.NoError(t, err)
			require.JSONEq(t, c.patch, string(raw))
		})
	}
}

func TestMergePatch_OfOtherContent(t *testing.T) {
	require.Nil(t, contract.MergePatch(nil, nil))
	require.Equal(t, map[string]any{"a": int64(1)}, contract.MergePatch(nil, map[string]any{"a": int64(1)}))
	require.Nil(t, contract.MergePatch(map[string]any{"a": []string{"x"}}, map[string]any{"a": []string{"x"}}), "content that is no JSON")
}

func TestMergePatch_AppliedToBeforeGivesAfter(t *testing.T) {
	for seed := range uint64(5000) {
		random := rand.New(rand.NewPCG(seed, 1))
		before := randomObject(random, 3)
		after := mutated(random, before)
		if seed%5 == 0 {
			after = randomObject(random, 3)
		}
		checkPatch(t, fmt.Sprintf("seed %d", seed), before, after)
	}
}

func checkPatch(t *testing.T, name string, before, after map[string]any) {
	t.Helper()
	beforeCopy, afterCopy := runtime.DeepCopyJSON(before), runtime.DeepCopyJSON(after)
	patch := contract.MergePatch(before, after)
	require.Empty(t, cmp.Diff(beforeCopy, before), "%s: before was changed", name)
	require.Empty(t, cmp.Diff(afterCopy, after), "%s: after was changed", name)
	if patch == nil {
		require.Empty(t, cmp.Diff(before, after), "%s: no patch for different objects", name)
		return
	}
	result := patched(t, before, patch)
	if diff := cmp.Diff(withoutEmpty(after), withoutEmpty(result)); diff != "" {
		t.Fatalf("%s: patch %v does not lead to after (-want +got):\n%s", name, patch, diff)
	}
	forEachLeaf(patch, func(parent map[string]any, key string) {
		value := parent[key]
		delete(parent, key)
		require.NotEmpty(t, cmp.Diff(result, patched(t, before, patch)), "%s: %q is not needed in %v", name, key, patch)
		parent[key] = value
	})
}

// patched applies a patch as the API server does.
func patched(t *testing.T, before, patch map[string]any) map[string]any {
	t.Helper()
	document, err := json.Marshal(before)
	require.NoError(t, err)
	raw, err := json.Marshal(patch)
	require.NoError(t, err)
	after, err := jsonpatch.MergePatch(document, raw)
	require.NoError(t, err)
	return parseJSON(t, string(after))
}

func forEachLeaf(patch map[string]any, visit func(parent map[string]any, key string)) {
	for _, key := range sortedKeys(patch) {
		if inner, ok := patch[key].(map[string]any); ok && len(inner) > 0 {
			forEachLeaf(inner, visit)
			continue
		}
		visit(patch, key)
	}
}

// withoutEmpty drops objects that are empty, deeply: a patch empties an object that is gone, and leaves it standing.
func withoutEmpty(obj map[string]any) map[string]any {
	kept := map[string]any{}
	for key, value := range obj {
		if inner, ok := value.(map[string]any); ok {
			if inner = withoutEmpty(inner); len(inner) == 0 {
				continue
			}
			value = inner
		}
		kept[key] = value
	}
	return kept
}

func randomObject(random *rand.Rand, depth int) map[string]any {
	obj := map[string]any{}
	for range random.IntN(4) {
		obj[string(rune('a'+random.IntN(4)))] = randomValue(random, depth)
	}
	return obj
}

func randomValue(random *rand.Rand, depth int) any {
	kinds := 6
	if depth == 0 {
		kinds = 4
	}
	switch random.IntN(kinds) {
	case 0:
		return []string{"", "x", "y"}[random.IntN(3)]
	case 1:
		return random.IntN(2) == 0
	case 2:
		return int64(random.IntN(3))
	case 3:
		return []float64{0.5, 1.5}[random.IntN(2)]
	case 4:
		list := []any{}
		for range random.IntN(3) {
			list = append(list, randomValue(random, depth-1))
		}
		return list
	default:
		return randomObject(random, depth-1)
	}
}

// mutated returns a copy with a few changes, so that most of the two objects is the same.
func mutated(random *rand.Rand, obj map[string]any) map[string]any {
	changed := runtime.DeepCopyJSON(obj)
	for _, key := range sortedKeys(changed) {
		if inner, isObject := changed[key].(map[string]any); isObject {
			changed[key] = mutated(random, inner)
			continue
		}
		switch random.IntN(5) {
		case 0:
			delete(changed, key)
		case 1:
			changed[key] = randomValue(random, 2)
		}
	}
	if random.IntN(4) == 0 {
		changed["new"] = randomValue(random, 2)
	}
	return changed
}
