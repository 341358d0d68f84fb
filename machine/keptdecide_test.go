package machine

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/machinist-dev/machinist/contract"
)

func TestWhatTheAPIServerDoesNotKeepIsNamed(t *testing.T) {
	node := contract.NodeRef{Name: "n", UID: "u"}
	for name, tc := range map[string]struct {
		update       contract.MachineUpdate
		wanted, have contract.MachineState
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
		"what a drain must not begin without": {
			update: contract.MachineUpdate{Node: contract.SetTo(node), DrainStarted: contract.SetTo(time.Unix(1, 0))},
			wanted: contract.MachineState{Node: node, DrainStarted: time.Unix(1, 0)}, whole: true,
			want: "the reference to the Node with its UID, when the drain began"},
	} {
		t.Run(name, func(t *testing.T) {
			got := decideNotKept(notKeptFacts{Update: tc.update, Wanted: &tc.wanted, Have: &tc.have, Finalizer: "f", Whole: tc.whole})
			if got != tc.want {
				t.Errorf("want %q, got %q", tc.want, got)
			}
		})
	}
}

// A webhook that changes something else with each write causes an event each time.
func TestAWriteThatIsNotKeptIsRepeatedEachTimeAfterTwiceAsLong(t *testing.T) {
	began := time.Unix(0, 0)
	now := began
	r, key := testReconciler(testKind(), Ports{}, Options{}), types.NamespacedName{Name: "m"}
	m := r.memory.Of(key, "uid")
	for i, seconds := range []int64{0, 1, 2, 4, 8, 16, 32, 62, 92} {
		at := time.Unix(seconds, 0)
		if wait := m.notKept.left(now); i > 0 && now.Add(wait) != at {
			t.Fatalf("attempt %d: want it after %s, got %s", i, at.Sub(began), now.Add(wait).Sub(began))
		}
		now = at
		if first := m.setNotKept("text", now); first != (i == 0) {
			t.Fatalf("attempt %d: told is %t", i, first)
		}
	}
	m.setNotKept("", now)
	if m.notKept != nil || m.notKept.left(now) > 0 {
		t.Error("what is kept again is not waited for")
	}
	m.setNotKept("text", now)
	if r.memory.Of(key, "another").notKept != nil {
		t.Error("another Machine of that name has lost nothing")
	}
}
