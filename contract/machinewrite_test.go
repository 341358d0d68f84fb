package contract_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/machinist-dev/machinist/contract"
)

// fullUpdate sets everything that a pass can change.
func fullUpdate() contract.MachineUpdate {
	return contract.MachineUpdate{
		MetadataUpdate: contract.MetadataUpdate{
			Finalizers:      contract.SetTo([]string{"a", "b"}),
			OwnerReferences: contract.SetTo([]metav1.OwnerReference{{APIVersion: "v1", Kind: "K", Name: "o", UID: "o-uid"}}),
			Labels:          map[string]contract.Change[string]{"new": contract.SetTo("label"), "x": contract.Cleared[string](), "k": {}},
			Annotations:     map[string]contract.Change[string]{"note": contract.SetTo("")},
		},

		ProviderID: contract.SetTo("p://2"), DataSecretName: contract.SetTo("secret"), WantedFailureDomain: contract.SetTo("c"),
		Phase: contract.SetTo("Running"), Node: contract.SetTo(contract.NodeRef{Name: "n2", UID: "n2-uid"}),
		BootstrapReady: contract.SetTo(false), InfrastructureReady: contract.SetTo(true),
		Addresses:           contract.SetTo([]contract.Address{{Type: "InternalIP", Address: "10.0.0.2"}, {Type: "Hostname", Address: "h2"}}),
		FailureDomain:       contract.SetTo("b"),
		ObservedGeneration:  contract.SetTo(int64(8)),
		LastUpdated:         contract.SetTo(noon.Add(time.Minute)),
		DrainStarted:        contract.SetTo(noon.Add(2 * time.Minute)),
		VolumeDetachStarted: contract.SetTo(noon.Add(3 * time.Minute)),
		FailureReason:       contract.SetTo("FR2"), FailureMessage: contract.SetTo("FM2"),
		CertificatesExpire: contract.SetTo(noon.Add(5 * time.Minute)),
		Conditions: []metav1.Condition{
			{Type: "Ready", Status: "True", Reason: "Up", LastTransitionTime: metav1.NewTime(noon.Add(time.Hour))},
			{Type: "Zoned", Status: "Unknown", Reason: "N", Message: "m", ObservedGeneration: 8, LastTransitionTime: metav1.NewTime(noon)},
		},
		RemoveConditions: []string{"Available", "NeverThere"},
	}
}

// applyUpdate says by hand what fullUpdate means for a state.
func applyUpdate(s *contract.MachineState) {
	s.Finalizers = []string{"a", "b"}
	s.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "K", Name: "o", UID: "o-uid"}}
	if s.Labels == nil {
		s.Labels = map[string]string{}
	}
	if s.Annotations == nil {
		s.Annotations = map[string]string{}
	}
	s.Labels["new"] = "label"
	delete(s.Labels, "x")
	s.Annotations["note"] = ""
	s.Annotations["machinist.dev/node-uid"] = "n2-uid"
	s.ProviderID, s.DataSecretName = "p://2", contract.Some("secret")
	s.Phase, s.Node = "Running", contract.NodeRef{Name: "n2", UID: "n2-uid"}
	s.BootstrapReady, s.InfrastructureReady = contract.Some(false), contract.Some(true)
	s.Addresses = []contract.Address{{Type: "InternalIP", Address: "10.0.0.2"}, {Type: "Hostname", Address: "h2"}}
	s.FailureDomain, s.WantedFailureDomain, s.ObservedGeneration = "b", "c", 8
	s.LastUpdated = noon.Add(time.Minute)
	s.DrainStarted = noon.Add(2 * time.Minute)
	s.VolumeDetachStarted = noon.Add(3 * time.Minute)
	s.FailureReason, s.FailureMessage, s.CertificatesExpire = "FR2", "FM2", noon.Add(5*time.Minute)
	s.Conditions = fullUpdate().Conditions
}

func TestMachine_EachChangeAloneTouchesItsOwnPlaceOnly(t *testing.T) {
	for name, c := range map[string]struct {
		update        contract.MachineUpdate
		before, after string
	}{
		"finalizers cleared": {
			contract.MachineUpdate{MetadataUpdate: contract.MetadataUpdate{Finalizers: contract.Cleared[[]string]()}},
			`{"metadata":{"name":"m","finalizers":["a"]}}`, `{"metadata":{"name":"m"}}`,
		},
		"an empty list of finalizers is none": {
			contract.MachineUpdate{MetadataUpdate: contract.MetadataUpdate{Finalizers: contract.SetTo([]string{})}},
			`{"metadata":{"name":"m","finalizers":["a"]}}`, `{"metadata":{"name":"m"}}`,
		},
		"owner references cleared": {
			contract.MachineUpdate{MetadataUpdate: contract.MetadataUpdate{OwnerReferences: contract.Cleared[[]metav1.OwnerReference]()}},
			`{"metadata":{"name":"m","ownerReferences":[{"kind":"K"}]}}`, `{"metadata":{"name":"m"}}`,
		},
		"the last label": {
			contract.MachineUpdate{MetadataUpdate: contract.MetadataUpdate{
				Labels: map[string]contract.Change[string]{"a": contract.Cleared[string]()}}},
			`{"metadata":{"labels":{"a":"b"}}}`, `{"metadata":{}}`,
		},
		"a Node without a UID goes without the annotation": {
			contract.MachineUpdate{Node: contract.SetTo(contract.NodeRef{Name: "n"})},
			`{"metadata":{"annotations":{"machinist.dev/node-uid":"old"}}}`, `{"metadata":{},"status":{"nodeRef":{"name":"n"}}}`,
		},
		"state without a field goes to annotations": {
			contract.MachineUpdate{Node: contract.SetTo(contract.NodeRef{Name: "n", UID: "u"})},
			`{}`, `{"metadata":{"annotations":{"machinist.dev/node-uid":"u"}},"status":{"nodeRef":{"name":"n"}}}`,
		},
		"a cleared Node leaves no empty object": {
			contract.MachineUpdate{Node: contract.Cleared[contract.NodeRef]()},
			`{"metadata":{"annotations":{"machinist.dev/node-uid":"u","x":"y"}},"status":{"nodeRef":{"name":"n"}}}`,
			`{"metadata":{"annotations":{"x":"y"}},"status":{}}`,
		},
		"zero values are written as absent, since schemas refuse them": {
			contract.MachineUpdate{
				ProviderID: contract.SetTo(""), Phase: contract.SetTo(""), Node: contract.SetTo(contract.NodeRef{}),
				FailureDomain: contract.SetTo(""), ObservedGeneration: contract.SetTo(int64(0)), LastUpdated: contract.SetTo(time.Time{}),
				DrainStarted: contract.SetTo(time.Time{}), Addresses: contract.SetTo([]contract.Address{}),
			},
			`{"spec":{"providerID":"p"},"status":{"phase":"x","lastUpdated":"x","deletion":{"nodeDrainStartTime":"x"},"addresses":[],"observedGeneration":1}}`,
			`{"spec":{},"status":{}}`,
		},
		"an empty secret name is a value": {
			contract.MachineUpdate{DataSecretName: contract.SetTo("")}, `{}`, `{"spec":{"bootstrap":{"dataSecretName":""}}}`,
		},
		"false is a value": {
			contract.MachineUpdate{InfrastructureReady: contract.SetTo(false)}, `{}`,
			`{"status":{"initialization":{"infrastructureProvisioned":false}}}`,
		},
		"times are written in UTC, to the second": {
			contract.MachineUpdate{DrainStarted: contract.SetTo(noon.Add(123456789).In(time.FixedZone("x", 3600)))},
			`{}`, `{"status":{"deletion":{"nodeDrainStartTime":"2026-03-01T12:00:00Z"}}}`,
		},
		"a condition keeps its place, its unknown members and its neighbours": {
			contract.MachineUpdate{Conditions: []metav1.Condition{{Type: "B", Status: "True", LastTransitionTime: metav1.NewTime(noon)}}},
			`{"status":{"conditions":[7,{"type":"A"},{"type":"B","observedGeneration":3,"x":"kept"},{"type":"C"}]}}`,
			`{"status":{"conditions":[7,{"type":"A"},{"type":"B","status":"True","reason":"NoReasonReported","message":"",
				"lastTransitionTime":"2026-03-01T12:00:00Z","x":"kept"},{"type":"C"}]}}`,
		},
		"every condition of a removed type goes, the others stay": {
			contract.MachineUpdate{RemoveConditions: []string{"B"}},
			`{"status":{"conditions":[{"type":"B"},null,{"type":"A"},{"type":"B"}]}}`, `{"status":{"conditions":[null,{"type":"A"}]}}`,
		},
		"removing from no list makes no list": {contract.MachineUpdate{RemoveConditions: []string{"B"}}, `{"status":{}}`, `{"status":{}}`},
	} {
		t.Run(name, func(t *testing.T) {
			obj := parseObject(t, c.before)
			require.NoError(t, machineKind().Adapter.Write(obj, c.update))
			if diff := cmp.Diff(parseJSON(t, c.after), obj.Object); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestMachine_WriteRefusals(t *testing.T) {
	for content, c := range map[string]struct {
		update contract.MachineUpdate
		want   string
	}{
		`"status":"x"`: {contract.MachineUpdate{Phase: contract.SetTo("Running")}, "status: want object, found string"},
		`"status":[]`: {contract.MachineUpdate{Addresses: contract.Cleared[[]contract.Address]()},
			"status: want object, found list"},
		`"status":{"conditions":{}}`: {contract.MachineUpdate{RemoveConditions: []string{"A"}}, "status.conditions: want list, found object"},
		`"status":{"conditions":1}`: {contract.MachineUpdate{Conditions: []metav1.Condition{{Type: "A"}}},
			"status.conditions: want list, found integer"},
		`"spec":1`: {contract.MachineUpdate{ProviderID: contract.Cleared[string]()}, "spec: want object, found integer"},
	} {
		t.Run(content, func(t *testing.T) {
			obj := parseObject(t, `{"kind":"Machine","metadata":{"name":"m"},`+content+`}`)
			err := machineKind().Adapter.Write(obj, c.update)
			require.ErrorIs(t, err, contract.ErrWrongType)
			require.EqualError(t, err, "Machine m: "+c.want)
		})
	}
}
