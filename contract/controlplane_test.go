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

// Whether a Node is drained depends on these: what cannot be read must not pass for "no".
func TestControlPlane_WhatADrainDependsOnIsAnErrorWhenItCannotBeRead(t *testing.T) {
	for content, want := range map[string]string{
		`"metadata":{"name":"c"},"status":{"externalManagedControlPlane":"true"}`: "status.externalManagedControlPlane: want bool, found string",
		`"metadata":{"name":"c"},"status":{"externalManagedControlPlane":null}`:   "status.externalManagedControlPlane: want bool, found null",
		`"metadata":{"name":"c","deletionTimestamp":"soon"}`: "metadata.deletionTimestamp: want RFC 3339 time, found " +
			"unreadable text",
	} {
		err := contract.LayoutsOf(contract.V1Beta1).ControlPlane.Read(parseObject(t, `{"kind":"K",`+content+`}`), &contract.ControlPlaneState{})
		require.ErrorIs(t, err, contract.ErrWrongType)
		require.EqualError(t, err, "K c breaks contract v1beta1: "+want)
	}
}

// These rules are for providers that have versions and replicas; others may mean something else by the names.
func TestControlPlane_WhatNoMachineWaitsForHoldsNothingUp(t *testing.T) {
	var state contract.ControlPlaneState
	require.NoError(t, contract.LayoutsOf(
		contract.V1Beta2).ControlPlane.Read(parseObject(t, `{"spec":{"version":{"channel":"stable"},"replicas":"three"},
		"status":{"version":1.36,"replicas":{},"failureReason":[],"failureMessage":"M","initialization":{"controlPlaneInitialized":true},"conditions":"x"}}`), &state))
	require.EqualError(t, state.Unreadable, `spec.version: want string, found object
status.version: want string, found number`)
	state.Unreadable = nil
	if diff := diffControlPlanes(contract.ControlPlaneState{}, state); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestControlPlane_SaysTheLowestOfItsVersions(t *testing.T) {
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
