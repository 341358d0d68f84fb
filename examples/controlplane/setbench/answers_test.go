package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// The object has another version when the floor sends the patch.
func TestAPatchOfTheFloorExpectsNoVersion(t *testing.T) {
	for given, want := range map[string]string{
		`{"metadata":{"resourceVersion":"7","uid":"u","labels":{"a":"b"}},"spec":{}}`:                       `{"metadata":{"labels":{"a":"b"}},"spec":{}}`,
		`{"status":{"phase":"Running"}}`:                                                                    `{"status":{"phase":"Running"}}`,
		`[{"op":"test","path":"/metadata/resourceVersion","value":"7"},{"op":"add","path":"/a","value":1}]`: `[{"op":"add","path":"/a","value":1}]`,
	} {
		require.JSONEq(t, want, string(withoutVersion([]byte(given))))
	}
	require.Empty(t, withoutVersion(nil))
}
