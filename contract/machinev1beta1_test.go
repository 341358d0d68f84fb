package contract_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/machinist-dev/machinist/contract"
)

func machineV1Beta1Kind() contract.Kind {
	gvk := schema.GroupVersionKind{Group: "cluster.x-k8s.io", Version: "v1beta1", Kind: "Machine"}
	return contract.Unstructured(gvk, contract.LayoutsOf(contract.V1Beta1).Machine)
}

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

// updatedMetadata is what fullUpdate makes of it.
const updatedMetadata = `"namespace":"default","name":"worker-1","uid":"u-1","resourceVersion":"42","generation":7,
		"creationTimestamp":"2026-03-01T12:00:00Z","deletionTimestamp":"2026-03-01T13:00:00Z",
		"finalizers":["a","b"],"ownerReferences":[{"apiVersion":"v1","kind":"K","name":"o","uid":"o-uid"}]`

// updatedMachineV1Beta1 is fullMachineV1Beta1 after fullUpdate.
const updatedMachineV1Beta1 = `{
	"apiVersion":"cluster.x-k8s.io/v1beta1","kind":"Machine",
	"metadata":{` + updatedMetadata + `,"labels":{"cluster.x-k8s.io/cluster-name":"c1","new":"label"},
		"annotations":{"other":"kept","note":""}
	},
	"spec":{
		"clusterName":"c1","version":"v1.36.3","providerID":"p://2","failureDomain":"c",
		"bootstrap":{"configRef":{"apiVersion":"bootstrap.cluster.x-k8s.io/v1beta1","kind":"KubeadmConfig","namespace":"default","name":"b1"},
			"dataSecretName":"secret"},
		"infrastructureRef":{"apiVersion":"infrastructure.cluster.x-k8s.io/v1beta1","kind":"AWSMachine","namespace":"default","name":"i1","uid":"i-uid"},
		"nodeDrainTimeout":"0s","nodeDeletionTimeout":"10s","nodeVolumeDetachTimeout":"1m30s",
		"readinessGates":[{"conditionType":"Synced"},{"conditionType":"Broken","polarity":"Negative"}],
		"taints":[{"key":"k","value":"v","effect":"NoSchedule","propagation":"Always"}]
	},
	"status":{
		"phase":"Running","nodeRef":{"apiVersion":"v1","kind":"Node","name":"n2","uid":"n2-uid"},"observedGeneration":8,
		"lastUpdated":"2026-03-01T12:01:00Z","certificatesExpiryDate":"2026-03-01T12:05:00Z",
		"deletion":{"nodeDrainStartTime":"2026-03-01T12:02:00Z","waitForNodeVolumeDetachStartTime":"2026-03-01T12:03:00Z"},
		"failureReason":"FR2","failureMessage":"FM2","bootstrapReady":false,"infrastructureReady":true,
		"addresses":[{"type":"InternalIP","address":"10.0.0.2"},{"type":"Hostname","address":"h2"}],"nodeInfo":{"kubeletVersion":"v1.36.3"},
		"conditions":[{"type":"Ready","status":"True","reason":"Up","lastTransitionTime":"2026-03-01T13:00:00Z"},
			{"type":"Zoned","status":"Unknown","reason":"N","message":"m","lastTransitionTime":"2026-03-01T12:00:00Z"}],
		"v1beta2":{"conditions":[
			{"type":"Ready","status":"True","reason":"Up","message":"","lastTransitionTime":"2026-03-01T13:00:00Z"},
			{"type":"Zoned","status":"Unknown","reason":"N","message":"m","observedGeneration":8,"lastTransitionTime":"2026-03-01T12:00:00Z"}]}
	}
}`

func fullStateV1Beta1() contract.MachineState {
	state := fullState()
	delete(state.Annotations, contract.NodeUIDAnnotation)
	state.NodeVolumeDetachTimeout = contract.Some(90 * time.Second)
	state.WantedFailureDomain, state.MinReady = "a", contract.Opt[time.Duration]{}
	return state
}

func TestMachineV1Beta1_IsReadCompletely(t *testing.T) {
	obj := parseObject(t, fullMachineV1Beta1)
	var state contract.MachineState
	require.NoError(t, machineV1Beta1Kind().Adapter.Read(obj, &state))
	if diff := diffStates(fullStateV1Beta1(), state); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	require.Empty(t, cmp.Diff(parseJSON(t, fullMachineV1Beta1), obj.Object), "reading changes nothing")
}

func TestMachineV1Beta1_IsWrittenCompletelyAndReadBackEqual(t *testing.T) {
	kind := machineV1Beta1Kind()
	obj := parseObject(t, fullMachineV1Beta1)
	require.NoError(t, kind.Adapter.Write(obj, fullUpdate()))
	if diff := cmp.Diff(parseJSON(t, updatedMachineV1Beta1), obj.Object); diff != "" {
		t.Errorf("the object (-want +got):\n%s", diff)
	}
	want := fullStateV1Beta1()
	applyUpdate(&want)
	delete(want.Annotations, contract.NodeUIDAnnotation)
	want.FailureDomain = want.WantedFailureDomain // one field has both
	var got contract.MachineState
	require.NoError(t, kind.Adapter.Read(obj, &got))
	if diff := diffStates(want, got); diff != "" {
		t.Errorf("read back (-want +got):\n%s", diff)
	}
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
		require.NoError(t, machineV1Beta1Kind().Adapter.Read(parseObject(t, `{"status":`+status+`}`), &state))
		got := ""
		for _, c := range state.Conditions {
			got += c.Reason
		}
		require.Equal(t, want, got, status)
	}
}

func TestMachineV1Beta1_ConditionsAreWrittenInBothShapes(t *testing.T) {
	const at = `"lastTransitionTime":"2026-03-01T12:00:00Z"`
	both := func(old, now string) string {
		return `{"status":{"conditions":[` + old + `],"v1beta2":{"conditions":[` + now + `]}}}`
	}
	condition := func(status metav1.ConditionStatus, message string) contract.MachineUpdate {
		return contract.MachineUpdate{Conditions: []metav1.Condition{
			{Type: "A", Status: status, Reason: "R", Message: message, ObservedGeneration: 3, LastTransitionTime: metav1.NewTime(noon)},
		}}
	}
	for name, c := range map[string]struct {
		update        contract.MachineUpdate
		before, after string
	}{
		"False has a severity, and the older schema refuses an empty message": {
			condition("False", ""), `{}`,
			both(`{"type":"A","status":"False","severity":"Info","reason":"R",`+at+`}`,
				`{"type":"A","status":"False","reason":"R","message":"","observedGeneration":3,`+at+`}`)},
		"a chosen severity stays": {
			condition("False", "m"), both(`{"type":"A","status":"False","severity":"Error"}`, ``),
			both(`{"type":"A","status":"False","severity":"Error","reason":"R","message":"m",`+at+`}`,
				`{"type":"A","status":"False","reason":"R","message":"m","observedGeneration":3,`+at+`}`)},
		"True has neither a severity nor the message of before": {
			condition("True", ""), both(`{"type":"A","status":"False","severity":"Error","message":"gone"}`, ``),
			both(`{"type":"A","status":"True","reason":"R",`+at+`}`,
				`{"type":"A","status":"True","reason":"R","message":"","observedGeneration":3,`+at+`}`)},
		"a removed one goes from both": {
			contract.MachineUpdate{RemoveConditions: []string{"A"}}, both(`{"type":"A"},{"type":"B"}`, `{"type":"A"}`), both(`{"type":"B"}`, ``)},
	} {
		t.Run(name, func(t *testing.T) {
			obj := parseObject(t, c.before)
			require.NoError(t, machineV1Beta1Kind().Adapter.Write(obj, c.update))
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
		require.NoError(t, machineV1Beta1Kind().Adapter.Read(obj, &state), content)
		require.Equal(t, want, state.Infrastructure, content)
		require.Equal(t, want, state.Bootstrap, content)
	}
}

func TestMachineV1Beta1_ErrorsNameThePlace(t *testing.T) {
	for content, want := range map[string]string{
		`"spec":{"nodeDrainTimeout":10}`: "spec.nodeDrainTimeout: want string, found integer",
		`"spec":{"nodeDrainTimeout":"soon"}`: "spec.nodeDrainTimeout: want duration such as 1m30s, found " +
			"unreadable text",
		`"spec":{"infrastructureRef":{"apiVersion":1}}`: "spec.infrastructureRef.apiVersion: want string, found integer",
		`"status":{"infrastructureReady":"true"}`:       "status.infrastructureReady: want bool, found string",
		`"status":{"nodeRef":{"uid":7}}`:                "status.nodeRef.uid: want string, found integer",
		`"status":{"v1beta2":{"conditions":[{"type":"A"}]}}`: "status.v1beta2.conditions.0.status: want True, False or Unknown, " +
			"found nothing",
		`"status":{"conditions":[{"type":"A","status":"1","reason":"x"}]}`: "status.conditions.0.status: want True, False or Unknown, found " +
			"another text",
	} {
		obj := parseObject(t, `{"kind":"Machine","metadata":{"namespace":"ns","name":"m"},`+content+`}`)
		err := machineV1Beta1Kind().Adapter.Read(obj, &contract.MachineState{})
		require.ErrorIs(t, err, contract.ErrWrongType, content)
		require.EqualError(t, err, "Machine ns/m: "+want)
	}
}
