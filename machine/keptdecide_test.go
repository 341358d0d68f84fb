package machine

import (
	"testing"
	"time"

	"github.com/machinist-dev/machinist/contract"
)

func TestWhatTheAPIServerDoesNotKeepIsNamed(t *testing.T) {
	node := contract.NodeRef{Name: "n", UID: "u"}
	for name, tc := range map[string]struct {
		update       contract.MachineUpdate
		wanted, have contract.MachineState
		status       bool
		whole        bool
		want         string
	}{
		"nothing was written": {have: contract.MachineState{MachineSpec: contract.MachineSpec{ProviderID: "x"}}},
		"the finalizer": {
			update: contract.MachineUpdate{MetadataUpdate: contract.MetadataUpdate{Finalizers: contract.SetTo([]string{"f"})}},
			wanted: contract.MachineState{Metadata: contract.Metadata{Finalizers: []string{"f"}}}, want: "the finalizer f"},
		"the finalizer of a webhook's own beside it": {
			update: contract.MachineUpdate{MetadataUpdate: contract.MetadataUpdate{Finalizers: contract.SetTo([]string{"f"})}},
			wanted: contract.MachineState{Metadata: contract.Metadata{Finalizers: []string{"f"}}},
			have:   contract.MachineState{Metadata: contract.Metadata{Finalizers: []string{"f", "other"}}}},
		"its removal": {
			update: contract.MachineUpdate{MetadataUpdate: contract.MetadataUpdate{Finalizers: contract.SetTo([]string{})}},
			have:   contract.MachineState{Metadata: contract.Metadata{Finalizers: []string{"f"}}}, want: "the removal of the finalizer f"},
		"the provider ID": {
			update: contract.MachineUpdate{ProviderID: contract.SetTo("x")},
			wanted: contract.MachineState{MachineSpec: contract.MachineSpec{ProviderID: "x"}},
			have:   contract.MachineState{MachineSpec: contract.MachineSpec{ProviderID: "y"}}, want: "the provider ID"},
		"what a status that is not due would say": {
			update: contract.MachineUpdate{Node: contract.SetTo(node), DrainStarted: contract.SetTo(time.Unix(1, 0))},
			wanted: contract.MachineState{Node: node, DrainStarted: time.Unix(1, 0)}},
		"the UID of a Node that its CRD has no field for": {
			update: contract.MachineUpdate{Node: contract.SetTo(node)}, status: true,
			wanted: contract.MachineState{Node: node}, have: contract.MachineState{Node: contract.NodeRef{Name: "n"}},
			want: "the reference to the Node with its UID"},
		"what a drain must not begin without": {
			update: contract.MachineUpdate{Node: contract.SetTo(node), DrainStarted: contract.SetTo(time.Unix(1, 0))},
			wanted: contract.MachineState{Node: node, Metadata: contract.Metadata{Deleting: time.Unix(1, 0)}, DrainStarted: time.Unix(1, 0)},
			have:   contract.MachineState{Metadata: contract.Metadata{Deleting: time.Unix(1, 0)}}, whole: true,
			want: "the reference to the Node with its UID, when the drain began"},
	} {
		t.Run(name, func(t *testing.T) {
			s := &Scope{Scope: base{State: tc.wanted, Update: tc.update}, env: &Reconciler{frame: &frame{Finalizer: "f"}}}
			if got := s.missingIn(&tc.have, tc.status, tc.whole); got != tc.want {
				t.Errorf("want %q, got %q", tc.want, got)
			}
		})
	}
}
