package contract_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

	"github.com/machinist-dev/machinist/contract"
)

const fullMachinePoolV1Beta2 = `{
	"apiVersion":"cluster.x-k8s.io/v1beta2","kind":"MachinePool",` + setMetadata + `,
	"spec":{
		"clusterName":"c1","replicas":0,"unknown":"kept","template":` + templateV1Beta2 + `,
		"providerIDList":["p://1","p://2"],"failureDomains":["a","b"]
	},
	"status":{
		"replicas":5,"readyReplicas":4,"availableReplicas":3,"upToDateReplicas":0,"observedGeneration":6,"unknown":"kept","phase":"Scaling",
		"nodeRefs":[{"apiVersion":"v1","kind":"Node","name":"n1","uid":"n1-uid"},{"name":"n2","unknown":"not read"}],
		"initialization":{"bootstrapDataSecretCreated":true,"infrastructureProvisioned":false},"conditions":` + setConditions + `,
		"deprecated":{"v1beta1":{"readyReplicas":2,"availableReplicas":1,"unavailableReplicas":8,"failureReason":"FR","failureMessage":"FM",
			"conditions":` + oldConditions + `}}
	}
}`

const fullMachinePoolV1Beta1 = `{
	"apiVersion":"cluster.x-k8s.io/v1beta1","kind":"MachinePool",` + setMetadata + `,
	"spec":{
		"clusterName":"c1","replicas":0,"unknown":"kept","template":` + templateV1Beta1 + `,"minReadySeconds":30,
		"providerIDList":["p://1","p://2"],"failureDomains":["a","b"]
	},
	"status":{
		"replicas":5,"readyReplicas":2,"availableReplicas":1,"unavailableReplicas":8,"observedGeneration":6,"unknown":"kept","phase":"Scaling",
		"nodeRefs":[{"apiVersion":"v1","kind":"Node","name":"n1","uid":"n1-uid"},{"name":"n2","unknown":"not read"}],
		"bootstrapReady":true,"infrastructureReady":false,"failureReason":"FR","failureMessage":"FM","conditions":` + oldConditions + `,
		"v1beta2":{"readyReplicas":4,"availableReplicas":3,"upToDateReplicas":0,"conditions":` + setConditions + `}
	}
}`

func machinePoolState() contract.MachinePoolState {
	replicated := replicatedState()
	replicated.Selector, replicated.SelectorText, replicated.DeletionOrder, replicated.MachineNaming = nil, "", "", ""
	return contract.MachinePoolState{
		Metadata: setMeta(), ReplicatedState: replicated,
		ProviderIDs: []string{"p://1", "p://2"}, Phase: "Scaling",
		Nodes:          []contract.NodeRef{{Name: "n1", UID: "n1-uid"}, {Name: "n2"}},
		BootstrapReady: contract.Some(true), InfrastructureReady: contract.Some(false),
		UnavailableReplicas: contract.Some(int32(8)), FailureReason: "FR", FailureMessage: "FM",
	}
}

func machinePoolUpdate() contract.MachinePoolUpdate {
	return contract.MachinePoolUpdate{
		MetadataUpdate: fullUpdate().MetadataUpdate, ReplicatedUpdate: replicatedUpdate(),
		ProviderIDs: contract.SetTo([]string{"p://2", "p://3"}), DataSecretName: contract.SetTo("secret"), Phase: contract.SetTo("Running"),
		Nodes:          contract.SetTo([]contract.NodeRef{{Name: "n3"}, {Name: "n1", UID: "new-uid"}}),
		BootstrapReady: contract.SetTo(false), InfrastructureReady: contract.SetTo(true), UnavailableReplicas: contract.SetTo(int32(0)),
		FailureReason: contract.SetTo("FR2"), FailureMessage: contract.SetTo("FM2"),
	}
}

func applyMachinePool(s *contract.MachinePoolState) {
	applyMetadata(&s.Metadata)
	applyReplicated(&s.ReplicatedState)
	s.SelectorText = ""
	s.ProviderIDs, s.Template.DataSecretName, s.Phase = []string{"p://2", "p://3"}, contract.Some("secret"), "Running"
	s.Nodes = []contract.NodeRef{{Name: "n3"}, {Name: "n1", UID: "new-uid"}}
	s.BootstrapReady, s.InfrastructureReady, s.UnavailableReplicas = contract.Some(false), contract.Some(true), contract.Some(int32(0))
	s.FailureReason, s.FailureMessage = "FR2", "FM2"
}

type machinePoolCase = setCase[contract.MachinePoolState, contract.MachinePoolUpdate]

func machinePoolCases() []machinePoolCase {
	const old, initialization = "status.deprecated.v1beta1.", "status.initialization."
	places := []string{"spec.providerIDList", "spec.template.spec.bootstrap.dataSecretName", "status.phase", "status.nodeRefs"}
	unsaid := []string{"Provider", "NodeLabels", "NodeAnnotations", "Selector", "SelectorText", "DeletionOrder", "MachineNaming"}
	return []machinePoolCase{
		{
			layout: contract.LayoutsOf(contract.V1Beta1).MachinePool, kind: "machinepools", version: "v1beta1", full: fullMachinePoolV1Beta1,
			state: machinePoolState(), unsaid: unsaid, update: machinePoolUpdate(), apply: applyMachinePool,
			writes: slices.Concat(places, poolWrites("v1beta1", "status.bootstrapReady", "status.infrastructureReady",
				"status.unavailableReplicas", "status.failureReason", "status.failureMessage")),
		},
		{
			layout: contract.LayoutsOf(contract.V1Beta2).MachinePool, kind: "machinepools", version: "v1beta2", full: fullMachinePoolV1Beta2,
			state: machinePoolState(), unsaid: unsaid, update: machinePoolUpdate(), apply: applyMachinePool,
			writes: slices.Concat(places, poolWrites("v1beta2", initialization+"bootstrapDataSecretCreated",
				initialization+"infrastructureProvisioned", old+"unavailableReplicas", old+"failureReason", old+"failureMessage")),
		},
	}
}

// poolWrites leaves out what pools have no place for.
func poolWrites(version string, more ...string) []string {
	return slices.DeleteFunc(replicatedWrites(version, more...), func(place string) bool { return place == "status.selector" })
}

func TestMachinePool_IsReadAndWrittenInBothVersions(t *testing.T) {
	for _, c := range machinePoolCases() {
		c.check(t)
	}
}

func TestMachinePool_EmptyValuesLeaveNothingBehindButTheNameOfASecret(t *testing.T) {
	adapter := contract.Unstructured(machineGVK, contract.LayoutsOf(contract.V1Beta2).MachinePool).Adapter
	obj := parseObject(t, `{"spec":{"providerIDList":["p"]},"status":{"phase":"x","nodeRefs":[{"name":"n"}],"initialization":{"bootstrapDataSecretCreated":true},
		"deprecated":{"v1beta1":{"failureReason":"x"}}}}`)
	require.NoError(t, adapter.Write(obj, contract.MachinePoolUpdate{
		ProviderIDs: contract.SetTo([]string{}), DataSecretName: contract.SetTo(""), Phase: contract.SetTo(""),
		Nodes: contract.Cleared[[]contract.NodeRef](), BootstrapReady: contract.Cleared[bool](), FailureReason: contract.SetTo(""),
	}))
	require.Empty(t, cmp.Diff(parseJSON(t, `{"spec":{"template":{"spec":{"bootstrap":{"dataSecretName":""}}}},"status":{}}`), obj.Object))
}

func TestMachinePool_ANodeIsWrittenAsAReference(t *testing.T) {
	adapter, obj := contract.Unstructured(machineGVK, contract.LayoutsOf(contract.V1Beta1).MachinePool).Adapter, parseObject(t, `{}`)
	nodes := contract.SetTo([]contract.NodeRef{{Name: "n1", UID: "u1"}, {Name: "n2"}})
	require.NoError(t, adapter.Write(obj, contract.MachinePoolUpdate{Nodes: nodes}))
	require.Empty(t, cmp.Diff(parseJSON(t, `{"status":{"nodeRefs":[
		{"apiVersion":"v1","kind":"Node","name":"n1","uid":"u1"},{"apiVersion":"v1","kind":"Node","name":"n2"}]}}`), obj.Object))
}

// A pool may have 10,000 instances, and is read on every pass.
func TestMachinePool_AnUnchangedLargePoolIsReadWithoutAnAllocation(t *testing.T) {
	const size = 10_000
	ids, nodes := make([]string, 0, size), make([]contract.NodeRef, 0, size)
	for i := range size {
		ids = append(ids, fmt.Sprintf("p://%d", i))
		nodes = append(nodes, contract.NodeRef{Name: fmt.Sprintf("n%d", i), UID: types.UID(fmt.Sprintf("u%d", i))})
	}
	adapter := contract.Unstructured(machineGVK, contract.LayoutsOf(contract.V1Beta2).MachinePool).Adapter
	obj := parseObject(t, fullMachinePoolV1Beta2)
	require.NoError(t, adapter.Write(obj, contract.MachinePoolUpdate{ProviderIDs: contract.SetTo(ids), Nodes: contract.SetTo(nodes)}))
	var state contract.MachinePoolState
	require.NoError(t, adapter.Read(obj, &state))
	require.Equal(t, ids, state.ProviderIDs)
	require.Equal(t, nodes, state.Nodes)
	allocations(t, "reading a large pool again", 0, func() { _ = adapter.Read(obj, &state) })

	before := state
	changed := slices.Clone(nodes)
	changed[size-1].UID = "new"
	require.NoError(t, adapter.Write(obj, contract.MachinePoolUpdate{Nodes: contract.SetTo(changed)}))
	require.NoError(t, adapter.Read(obj, &state))
	require.Equal(t, changed, state.Nodes)
	require.Equal(t, nodes, before.Nodes, "what was handed out does not change")
}

func FuzzMachinePoolReadAndWrite(f *testing.F) { fuzzSet(f, machinePoolCases()) }
