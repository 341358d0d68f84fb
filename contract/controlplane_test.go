package contract_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"github.com/machinist-dev/machinist/contract"
)

func diffControlPlanes(want, got contract.ControlPlaneState) string {
	return cmp.Diff(want, got, optsOf[int32](), conditionOpt())
}

func TestControlPlane_IsReadWithThePathsOfItsContract(t *testing.T) {
	const object = `{"kind":"K","metadata":{"name":"c","deletionTimestamp":"2026-03-01T12:00:00Z","annotations":{"cluster.x-k8s.io/paused":""}},
		"spec":{"version":"v1.36.3","replicas":3},
		"status":{"initialized":false,"initialization":{"controlPlaneInitialized":true},"externalManagedControlPlane":true,
			"version":"v1.35.0","replicas":0,"failureReason":"R","failureMessage":"M",
			"conditions":[{"type":"Ready","status":"False"},{"type":"Available","status":"True","reason":"Up"}]}}`
	for _, v := range contractVersions() {
		obj, before := parseObject(t, object), parseObject(t, object)
		state := contract.ControlPlaneState{ExternalManagedControlPlane: true, Unreadable: contract.ErrWrongType}
		require.NoError(t, contract.LayoutsOf(v).ControlPlane.Read(obj, &state))
		want := contract.ControlPlaneState{
			Deleting: noon, ExternalManagedControlPlane: true,
			DesiredVersion: "v1.36.3", CurrentVersion: "v1.35.0",
		}
		if diff := diffControlPlanes(want, state); diff != "" {
			t.Errorf("%s (-want +got):\n%s", v, diff)
		}
		require.Empty(t, cmp.Diff(before.Object, obj.Object), "reading changes nothing")

		require.NoError(t, contract.LayoutsOf(v).ControlPlane.Read(parseObject(t, `{}`), &state))
		if diff := diffControlPlanes(contract.ControlPlaneState{}, state); diff != "" {
			t.Errorf("%s: an empty object says nothing (-want +got):\n%s", v, diff)
		}
	}
}

func TestControlPlane_CurrentVersion(t *testing.T) {
	for status, want := range map[string]string{
		`{"versions":[{"version":"v1.36.3","replicas":2},{"version":"v1.35.10","replicas":1}]}`: "v1.35.10",
		`{"versions":[{"version":"v1.9.0"},{"version":"v1.10.0"}],"version":"v1.8.0"}`:          "v1.9.0",
		`{"versions":[],"version":"v1.36.3"}`:                                                   "v1.36.3",
		`{"versions":[{"replicas":1}],"version":"v1.36.3"}`:                                     "v1.36.3",
		`{"versions":[{"version":"v1.36.3"},{"version":"latest"}]}`:                             "latest",
		`{}`: "",
	} {
		for _, v := range contractVersions() {
			var state contract.ControlPlaneState
			require.NoError(t, contract.LayoutsOf(v).ControlPlane.Read(parseObject(t, `{"status":`+status+`}`), &state))
			require.NoError(t, state.Unreadable)
			require.Equal(t, want, state.CurrentVersion, "%s: %s", v, status)
		}
	}
	var state contract.ControlPlaneState
	require.NoError(t, contract.LayoutsOf(contract.V1Beta2).ControlPlane.Read(parseObject(t, `{"status":{"versions":["v1.36.3"]}}`), &state))
	require.EqualError(t, state.Unreadable, "status.versions.0: want object, found string")
}
