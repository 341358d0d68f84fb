package machine

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/internal/engine"
	"github.com/machinist-dev/machinist/internal/external"
)

func reasonsOf(all []engine.Event) []string {
	var reasons []string
	for _, e := range all {
		reasons = append(reasons, e.Reason)
	}
	return reasons
}

func TestAnEventIsRecordedOncePerTransition(t *testing.T) {
	deleted := bothOfNode(metav1.ConditionFalse, ReasonNodeDeleted, "Node n has been deleted while the Machine still exists")
	for name, tc := range map[string]struct {
		stored, written []metav1.Condition
		deleting        bool
		want            []string
	}{
		"what goes in a deletion is no trouble": {written: deleted, deleting: true},
		"two conditions that say the same":      {written: deleted, want: []string{ReasonNodeDeleted}},
		"it was said before":                    {stored: deleted, written: deleted},
		"another message of the same": {stored: deleted,
			written: bothOfNode(metav1.ConditionFalse, ReasonNodeDeleted, "Node n has been deleted")},
		"nothing bad": {written: bothOfNode(metav1.ConditionTrue, ReasonNodeReady, "")},
		"two that say different things": {
			written: []metav1.Condition{
				engine.Condition(contract.ConditionBootstrapConfigReady, metav1.ConditionFalse, external.ReasonCRDNotFound, "install A"),
				engine.Condition(contract.ConditionInfrastructureReady, metav1.ConditionFalse, external.ReasonCRDNotFound, "install B")},
			want: []string{external.ReasonCRDNotFound, external.ReasonCRDNotFound}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, reasonsOf(engine.ConditionEvents(tc.stored, tc.written, problems(tc.deleting)))); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestNodeIsNew(t *testing.T) {
	recorded := contract.NodeRef{Name: "n", UID: "u"}
	for name, tc := range map[string]struct {
		have, set contract.NodeRef
		want      bool
	}{
		"the first Node":                       {set: recorded, want: true},
		"the recorded one":                     {have: recorded, set: recorded},
		"another Node of the same name":        {have: recorded, set: contract.NodeRef{Name: "n", UID: "v"}, want: true},
		"another name":                         {have: recorded, set: contract.NodeRef{Name: "m", UID: "v"}, want: true},
		"the recorded one, whose UID was lost": {have: contract.NodeRef{Name: "n"}, set: recorded},
	} {
		t.Run(name, func(t *testing.T) {
			s := &Scope{Scope: base{State: contract.MachineState{Node: tc.have}}}
			if s.SetNode(tc.set); (len(s.told) > 0) != tc.want {
				t.Errorf("want an event: %t, got %v", tc.want, s.told)
			}
		})
	}
}

func TestReasonsOfEventsAreWords(t *testing.T) {
	for _, reason := range append(problems(false), EventNodeMatched, EventNodeDrained) {
		if reason == "" || strings.ContainsAny(reason, " _:,.-") {
			t.Errorf("%q is no word", reason)
		}
	}
}

func TestWhatAPassTellsIsRecordedOnce(t *testing.T) {
	type told struct {
		deletion    time.Duration // when it was requested, zero for none
		tells, want []string
	}
	for name, passes := range map[string][]told{
		"at once":                          {{tells: []string{"A"}, want: []string{"A"}}},
		"not again by a pass that repeats": {{tells: []string{"A"}, want: []string{"A"}}, {tells: []string{"A"}}},
		"again when it happens again":      {{tells: []string{"A"}, want: []string{"A"}}, {}, {tells: []string{"A"}, want: []string{"A"}}},
		"both of a pass":                   {{tells: []string{"A", "B"}, want: []string{"A", "B"}}},
		"one that is new beside one that is not": {{tells: []string{"A"}, want: []string{"A"}},
			{tells: []string{"A", "B"}, want: []string{"B"}}},
		"once in a deletion": {{deletion: 1, tells: []string{"A"}, want: []string{"A"}}, {deletion: 1}, {deletion: 1, tells: []string{"A"}}},
		"again in another deletion": {{deletion: 1, tells: []string{"A"}, want: []string{"A"}},
			{deletion: 2, tells: []string{"A"}, want: []string{"A"}}},
	} {
		t.Run(name, func(t *testing.T) {
			memory := &recollection{}
			for i, p := range passes {
				deleted := time.Time{}.Add(p.deletion)
				memory.observeDeletion(deleted)
				s := &Scope{}
				for _, reason := range p.tells {
					s.tell("Normal", reason, "Act", "note")
					s.tell("Normal", reason, "Act", "note") // a step that is called twice
				}
				if diff := cmp.Diff(p.want, reasonsOf(memory.tells(s.told, !deleted.IsZero()))); diff != "" {
					t.Errorf("pass %d (-want +got):\n%s", i, diff)
				}
			}
		})
	}
}

func TestAFailureIsReportedInClusterAPIsWordsAndStays(t *testing.T) {
	found := present("FakeMachine")
	found.GVK = contract.Ref{Group: "g", Kind: "FakeMachine"}.GroupKind().WithVersion("v1")
	for name, tc := range map[string]struct {
		have, says engine.Failure
		want       engine.Failure
	}{
		"none": {have: engine.Failure{Reason: "R", Message: "m"}, want: engine.Failure{Reason: "R", Message: "m"}},
		"both": {says: engine.Failure{Reason: "CreateError", Message: "no quota"}, want: engine.Failure{Reason: "CreateError",
			Message: `Failure detected from referenced resource g/v1, Kind=FakeMachine with name "m": no quota`}},
		"a reason alone": {have: engine.Failure{Reason: "R", Message: "m"}, says: engine.Failure{Reason: "CreateError"},
			want: engine.Failure{Reason: "CreateError", Message: "m"}},
		"a message alone": {have: engine.Failure{Reason: "R", Message: "m"}, says: engine.Failure{Message: "x"},
			want: engine.Failure{Reason: "R", Message: `Failure detected from referenced resource g/v1, Kind=FakeMachine with name "m": x`}},
		"a long one": {says: engine.Failure{Reason: strings.Repeat("x", 300)},
			want: engine.Failure{Reason: strings.Repeat("x", 250) + " ..."}},
	} {
		t.Run(name, func(t *testing.T) {
			s := &Scope{Scope: base{State: contract.MachineState{FailureReason: tc.have.Reason, FailureMessage: tc.have.Message}}}
			s.recordFailure(engine.FailureOf(found, tc.says.Reason, tc.says.Message))
			if got := (engine.Failure{Reason: s.State.FailureReason, Message: s.State.FailureMessage}); got != tc.want {
				t.Errorf("want %+v, got %+v", tc.want, got)
			}
		})
	}
}
