package contract_test

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/machinist-dev/machinist/contract"
)

// fullMachineV1Beta1 says in the shape of v1beta1 what fullMachine says in that of v1beta2.
const fullMachineV1Beta1 = `{
	"apiVersion":"cluster.x-k8s.io/v1beta1","kind":"Machine",
	"metadata":{` + fullMetadata + `,"labels":{"cluster.x-k8s.io/cluster-name":"c1","x":"y"},
		"annotations":{"other":"kept"}
	},
	"spec":{
		"clusterName":"c1","version":"v1.36.3","providerID":"p://1","failureDomain":"a",
		"bootstrap":{"configRef":{"apiVersion":"bootstrap.cluster.x-k8s.io/v1beta1","kind":"KubeadmConfig","namespace":"default","name":"b1"},
			"dataSecretName":""},
		"infrastructureRef":{"apiVersion":"infrastructure.cluster.x-k8s.io/v1beta1","kind":"AWSMachine","namespace":"default","name":"i1","uid":"i-uid"},
		"nodeDrainTimeout":"0s","nodeDeletionTimeout":"10s","nodeVolumeDetachTimeout":"1m30s",
		"readinessGates":[{"conditionType":"Synced"},{"conditionType":"Broken","polarity":"Negative"}],
		"taints":[{"key":"k","value":"v","effect":"NoSchedule","propagation":"Always"}]
	},
	"status":{
		"phase":"Deleting","nodeRef":{"apiVersion":"v1","kind":"Node","name":"n1","uid":"n-uid"},"observedGeneration":6,
		"lastUpdated":"2026-03-01T12:00:00Z","certificatesExpiryDate":"2026-03-02T12:00:00Z",
		"deletion":{"nodeDrainStartTime":"2026-03-01T14:00:00+02:00","waitForNodeVolumeDetachStartTime":"2026-03-01T13:00:00Z"},
		"failureReason":"FR","failureMessage":"FM","bootstrapReady":true,"infrastructureReady":false,
		"addresses":[{"type":"Hostname","address":"h"}],"nodeInfo":{"kubeletVersion":"v1.36.3"},
		"conditions":[{"type":"Ready","status":"False","severity":"Error","reason":"Old","message":"old","lastTransitionTime":"2026-03-01T12:00:00Z"},
			{"type":"Available","status":"False","severity":"Info","reason":"A","lastTransitionTime":"2026-03-01T12:00:00Z"}],
		"v1beta2":{"conditions":[
			{"type":"Ready","status":"False","reason":"R","message":"m","observedGeneration":6,"lastTransitionTime":"2026-03-01T12:00:00Z"},
			{"type":"Available","status":"Unknown","reason":"A","lastTransitionTime":"2026-03-01T12:00:00Z","x":"kept"}]}
	}
}`

// fullMetadata is the metadata of fullMachine but for labels and annotations, which depend on the shape.
const fullMetadata = `"namespace":"default","name":"worker-1","uid":"u-1","resourceVersion":"42","generation":7,
		"creationTimestamp":"2026-03-01T12:00:00Z","deletionTimestamp":"2026-03-01T13:00:00Z",
		"finalizers":["machine.cluster.x-k8s.io"],
		"ownerReferences":[{"apiVersion":"cluster.x-k8s.io/v1beta2","kind":"MachineSet","name":"s","uid":"s-uid","controller":true}]`

func fullStateV1Beta1() contract.MachineState {
	state := fullState()
	delete(state.Annotations, contract.NodeUIDAnnotation)
	state.NodeVolumeDetachTimeout = contract.Some(90 * time.Second)
	state.WantedFailureDomain, state.MinReady = "a", contract.Opt[time.Duration]{}
	return state
}

func TestMachineV1Beta1_ConditionsAreReadFromTheNewListWhileThereIsOne(t *testing.T) {
	const old = `"conditions":[{"type":"Ready","status":"False","severity":"Warning","reason":"Old"}]`
	for status, want := range map[string]string{
		`{` + old + `,"v1beta2":{"conditions":[{"type":"Ready","status":"True","reason":"New"}]}}`: "New",
		`{` + old + `,"v1beta2":{"conditions":[]}}`:                                                "",
		`{` + old + `,"v1beta2":{}}`:                                                               "Old",
		`{` + old + `}`:                                                                            "Old",
	} {
		var state contract.MachineState
		require.NoError(t, machineCases()[0].adapter().Read(parseObject(t, `{"status":`+status+`}`), &state))
		got := ""
		for _, c := range state.Conditions {
			got += c.Reason
		}
		require.Equal(t, want, got, status)
	}
}

func TestMachine_ShapesOfConditionsAndNodes(t *testing.T) {
	const at, heartbeat = `"lastTransitionTime":"2026-03-01T12:00:00Z"`, `,"lastHeartbeatTime":null`
	old := func(list string) string { return `{"status":{"conditions":[` + list + `]}}` }
	both := func(old, now string) string {
		return `{"status":{"conditions":[` + old + `],"v1beta2":{"conditions":[` + now + `]}}}`
	}
	condition := func(name string, status metav1.ConditionStatus, message string) metav1.Condition {
		return metav1.Condition{Type: name, Status: status, Reason: "R", Message: message, ObservedGeneration: 3,
			LastTransitionTime: metav1.NewTime(noon)}
	}
	entry := func(name, more string) string {
		return `{"type":"` + name + `","status":"True","reason":"R",` + more + at + `}`
	}
	conditions := func(all ...metav1.Condition) contract.MachineUpdate { return contract.MachineUpdate{Conditions: all} }
	aFalse, aTrue, bTrue := condition("A", "False", "m"), condition("A", "True", ""), condition("B", "True", "")
	node := contract.MachineUpdate{Node: contract.SetTo(contract.NodeRef{Name: "n", UID: "u"})}
	const reference = `{"status":{"nodeRef":{"apiVersion":"v1","kind":"Node","name":"n","uid":"u"}}}`
	for name, c := range map[string]struct {
		in            string
		update        contract.MachineUpdate
		before, after string
	}{
		"False has a severity, and the older schema refuses an empty message": {
			"v1beta1", conditions(condition("A", "False", "")), `{}`,
			both(`{"type":"A","status":"False","severity":"Info","reason":"R",`+at+`}`,
				`{"type":"A","status":"False","reason":"R","message":"","observedGeneration":3,`+at+`}`)},
		"a chosen severity stays": {
			"v1beta1", conditions(aFalse), both(`{"type":"A","status":"False","severity":"Error"}`, ``),
			both(`{"type":"A","status":"False","severity":"Error","reason":"R","message":"m",`+at+`}`,
				`{"type":"A","status":"False","reason":"R","message":"m","observedGeneration":3,`+at+`}`)},
		"True has neither a severity nor the message of before": {
			"v1beta1", conditions(aTrue), both(`{"type":"A","status":"False","severity":"Error","message":"gone"}`, ``),
			both(entry("A", ""), entry("A", `"message":"","observedGeneration":3,`))},
		"a removed one goes from both": {
			"v1beta1", contract.MachineUpdate{RemoveConditions: []string{"A"}}, both(`{"type":"A"},{"type":"B"}`, `{"type":"A"}`),
			both(`{"type":"B"}`, ``)},
		"new ones are in the order of their names": {
			"v1beta1", conditions(bTrue, aTrue), both(entry("Z", ""), ``),
			both(entry("A", "")+`,`+entry("B", "")+`,`+entry("Z", ""),
				entry("A", `"message":"","observedGeneration":3,`)+`,`+entry("B", `"message":"","observedGeneration":3,`))},
		"one list in v1beta2": {
			"v1beta2", conditions(bTrue, aTrue), old(entry("Z", "")),
			old(entry("A", `"message":"","observedGeneration":3,`) + `,` + entry("B", `"message":"","observedGeneration":3,`) + `,` + entry("Z", ""))},
		"those of Nodes": {
			"Kubermatic", conditions(bTrue, aTrue), old(`{"type":"B","status":"False","lastHeartbeatTime":null}`),
			old(entry("A", `"message":"",`) + `,{"type":"B","status":"True","reason":"R","message":"",` + at + heartbeat + `}`)},
		"the Node in v1beta1":      {"v1beta1", node, `{}`, reference},
		"the Node of Kubermatic's": {"Kubermatic", node, `{}`, reference},
	} {
		t.Run(name, func(t *testing.T) {
			at := slices.IndexFunc(machineCases(), func(m machineCase) bool { return m.version == c.in })
			obj := parseObject(t, c.before)
			require.NoError(t, machineCases()[at].adapter().Write(obj, c.update))
			if diff := cmp.Diff(parseJSON(t, c.after), obj.Object); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestMachineV1Beta1_ReferencesFollowTheirAPIVersion(t *testing.T) {
	for content, want := range map[string]contract.Ref{
		`{"apiVersion":"g.example.com/v1","kind":"K","name":"n"}`: {Group: "g.example.com", Kind: "K", Name: "n"},
		`{"apiVersion":"v1","kind":"Secret","name":"n"}`:          {Kind: "Secret", Name: "n"},
		`{"kind":"K","name":"n","apiGroup":"of the other shape"}`: {Kind: "K", Name: "n"},
		`{}`: {},
	} {
		var state contract.MachineState
		obj := parseObject(t, `{"spec":{"infrastructureRef":`+content+`,"bootstrap":{"configRef":`+content+`}}}`)
		require.NoError(t, machineCases()[0].adapter().Read(obj, &state), content)
		require.Equal(t, want, state.Infrastructure, content)
		require.Equal(t, want, state.Bootstrap, content)
	}
}
