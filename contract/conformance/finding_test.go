package conformance_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/machinist-dev/machinist/contract/conformance"
)

func TestFinding_IsALineAndReadableJSON(t *testing.T) {
	finding := conformance.Finding{Level: conformance.Must, Path: "spec.scope", Found: "Cluster", Want: "Namespaced", Rule: "scope"}
	require.Equal(t, "MUST spec.scope: found Cluster, want Namespaced (scope)", finding.String())
	raw, err := json.Marshal(finding)
	require.NoError(t, err)
	require.JSONEq(t, `{"level":"MUST","path":"spec.scope","found":"Cluster","want":"Namespaced","rule":"scope"}`, string(raw))
	var back conformance.Finding
	require.NoError(t, json.Unmarshal(raw, &back))
	require.Equal(t, finding, back)
}
