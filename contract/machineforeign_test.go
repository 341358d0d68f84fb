package contract_test

import (
	"encoding/json"
	"maps"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"github.com/machinist-dev/machinist/contract"
)

// foreignAnnotations hold what neither of the other systems has a field for, before and after fullUpdate.
func foreignAnnotations(updated bool, more map[string]string) map[string]string {
	all := map[string]string{
		"machinist.dev/bootstrap-data-secret": "", "machinist.dev/failure-domain": "a",
		"machinist.dev/bootstrap-data-secret-created": "true", "machinist.dev/infrastructure-provisioned": "false",
	}
	if updated {
		all = map[string]string{
			"machinist.dev/bootstrap-data-secret": "secret", "machinist.dev/failure-domain": "b",
			"machinist.dev/bootstrap-data-secret-created": "false", "machinist.dev/infrastructure-provisioned": "true",
		}
	}
	maps.Copy(all, more)
	return all
}

const nodeConditionsBefore = `[{"type":"Ready","status":"False","reason":"R","message":"m","lastTransitionTime":"2026-03-01T12:00:00Z","lastHeartbeatTime":null},
		{"type":"Available","status":"Unknown","reason":"A","lastTransitionTime":"2026-03-01T12:00:00Z"}]`

// foreignMachine is the metadata of a full Machine of another system as JSON.
func foreignMachine(labels string, more map[string]string) string {
	annotations := foreignAnnotations(false, more)
	annotations["other"] = "kept"
	raw, _ := json.Marshal(annotations) // texts only
	return `{"metadata":{` + fullMetadata + `,"labels":{"cluster.x-k8s.io/cluster-name":"c1","x":"y"` + labels + `},
		"annotations":` + string(raw) + `}`
}

func foreignMachineCases() []machineCase {
	const addresses = `"addresses":[{"type":"Hostname","address":"h"}],"conditions":` + nodeConditionsBefore
	unsaid := []string{"ClusterName", "Bootstrap", "Infrastructure", "WantedFailureDomain", "NodeVolumeDetachTimeout", "NodeDeletionTimeout",
		"MinReady", "ReadinessGates", "CertificatesExpire", "ObservedGeneration", "DrainStarted", "VolumeDetachStarted"}
	before := map[string]string{"machinist.dev/node-uid": "n-uid", "machinist.dev/failure-reason": "FR", "machinist.dev/failure-message": "FM"}
	after := map[string]string{
		"machinist.dev/node-uid": "n2-uid", "machinist.dev/failure-reason": "FR2", "machinist.dev/failure-message": "FM2"}
	writes := []string{"spec.providerID", "status.addresses", "status.conditions"}
	return []machineCase{
		{
			layout: contract.KubermaticLayouts().Machine, kind: "machines", version: "Kubermatic",
			full: foreignMachine("", nil) + `,"spec":{"metadata":{"labels":{"of":"the Node"},"annotations":{"its":"own"}},
				"providerID":"p://1","versions":{"kubelet":"1.36.3"},"taints":[{"key":"k","value":"v","effect":"NoSchedule"}],
				"providerSpec":{"value":{"operatingSystem":"flatcar","cloudProvider":"aws"},
				"valueFrom":{"machineClass":{"apiVersion":"cluster.k8s.io/v1alpha1","kind":"MachineClass","name":"small","provider":"aws"}}}},
				"status":{"phase":"Deleting","nodeRef":{"apiVersion":"v1","kind":"Node","name":"n1","uid":"n-uid"},
				"lastUpdated":"2026-03-01T12:00:00Z","errorReason":"FR","errorMessage":"FM",` + addresses + `,
				"versions":{"kubelet":"1.36.3"},"providerStatus":{"any":[1,{"thing":true}]}}}`,
			state: foreignState("1.36.3", contract.Opt[time.Duration]{}, nil, contract.ProviderSpec{
				Spec:  json.RawMessage(`{"cloudProvider":"aws","operatingSystem":"flatcar"}`),
				Class: contract.Ref{Group: "cluster.k8s.io", Kind: "MachineClass", Name: "small"},
			}),
			unsaid: append([]string{"NodeDrainTimeout"}, unsaid...), writeOnly: []string{"NodeKind", "NodeAPIVersion", "Class.Namespace"},
			update: fullUpdate(), apply: applyForeign(nil), rereads: 6, // its provider spec is encoded
			writes: append([]string{"status.phase", "status.nodeRef.name", "status.nodeRef.uid", "status.lastUpdated", "status.errorReason",
				"status.errorMessage"}, writes...),
		},
		{
			layout: contract.GardenerLayouts().Machine, kind: "machines", version: "Gardener",
			full: foreignMachine(`,"node":"n1"`, before) + `,"spec":{"providerID":"p://1",
				"class":{"apiGroup":"machine.sapcloud.io","kind":"MachineClass","name":"small"},"drainTimeout":"0s","healthTimeout":"10m0s",
				"nodeTemplate":{"metadata":{"labels":{"of":"the Node"},"annotations":{"its":"own"}},
				"spec":{"taints":[{"key":"k","value":"v","effect":"NoSchedule"}]}}},
				"status":{"currentStatus":{"phase":"Deleting","timeoutActive":true,"lastUpdateTime":"2026-03-01T12:00:00Z"},` + addresses + `,
				"lastKnownState":"opaque"}}`,
			state: foreignState("", contract.Some(time.Duration(0)), before, contract.ProviderSpec{
				Class: contract.Ref{Group: "machine.sapcloud.io", Kind: "MachineClass", Name: "small"}}),
			unsaid: append([]string{"Version"}, unsaid...), update: fullUpdate(), apply: applyForeign(after),
			writes: append([]string{"status.currentStatus.phase", "status.currentStatus.lastUpdateTime"}, writes...),
		},
	}
}

// foreignState is fullState without what both systems do not have; the Gardener Machine has annotations, a label and a timeout more.
func foreignState(
	version string, drain contract.Opt[time.Duration], more map[string]string, provider contract.ProviderSpec,
) contract.MachineState {
	state := fullState()
	state.Annotations = foreignAnnotations(false, more)
	state.Annotations["other"] = "kept"
	if more != nil {
		state.Labels["node"] = "n1"
	}
	none := contract.Opt[time.Duration]{}
	state.ClusterName, state.Bootstrap, state.Infrastructure, state.WantedFailureDomain = "", contract.Ref{}, contract.Ref{}, ""
	state.NodeDrainTimeout, state.NodeVolumeDetachTimeout, state.NodeDeletionTimeout, state.MinReady = drain, none, none, none
	state.NodeLabels, state.NodeAnnotations = map[string]string{"of": "the Node"}, map[string]string{"its": "own"}
	state.ReadinessGates, state.Provider, state.Version, state.Taints[0].Propagation = nil, provider, version, ""
	withoutGenerations(&state)
	return state
}

// withoutGenerations takes out what the other systems have no field for.
func withoutGenerations(s *contract.MachineState) {
	s.DrainStarted, s.VolumeDetachStarted, s.CertificatesExpire, s.ObservedGeneration = time.Time{}, time.Time{}, time.Time{}, 0
	for i := range s.Conditions {
		s.Conditions[i].ObservedGeneration = 0
	}
}

func applyForeign(more map[string]string) func(*contract.MachineState) {
	return func(s *contract.MachineState) {
		applyUpdate(s)
		s.WantedFailureDomain = ""
		withoutGenerations(s)
		delete(s.Annotations, contract.NodeUIDAnnotation)
		maps.Copy(s.Annotations, foreignAnnotations(true, more))
		if more != nil {
			s.Labels["node"] = "n2"
		}
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
	for _, c := range foreignMachineCases() {
		obj := parseObject(t, `{"metadata":{"name":"m"}}`)
		require.NoError(t, c.adapter().Write(obj, written))
		require.NoError(t, c.adapter().Write(obj, cleared))
		require.Empty(t, cmp.Diff(parseJSON(t, `{"metadata":{"name":"m"},"status":{}}`), obj.Object), c.version)
	}
}
