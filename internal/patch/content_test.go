package patch

import (
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// The same is written again although its times are others: only then is a write known to be undone.
func TestContentOfPatch(t *testing.T) {
	hash := func(body string) uint64 {
		c, err := contentOfPatch(client.RawPatch(types.MergePatchType, []byte(body)))
		require.NoError(t, err)
		return c.hash
	}
	annotation := func(text string) string {
		return `{"metadata":{"uid":"u","annotations":{"example.com/a":"` + text + `"}}}`
	}
	for name, tc := range map[string]struct {
		one, other string
		same       bool
	}{
		"preconditions": {
			one: `{"metadata":{"uid":"u","resourceVersion":"1","labels":{"a":"b"}}}`, other: `{"metadata":{"uid":"u","labels":{"a":"b"}}}`,
			same: true},
		"times of conditions": {
			one:   `{"status":{"conditions":[{"type":"Ready","lastTransitionTime":"2026-01-02T03:04:05Z"}]}}`,
			other: `{"status":{"conditions":[{"type":"Ready","lastTransitionTime":"2026-01-02T03:04:06Z"}]}}`, same: true},
		"a time in an annotation": {
			one: annotation("since 2026-01-02T03:04:05Z"), other: annotation("since 2026-01-02T03:04:06.5Z"), same: true},
		"seconds in an annotation":    {one: annotation(`{\"at\":1767226644}`), other: annotation(`{\"at\":1767226685}`), same: true},
		"a number in an annotation":   {one: annotation(`{\"next\":3}`), other: annotation(`{\"next\":4}`)},
		"a label that ends in digits": {one: `{"metadata":{"labels":{"a":"1767226644"}}}`, other: `{"metadata":{"labels":{"a":"1767226685"}}}`},
	} {
		t.Run(name, func(t *testing.T) { require.Equal(t, tc.same, hash(tc.one) == hash(tc.other)) })
	}
}

func TestContentOfAJSONPatch(t *testing.T) {
	for name, tc := range map[string]struct{ operations, fields string }{
		"a field":          {`{"op":"add","path":"/spec/unschedulable","value":true}`, "spec.unschedulable"},
		"a key with signs": {`{"op":"add","path":"/metadata/labels/a.b~1c~0d","value":"e"}`, "metadata.labels[a.b/c~d]"},
		"a removed key":    {`{"op":"remove","path":"/metadata/labels/a"}`, "metadata.labels.a"},
		"a test is no change": {
			`{"op":"test","path":"/spec/taints/0/key","value":"k"},{"op":"remove","path":"/spec/taints/0"}`, "spec.taints.0"},
		"a map that is made as well": {
			`{"op":"add","path":"/metadata/labels","value":{}},{"op":"add","path":"/metadata/labels/a","value":"b"}`, "metadata.labels.a"},
		"a value below another": {
			`{"op":"remove","path":"/spec/taints/0"},{"op":"add","path":"/spec/taints/0/value","value":"v"}`, "spec.taints.0"},
	} {
		t.Run(name, func(t *testing.T) {
			body := `[{"op":"test","path":"/metadata/uid","value":"u"},` + tc.operations + `]`
			c, err := contentOfPatch(client.RawPatch(types.JSONPatchType, []byte(body)))
			require.NoError(t, err)
			require.Equal(t, types.UID("u"), c.object)
			require.Equal(t, tc.fields, c.fields())
		})
	}
}
