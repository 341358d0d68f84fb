package contract_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/machinist-dev/machinist/contract"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func TestConditions_AreReadInBothShapes(t *testing.T) {
	obj := parseJSON(t, `{"status":{"conditions":[
		{"type":"Ready","status":"True","reason":"Up","message":"m","observedGeneration":3,"lastTransitionTime":"2026-03-01T14:00:00+02:00"},
		{"type":"Old","status":"False","severity":"Error","reason":"","lastTransitionTime":"2026-03-01T12:00:00Z"},
		{"type":"Bare","status":"Unknown"},
		{"type":"NullTime","status":"Unknown","reason":"R","lastTransitionTime":null},
		{"type":"EmptyTime","status":"Unknown","reason":"R","lastTransitionTime":""}
	]}}`)
	want := []metav1.Condition{
		{Type: "Ready", Status: "True", Reason: "Up", Message: "m", ObservedGeneration: 3, LastTransitionTime: metav1.NewTime(noon)},
		{Type: "Old", Status: "False", Reason: contract.ReasonNotReported, LastTransitionTime: metav1.NewTime(noon)},
		{Type: "Bare", Status: "Unknown", Reason: contract.ReasonNotReported},
		{Type: "NullTime", Status: "Unknown", Reason: "R"},
		{Type: "EmptyTime", Status: "Unknown", Reason: "R"},
	}
	f := contract.ConditionsAt("status", "conditions")
	got, err := f.Get(obj, make([]metav1.Condition, 7))
	require.NoError(t, err)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for _, c := range want {
		found, ok, err := f.Find(obj, c.Type)
		require.NoError(t, err)
		require.True(t, ok)
		require.Empty(t, cmp.Diff(c, found))
		require.Equal(t, time.UTC, found.LastTransitionTime.Location(), "states must compare equal whatever zone was written")
	}
}

// What TestMalformedObjects does not plant. Cluster API's reader panics on some of these.
func TestConditions_MalformedEntries(t *testing.T) {
	const at = "status.conditions.0"
	for name, c := range map[string]struct{ entry, want string }{
		"no type":                 {`{"status":"True"}`, at + ".type: want string, found nothing"},
		"an empty type":           {`{"type":"","status":"True"}`, at + ".type: want string, found nothing"},
		"a type that is a number": {`{"type":1,"status":"True"}`, at + ".type: want string, found integer"},
		"no status":               {`{"type":"Ready"}`, at + ".status: want True, False or Unknown, found nothing"},
		"a status of its own":     {`{"type":"Ready","status":"true"}`, at + ".status: want True, False or Unknown, found another text"},
		"a time that is none": {`{"type":"Ready","status":"True","lastTransitionTime":"yesterday"}`,
			at + ".lastTransitionTime: want RFC 3339 time, found unreadable text"},
	} {
		t.Run(name, func(t *testing.T) {
			obj := parseJSON(t, `{"status":{"conditions":[`+c.entry+`,{"type":"Good","status":"True","reason":"R"}]}}`)
			f := contract.ConditionsAt("status", "conditions")
			_, err := f.Get(obj, nil)
			require.EqualError(t, err, c.want)
			require.ErrorIs(t, err, contract.ErrWrongType)

			good, found, err := f.Find(obj, "Good")
			require.NoError(t, err, "the neighbours of a condition do not matter")
			require.True(t, found)
			require.Equal(t, "R", good.Reason)

			ready, found, err := f.Find(obj, "Ready")
			require.Equal(t, metav1.Condition{}, ready)
			require.False(t, found)
			if err != nil {
				require.EqualError(t, err, c.want)
			}
		})
	}
}

func TestConditions_TheListMayBeAbsentOrOfAnotherType(t *testing.T) {
	for name, c := range map[string]struct{ object, err string }{
		"no status":             {object: `{}`},
		"no list":               {object: `{"status":{}}`},
		"a null list":           {object: `{"status":{"conditions":null}}`},
		"an empty list":         {object: `{"status":{"conditions":[]}}`},
		"an object as list":     {object: `{"status":{"conditions":{}}}`, err: "status.conditions: want list, found object"},
		"a status that is none": {object: `{"status":[]}`, err: "status: want object, found list"},
	} {
		t.Run(name, func(t *testing.T) {
			f := contract.ConditionsAt("status", "conditions")
			got, err := f.Get(parseJSON(t, c.object), nil)
			_, found, findErr := f.Find(parseJSON(t, c.object), "Ready")
			require.Empty(t, got)
			require.False(t, found)
			if c.err == "" {
				require.NoError(t, err)
				require.NoError(t, findErr)
				return
			}
			require.EqualError(t, err, c.err)
			require.EqualError(t, findErr, c.err)
		})
	}
}

// A provider on its way to metav1 conditions has both lists; Cluster API lets the one in the new shape count.
func TestConditions_AProviderInTransitionIsReadFromTheNewList(t *testing.T) {
	for name, c := range map[string]struct{ status, reason string }{
		"both lists":           {`{"v1beta2":{"conditions":[{"type":"Ready","status":"True","reason":"New"}]},"conditions":[{"type":"Ready","status":"False","reason":"Old"}]}`, "New"},
		"the new one is null":  {`{"v1beta2":{"conditions":null},"conditions":[{"type":"Ready","status":"False","reason":"Old"}]}`, "Old"},
		"the new one is none":  {`{"v1beta2":"x","conditions":[{"type":"Ready","status":"False","reason":"Old"}]}`, "Old"},
		"the new one is empty": {`{"v1beta2":{"conditions":[]},"conditions":[{"type":"Ready","status":"False","reason":"Old"}]}`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			for _, v := range contract.Versions() {
				var state contract.InfraMachineState
				require.NoError(t, contract.LayoutsOf(v).InfraMachine.Read(parseObject(t, `{"status":`+c.status+`}`), &state))
				require.Equal(t, c.reason, state.Ready.Or(metav1.Condition{}).Reason)
			}
		})
	}
}

func TestConditions_NewOnesAreSortedIn(t *testing.T) {
	obj := parseObject(t, `{"status":{"conditions":[{"type":"Paused","status":"True"},{"type":"Deleting","status":"True"}]}}`)
	require.NoError(t, machineKind().Adapter.Write(obj, contract.MachineUpdate{Conditions: []metav1.Condition{
		{Type: "Ready", Status: "True", Reason: "R"}, {Type: "Available", Status: "True", Reason: "R"}}}))
	all, err := contract.ConditionsAt("status", "conditions").Get(obj.Object, nil)
	require.NoError(t, err)
	var kinds []string
	for _, c := range all {
		kinds = append(kinds, c.Type)
	}
	require.Equal(t, []string{"Available", "Paused", "Deleting", "Ready"}, kinds)
}
