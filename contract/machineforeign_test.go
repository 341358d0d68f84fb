package contract_test

import (
	"encoding/json"
	"maps"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/machinist-dev/machinist/contract"
)

// annotated is the state that neither of the foreign shapes has a field for, as fullState and as fullUpdate say it.
func annotated(updated bool) map[string]string {
	if updated {
		return map[string]string{
			"machinist.dev/bootstrap-data-secret": "secret", "machinist.dev/failure-domain": "b",
			"machinist.dev/bootstrap-data-secret-created": "false", "machinist.dev/infrastructure-provisioned": "true",
			"other": "kept", "note": "",
		}
	}
	return map[string]string{
		"machinist.dev/bootstrap-data-secret": "", "machinist.dev/failure-domain": "a",
		"machinist.dev/bootstrap-data-secret-created": "true", "machinist.dev/infrastructure-provisioned": "false",
		"other": "kept",
	}
}

// with returns the annotations of a shape as JSON: what annotated says, and what this shape alone has no field for.
func with(updated bool, more map[string]string) string {
	all := annotated(updated)
	maps.Copy(all, more)
	raw, _ := json.Marshal(all) // texts only
	return string(raw)
}

// foreignShape is the Machine of another system: what fullState and fullUpdate look like there.
type foreignShape struct {
	kind contract.Kind
	// full and updated are the object before and after fullUpdate. Both hold what only the other system knows.
	full, updated string
	// state is what is read from full.
	state func() contract.MachineState
	// annotations are those that this shape alone needs, after fullUpdate.
	annotations map[string]string
}

func foreignShapes() map[string]foreignShape {
	return map[string]foreignShape{"Kubermatic": kubermatic(), "Gardener": gardener()}
}

const (
	nodeConditionsBefore = `[{"type":"Ready","status":"False","reason":"R","message":"m","lastTransitionTime":"2026-03-01T12:00:00Z","lastHeartbeatTime":null},
		{"type":"Available","status":"Unknown","reason":"A","lastTransitionTime":"2026-03-01T12:00:00Z"}]`
	nodeConditionsAfter = `[{"type":"Ready","status":"True","reason":"Up","message":"","lastTransitionTime":"2026-03-01T13:00:00Z","lastHeartbeatTime":null},
		{"type":"Zoned","status":"Unknown","reason":"N","message":"m","lastTransitionTime":"2026-03-01T12:00:00Z"}]`
	addressesAfter = `[{"type":"InternalIP","address":"10.0.0.2"},{"type":"Hostname","address":"h2"}]`
)

func kubermatic() foreignShape {
	kind := contract.Unstructured(schema.GroupVersionKind{Group: "cluster.k8s.io", Version: "v1alpha1", Kind: "Machine"},
		contract.KubermaticLayouts().Machine)
	kind.StatusSubresource = false
	spec := func(providerID string) string {
		return `{"metadata":{"labels":{"of":"the Node"},"annotations":{"its":"own"}},"providerID":"` + providerID + `","versions":{"kubelet":"1.36.3"},
			"taints":[{"key":"k","value":"v","effect":"NoSchedule"}],"providerSpec":{"value":{"operatingSystem":"flatcar","cloudProvider":"aws"},
			"valueFrom":{"machineClass":{"apiVersion":"cluster.k8s.io/v1alpha1","kind":"MachineClass","name":"small","provider":"aws"}}}}`
	}
	return foreignShape{
		kind: kind,
		full: `{"apiVersion":"cluster.k8s.io/v1alpha1","kind":"Machine",
			"metadata":{` + fullMetadata + `,"labels":{"cluster.x-k8s.io/cluster-name":"c1","x":"y"},"annotations":` + with(false, nil) + `},"spec":` + spec("p://1") + `,
			"status":{"phase":"Deleting","nodeRef":{"apiVersion":"v1","kind":"Node","name":"n1","uid":"n-uid"},
			"lastUpdated":"2026-03-01T12:00:00Z","errorReason":"FR","errorMessage":"FM","addresses":[{"type":"Hostname","address":"h"}],
			"conditions":` + nodeConditionsBefore + `,"versions":{"kubelet":"1.36.3"},"providerStatus":{"any":[1,{"thing":true}]},
			"lastOperation":{"type":"Create","state":"Processing"}}}`,
		updated: `{"apiVersion":"cluster.k8s.io/v1alpha1","kind":"Machine",
			"metadata":{` + updatedMetadata + `,"labels":{"cluster.x-k8s.io/cluster-name":"c1","new":"label"},
			"annotations":` + with(true, nil) + `},"spec":` + spec("p://2") + `,
			"status":{"phase":"Running","nodeRef":{"apiVersion":"v1","kind":"Node","name":"n2","uid":"n2-uid"},
			"lastUpdated":"2026-03-01T12:01:00Z","errorReason":"FR2","errorMessage":"FM2","addresses":` + addressesAfter + `,
			"conditions":` + nodeConditionsAfter + `,"versions":{"kubelet":"1.36.3"},"providerStatus":{"any":[1,{"thing":true}]},
			"lastOperation":{"type":"Create","state":"Processing"}}}`,
		state: func() contract.MachineState {
			state := foreignState()
			state.Version, state.Taints[0].Propagation = "1.36.3", ""
			state.NodeLabels, state.NodeAnnotations = map[string]string{"of": "the Node"}, map[string]string{"its": "own"}
			state.Provider = contract.ProviderSpec{
				Spec:  json.RawMessage(`{"cloudProvider":"aws","operatingSystem":"flatcar"}`),
				Class: contract.Ref{Group: "cluster.k8s.io", Kind: "MachineClass", Name: "small"},
			}
			return state
		},
	}
}

func gardener() foreignShape {
	spec := func(providerID string) string {
		return `{"providerID":"` + providerID + `","class":{"apiGroup":"machine.sapcloud.io","kind":"MachineClass","name":"small"},
			"drainTimeout":"0s","healthTimeout":"10m0s","nodeTemplate":{"metadata":{"labels":{"of":"the Node"},"annotations":{"its":"own"}},
			"spec":{"taints":[{"key":"k","value":"v","effect":"NoSchedule"}]}}}`
	}
	const others = `"lastKnownState":"opaque","lastOperation":{"description":"Machine is being created","type":"Create","state":"Processing"}`
	return foreignShape{
		kind: contract.Unstructured(schema.GroupVersionKind{Group: "machine.sapcloud.io", Version: "v1alpha1", Kind: "Machine"},
			contract.GardenerLayouts().Machine),
		full: `{"apiVersion":"machine.sapcloud.io/v1alpha1","kind":"Machine","metadata":{` + fullMetadata + `,
			"labels":{"cluster.x-k8s.io/cluster-name":"c1","x":"y","node":"n1"},"annotations":` + with(false, map[string]string{
			"machinist.dev/node-uid": "n-uid", "machinist.dev/failure-reason": "FR", "machinist.dev/failure-message": "FM"}) + `},
			"spec":` + spec("p://1") + `,"status":{"currentStatus":{"phase":"Deleting","timeoutActive":true,"lastUpdateTime":"2026-03-01T12:00:00Z"},
			"addresses":[{"type":"Hostname","address":"h"}],"conditions":` + nodeConditionsBefore + `,` + others + `}}`,
		updated: `{"apiVersion":"machine.sapcloud.io/v1alpha1","kind":"Machine","metadata":{` + updatedMetadata + `,
			"labels":{"cluster.x-k8s.io/cluster-name":"c1","new":"label","node":"n2"},"annotations":` + with(true, map[string]string{
			"machinist.dev/node-uid": "n2-uid", "machinist.dev/failure-reason": "FR2", "machinist.dev/failure-message": "FM2"}) + `},
			"spec":` + spec("p://2") + `,"status":{"currentStatus":{"phase":"Running","timeoutActive":true,"lastUpdateTime":"2026-03-01T12:01:00Z"},
			"addresses":` + addressesAfter + `,"conditions":` + nodeConditionsAfter + `,` + others + `}}`,
		state: func() contract.MachineState {
			state := foreignState()
			state.Labels["node"] = "n1"
			maps.Copy(state.Annotations, map[string]string{
				"machinist.dev/node-uid": "n-uid", "machinist.dev/failure-reason": "FR", "machinist.dev/failure-message": "FM"})
			state.Provider = contract.ProviderSpec{Class: contract.Ref{Group: "machine.sapcloud.io", Kind: "MachineClass", Name: "small"}}
			state.Version, state.NodeDrainTimeout, state.Taints[0].Propagation = "", contract.Some(time.Duration(0)), ""
			state.NodeLabels, state.NodeAnnotations = map[string]string{"of": "the Node"}, map[string]string{"its": "own"}
			return state
		},
		annotations: map[string]string{
			"machinist.dev/node-uid": "n2-uid", "machinist.dev/failure-reason": "FR2", "machinist.dev/failure-message": "FM2"},
	}
}

// foreignState is fullState without what both systems do not know: a Cluster, provider objects, most timeouts, gates, when certificates end, and
// the generation that a condition is about.
func foreignState() contract.MachineState {
	state := fullState()
	state.Annotations = annotated(false)
	state.ClusterName, state.Bootstrap, state.Infrastructure, state.WantedFailureDomain = "", contract.Ref{}, contract.Ref{}, ""
	none := contract.Opt[time.Duration]{}
	state.NodeDrainTimeout, state.NodeVolumeDetachTimeout, state.NodeDeletionTimeout, state.MinReady = none, none, none, none
	state.ReadinessGates, state.CertificatesExpire, state.ObservedGeneration = nil, time.Time{}, 0
	state.DrainStarted, state.VolumeDetachStarted = time.Time{}, time.Time{}
	withoutGenerations(state.Conditions)
	return state
}

func withoutGenerations(conditions []metav1.Condition) {
	for i := range conditions {
		conditions[i].ObservedGeneration = 0
	}
}

func TestForeignMachines_AreReadCompletely(t *testing.T) {
	for name, shape := range foreignShapes() {
		t.Run(name, func(t *testing.T) {
			obj := parseObject(t, shape.full)
			var state contract.MachineState
			require.NoError(t, shape.kind.Adapter.Read(obj, &state))
			if diff := diffStates(shape.state(), state); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			require.Empty(t, cmp.Diff(parseJSON(t, shape.full), obj.Object), "reading changes nothing")
		})
	}
}

// What only the other system knows, such as its provider's status, is in both texts and stays.
func TestForeignMachines_AreWrittenCompletelyAndReadBackEqual(t *testing.T) {
	for name, shape := range foreignShapes() {
		t.Run(name, func(t *testing.T) {
			obj := parseObject(t, shape.full)
			require.NoError(t, shape.kind.Adapter.Write(obj, fullUpdate()))
			if diff := cmp.Diff(parseJSON(t, shape.updated), obj.Object); diff != "" {
				t.Errorf("the object (-want +got):\n%s", diff)
			}
			again := obj.DeepCopy()
			require.NoError(t, shape.kind.Adapter.Write(again, fullUpdate()))
			require.Empty(t, cmp.Diff(obj.Object, again.Object), "writing twice is writing once")

			var got contract.MachineState
			require.NoError(t, shape.kind.Adapter.Read(obj, &got))
			want := shape.state()
			applyUpdate(&want)
			want.CertificatesExpire, want.DrainStarted, want.VolumeDetachStarted = time.Time{}, time.Time{}, time.Time{}
			want.WantedFailureDomain, want.ObservedGeneration = "", 0 // they have no field for them
			want.Annotations = annotated(true)
			maps.Copy(want.Annotations, shape.annotations)
			if want.Labels["node"] != "" {
				want.Labels["node"] = "n2"
			}
			withoutGenerations(want.Conditions)
			if diff := diffStates(want, got); diff != "" {
				t.Errorf("read back (-want +got):\n%s", diff)
			}
		})
	}
}

func TestForeignMachines_ClearedStateLeavesNothingBehind(t *testing.T) {
	var cleared contract.MachineUpdate
	cleared.Node, cleared.Phase = contract.Cleared[contract.NodeRef](), contract.Cleared[string]()
	cleared.LastUpdated = contract.Cleared[time.Time]()
	cleared.InfrastructureReady, cleared.FailureReason = contract.Cleared[bool](), contract.Cleared[string]()
	written := contract.MachineUpdate{
		Node: contract.SetTo(contract.NodeRef{Name: "n", UID: "u"}), Phase: contract.SetTo("Running"), LastUpdated: contract.SetTo(noon),
		InfrastructureReady: contract.SetTo(true), FailureReason: contract.SetTo("R"),
	}
	for name, shape := range foreignShapes() {
		obj := parseObject(t, `{"metadata":{"name":"m"}}`)
		require.NoError(t, shape.kind.Adapter.Write(obj, written))
		require.NoError(t, shape.kind.Adapter.Write(obj, cleared))
		require.Empty(t, cmp.Diff(parseJSON(t, `{"metadata":{"name":"m"},"status":{}}`), obj.Object), name)
	}
}

func TestForeignMachines_AnnotationsThatCannotBeReadAreErrors(t *testing.T) {
	for annotation, want := range map[string]string{
		`"machinist.dev/infrastructure-provisioned":"maybe"`: "metadata.annotations.machinist.dev/infrastructure-provisioned: want bool, found " +
			"unreadable text",
	} {
		for _, shape := range foreignShapes() {
			obj := parseObject(t, `{"kind":"Machine","metadata":{"namespace":"ns","name":"m","annotations":{`+annotation+`}}}`)
			err := shape.kind.Adapter.Read(obj, &contract.MachineState{})
			require.ErrorIs(t, err, contract.ErrWrongType)
			require.EqualError(t, err, "Machine ns/m: "+want)
		}
	}
}
