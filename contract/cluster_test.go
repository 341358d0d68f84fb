package contract_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/machinist-dev/machinist/contract"
)

func clusterMalformedCases() map[string]malformedCase {
	cases := map[string]malformedCase{}
	for _, v := range []contract.Version{contract.V1Beta1, contract.V1Beta2} {
		c := malformedCase{layout: contract.LayoutsOf(v).Cluster, base: `{}`, spared: []string{"Conditions"},
			read: func(obj *unstructured.Unstructured) (error, error) {
				var s contract.ClusterState
				return contract.LayoutsOf(v).Cluster.Read(obj, &s), s.Unreadable
			}}
		if v == contract.V1Beta1 {
			c.writeOnly = []string{"ControlPlane.Namespace"}
		}
		cases["Cluster "+string(v)] = c
	}
	return cases
}

const clusterMetadata = `"metadata":{"namespace":"default","name":"demo","uid":"u","deletionTimestamp":"2026-03-01T12:00:00Z",
	"annotations":{"cluster.x-k8s.io/paused":""}}`

func TestCluster_IsReadWithThePathsOfItsVersion(t *testing.T) {
	for v, object := range map[contract.Version]string{
		contract.V1Beta1: `{"kind":"Cluster",` + clusterMetadata + `,
			"spec":{"paused":true,"controlPlaneRef":{"apiVersion":"controlplane.cluster.x-k8s.io/v1beta1","kind":"KubeadmControlPlane","namespace":"default","name":"cp"}},
			"status":{"infrastructureReady":true,"controlPlaneReady":false,"conditions":[{"type":"Ready","status":"False","severity":"Info"},
				{"type":"ControlPlaneInitialized","status":"True","lastTransitionTime":"2026-03-01T12:00:00Z"}]}}`,
		contract.V1Beta2: `{"kind":"Cluster",` + clusterMetadata + `,
			"spec":{"paused":true,"controlPlaneRef":{"apiGroup":"controlplane.cluster.x-k8s.io","kind":"KubeadmControlPlane","name":"cp"}},
			"status":{"initialization":{"infrastructureProvisioned":true,"controlPlaneInitialized":true},"conditions":[{"type":"Available","status":"False"},
				{"type":"ControlPlaneInitialized","status":"True","reason":"Initialized","lastTransitionTime":"2026-03-01T12:00:00Z"}]}}`,
	} {
		obj, before := parseObject(t, object), parseObject(t, object)
		state := contract.ClusterState{Unreadable: contract.ErrWrongType}
		require.NoError(t, contract.LayoutsOf(v).Cluster.Read(obj, &state))
		want := contract.ClusterState{
			Metadata: contract.Metadata{
				Key: types.NamespacedName{Namespace: "default", Name: "demo"}, UID: "u", Deleting: noon,
				Annotations: map[string]string{"cluster.x-k8s.io/paused": ""},
			},
			SpecPaused: true, InfrastructureProvisioned: true, ControlPlaneInitialized: true, ControlPlaneInitializedAt: noon,
			ControlPlane: contract.Ref{Group: "controlplane.cluster.x-k8s.io", Kind: "KubeadmControlPlane", Name: "cp"},
		}
		if diff := cmp.Diff(want, state, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", v, diff)
		}
		require.True(t, state.Paused(), "the annotation counts too")
		require.Empty(t, cmp.Diff(before.Object, obj.Object), "reading changes nothing")

		require.NoError(t, contract.LayoutsOf(v).Cluster.Read(parseObject(t, `{}`), &state))
		if diff := cmp.Diff(contract.ClusterState{}, state, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%s: an empty object says nothing (-want +got):\n%s", v, diff)
		}
	}
}

// The flag and the condition are written in two steps, and a Cluster that was restored from a backup may have only one of them.
func TestCluster_ControlPlaneInitialized(t *testing.T) {
	for status, want := range map[string]struct {
		initialized bool
		at          time.Time
	}{
		`{"initialization":{"controlPlaneInitialized":true}}`: {initialized: true},
		`{"conditions":[{"type":"ControlPlaneInitialized","status":"True","lastTransitionTime":"2026-03-01T12:00:00Z"}]}`: {initialized: true,
			at: noon},
		`{"conditions":[{"type":"ControlPlaneInitialized","status":"False","lastTransitionTime":"2026-03-01T12:00:00Z"}]}`: {},
		`{"conditions":[{"type":"ControlPlaneInitialized","status":"Unknown"}]}`:                                           {},
		`{"initialization":{"controlPlaneInitialized":false}}`:                                                             {},
	} {
		var state contract.ClusterState
		require.NoError(t, contract.LayoutsOf(contract.V1Beta2).Cluster.Read(parseObject(t, `{"status":`+status+`}`), &state))
		require.Equal(t, want.initialized, state.ControlPlaneInitialized, status)
		require.Equal(t, want.at, state.ControlPlaneInitializedAt, status)
	}
}

func FuzzClusterRead(f *testing.F) {
	seeds(f)
	f.Add([]byte(`{"spec":{"paused":"x","controlPlaneRef":[]},"status":{"conditions":[{"type":"ControlPlaneInitialized","status":3}]}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		obj := &unstructured.Unstructured{Object: anyObject(text)}
		before := obj.DeepCopy()
		for _, v := range []contract.Version{contract.V1Beta1, contract.V1Beta2} {
			if err := contract.LayoutsOf(v).Cluster.Read(obj, &contract.ClusterState{}); err != nil {
				require.ErrorIs(t, err, contract.ErrWrongType)
			}
		}
		require.Empty(t, cmp.Diff(before.Object, obj.Object), "Read changed the object")
	})
}
