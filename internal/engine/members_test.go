package engine_test

import (
	"reflect"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/internal/engine"
)

func TestEachMemberOfEachUpdateSaysWhereItIsWritten(t *testing.T) {
	_, machine := engine.NewMembers[contract.MachineUpdate]()
	_, set := engine.NewMembers[contract.MachineSetUpdate]()
	_, deployment := engine.NewMembers[contract.MachineDeploymentUpdate]()
	_, pool := engine.NewMembers[contract.MachinePoolUpdate]()
	for _, err := range []error{machine, set, deployment, pool} {
		require.NoError(t, err)
	}
	_, err := engine.NewMembers[struct{ Phase contract.Change[string] }]()
	require.ErrorContains(t, err, "member Phase")
	_, err = engine.NewMembers[struct {
		Phase contract.Change[string] `write:"status,sometimes"`
	}]()
	require.ErrorContains(t, err, `unknown word "sometimes"`)
}

func TestAnUpdateIsDividedByItsTags(t *testing.T) {
	m, err := engine.NewMembers[contract.MachineUpdate]()
	require.NoError(t, err)
	began := contract.SetTo(time.Unix(1000, 0))
	u := contract.MachineUpdate{
		ProviderID: contract.SetTo("fake://1"), Phase: contract.SetTo("Running"), DrainStarted: began,
		Node: contract.SetTo(contract.NodeRef{Name: "n"}), Conditions: []metav1.Condition{{Type: "Ready"}},
	}
	before := u
	equal := func(want, got contract.MachineUpdate) {
		t.Helper()
		if diff := cmp.Diff(want, got, cmp.Exporter(func(reflect.Type) bool { return true })); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
	main := u
	main.Conditions = nil
	equal(main, m.Main(u))
	status := u
	status.ProviderID = contract.Change[string]{}
	equal(status, m.Status(u))
	equal(contract.MachineUpdate{}, m.Needed(u, false))
	equal(contract.MachineUpdate{DrainStarted: began, Node: u.Node}, m.Needed(u, true))
	equal(before, u)
}

func TestTheMembersOfAnUpdateSayHowUrgentItIs(t *testing.T) {
	m, err := engine.NewMembers[contract.MachineUpdate]()
	require.NoError(t, err)
	for name, tc := range map[string]struct {
		update               contract.MachineUpdate
		urgent, dirty, empty bool
	}{
		"nothing": {empty: true},
		"an empty map": {update: contract.MachineUpdate{MetadataUpdate: contract.MetadataUpdate{Labels: map[string]contract.Change[string]{}}},
			empty: true},
		"a phase":         {update: contract.MachineUpdate{Phase: contract.SetTo("Running")}, dirty: true},
		"a provider ID":   {update: contract.MachineUpdate{ProviderID: contract.SetTo("")}, urgent: true},
		"a stage":         {update: contract.MachineUpdate{DrainStarted: contract.SetTo(time.Time{})}, urgent: true, dirty: true},
		"a drained Node":  {update: contract.MachineUpdate{DrainedNode: contract.SetTo(contract.NodeRef{UID: "u"}.UID)}, urgent: true},
		"a generation":    {update: contract.MachineUpdate{ObservedGeneration: contract.SetTo(int64(2))}},
		"a removed value": {update: contract.MachineUpdate{Phase: contract.Cleared[string]()}, dirty: true},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, tc.urgent, m.Urgent(&tc.update), "urgent")
			require.Equal(t, tc.dirty, m.Dirty(&tc.update), "dirty")
			require.Equal(t, tc.empty, m.Empty(&tc.update), "empty")
		})
	}
}

func TestTheMembersOfAnUpdateAreReadWithoutAllocations(t *testing.T) {
	m, err := engine.NewMembers[contract.MachineUpdate]()
	require.NoError(t, err)
	u := &contract.MachineUpdate{Phase: contract.SetTo("Running")}
	if n := testing.AllocsPerRun(100, func() { _ = m.Urgent(u) || m.Empty(u) || !m.Dirty(u) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}
