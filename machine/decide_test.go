package machine

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/internal/external"
	"github.com/machinist-dev/machinist/noderef"
)

func present(kind string) external.Object {
	return external.Object{Ref: contract.Ref{Group: "g", Kind: kind, Name: "m"}, Presence: external.Present,
		Object: &unstructured.Unstructured{Object: map[string]any{}}}
}

func leaving(e external.Object) external.Object {
	now := metav1.Now()
	e.Object = &unstructured.Unstructured{Object: map[string]any{}}
	e.Object.SetDeletionTimestamp(&now)
	return e
}

func TestInfrastructureIsTakenOverWhenItIsProvisionedAndHasAnID(t *testing.T) {
	infra := present("Infra")
	for name, tc := range map[string]struct {
		facts              infrastructureFacts
		adopt, provisioned bool
		status             metav1.ConditionStatus
		reason             string
	}{
		"not provisioned": {facts: infrastructureFacts{External: infra}, status: metav1.ConditionFalse, reason: contract.ReasonNotReady},
		"an ID alone counts for nothing": {
			facts:  infrastructureFacts{External: infra, Machine: contract.InfraMachineState{ProviderID: "a://b"}},
			status: metav1.ConditionFalse, reason: contract.ReasonNotReady},
		"provisioned": {
			facts: infrastructureFacts{External: infra, Machine: contract.InfraMachineState{Provisioned: true, ProviderID: "a://b"}},
			adopt: true, provisioned: true, status: metav1.ConditionTrue, reason: contract.ReasonReady},
		"provisioned without an ID": {
			facts:  infrastructureFacts{External: infra, Machine: contract.InfraMachineState{Provisioned: true}},
			status: metav1.ConditionFalse, reason: ReasonProviderIDMissing},
		"an ID that names nothing": {
			facts:  infrastructureFacts{External: infra, Machine: contract.InfraMachineState{Provisioned: true, ProviderID: "vsphere://"}},
			status: metav1.ConditionFalse, reason: ReasonProviderIDMissing},
		"an address type that a Machine cannot hold": {
			facts: infrastructureFacts{External: infra, Machine: contract.InfraMachineState{
				Provisioned: true, ProviderID: "a://b", Addresses: []contract.Address{{Type: "IPv7", Address: "x"}}}},
			status: metav1.ConditionFalse, reason: external.ReasonContractViolation},
		"an address that is empty": {
			facts: infrastructureFacts{External: infra, Machine: contract.InfraMachineState{
				Provisioned: true, ProviderID: "a://b", Addresses: []contract.Address{{Type: "Hostname"}}}},
			status: metav1.ConditionFalse, reason: external.ReasonContractViolation},
		"a provider ID that is too long": {
			facts: infrastructureFacts{External: infra, Machine: contract.InfraMachineState{
				Provisioned: true, ProviderID: "a://" + strings.Repeat("b", 512)}},
			status: metav1.ConditionFalse, reason: external.ReasonContractViolation},
		"provisioned is sticky": {
			facts: infrastructureFacts{External: infra, Provisioned: true, Machine: contract.InfraMachineState{ProviderID: "a://b"}},
			adopt: true, provisioned: true, status: metav1.ConditionTrue, reason: contract.ReasonReady},
		"what goes away is not taken over": {
			facts: infrastructureFacts{External: leaving(infra), Provisioned: true,
				Machine: contract.InfraMachineState{Provisioned: true, ProviderID: "a://b"}},
			provisioned: true, status: metav1.ConditionTrue, reason: contract.ReasonReady},
		"gone after it was provisioned": {
			facts:       infrastructureFacts{External: external.Object{Presence: external.Absent, Ref: infra.Ref}, Provisioned: true},
			provisioned: true, status: metav1.ConditionFalse, reason: contract.ReasonDeleted},
		"a contract that is broken": {
			facts: infrastructureFacts{
				External: external.Object{Presence: external.Present, Ref: infra.Ref,
					Problem: external.Problem{Reason: external.ReasonContractViolation}}},
			status: metav1.ConditionFalse, reason: external.ReasonContractViolation},
		"unread is unknown": {
			facts:       infrastructureFacts{External: external.Object{Presence: external.Unread, Ref: infra.Ref}, Provisioned: true},
			provisioned: true, status: metav1.ConditionUnknown, reason: contract.ReasonInspectionFailed},
	} {
		t.Run(name, func(t *testing.T) {
			got := decideInfrastructure(tc.facts)
			if got.Adopt != tc.adopt || got.Provisioned != tc.provisioned || got.Condition.Status != tc.status || got.Condition.Reason != tc.reason {
				t.Errorf("want adopt %v provisioned %v %s/%s, got %+v", tc.adopt, tc.provisioned, tc.status, tc.reason, got)
			}
		})
	}
}

func TestTheProviderIDOfAMachineThatWasNeverProvisionedIsTakenOverInADeletion(t *testing.T) {
	known := func(e external.Object, id string) infrastructureFacts {
		return infrastructureFacts{External: e, Deleting: true, Machine: contract.InfraMachineState{ProviderID: id}}
	}
	infra, foreign, unusable := present("Infra"), present("Infra"), known(present("Infra"), "a://b")
	foreign.Foreign, foreign.Problem = true, external.Problem{Reason: contract.ReasonOwnedByAnother}
	unusable.Machine.Addresses = []contract.Address{{Type: "IPv7", Address: "x"}}
	running, has := known(infra, "a://b"), known(infra, "a://b")
	running.Deleting, has.ProviderID = false, "a://b"
	for name, tc := range map[string]struct {
		facts infrastructureFacts
		want  bool
	}{
		"it exists":                       {known(infra, "a://b"), true},
		"it is going":                     {known(leaving(infra), "a://b"), true},
		"it names no instance":            {known(infra, "a://"), false},
		"the Machine has one":             {has, false},
		"another controller's":            {known(foreign, "a://b"), false},
		"values that no Machine can hold": {unusable, false},
		"the Machine lives":               {running, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := decideInfrastructure(tc.facts); got.AdoptID != tc.want || got.Adopt {
				t.Errorf("want %v, got %+v", tc.want, got)
			}
		})
	}
}

func TestANodeIsDrainedOnceAndNeverBecauseSomethingWasUnread(t *testing.T) {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", UID: "n-uid"}}
	matched := noderef.Match{Outcome: noderef.Matched, Node: node}
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for name, tc := range map[string]struct {
		facts  nodeStageFacts
		node   types.UID // recorded
		record contract.Deletion
		want   drainAction
	}{
		"excluded by annotation": {facts: nodeStageFacts{Excluded: "asked", NodesSynced: true, Match: matched}, want: drainSkip},
		"the machine is gone":    {facts: nodeStageFacts{InfrastructureGone: true, NodesSynced: true, Match: matched}, want: drainSkip},
		"the machine is going": {facts: nodeStageFacts{Infrastructure: leaving(present("I")), NodesSynced: true, Match: matched},
			want: drainSkip},
		"an unread machine may have been drained by an earlier process": {
			facts:  nodeStageFacts{Infrastructure: external.Object{Presence: external.Unread}, NodesSynced: true, Match: matched},
			record: record(begun(StepDrain, now)), want: drainWait},
		"an unread machine is not a gone one": {
			facts: nodeStageFacts{Infrastructure: external.Object{Presence: external.Unread}, NodesSynced: true, Match: matched}, want: drainStart},
		"unread Nodes are not missing":   {facts: nodeStageFacts{Match: noderef.Match{Outcome: noderef.NotFound}}, want: drainUnread},
		"nothing is done about the Node": {facts: nodeStageFacts{Care: careNone, NodesSynced: true, Match: matched}, want: drainSkip},
		"unread Nodes of no interest":    {facts: nodeStageFacts{Care: careNone}, want: drainSkip},
		"unread Nodes that are left out": {facts: nodeStageFacts{Skipped: true}, want: drainOverdue},
		"the hooks that come after it began": {facts: nodeStageFacts{NodesSynced: true, Match: matched},
			record: record(begun(StepPreTerminateHooks, now)), want: drainSkip},
		"drained before, and unread now": {facts: nodeStageFacts{},
			record: record(ended(StepDrain, "n-uid")), node: "n-uid", want: drainSkip},
		"another was drained, and unread now": {facts: nodeStageFacts{},
			record: record(ended(StepDrain, "old-uid")), node: "n-uid", want: drainUnread},
		"excluded while it is under way": {facts: nodeStageFacts{Excluded: "asked", NodesSynced: true, Match: matched},
			record: record(begun(StepDrain, now)), want: drainSkip},
		"contested for too long": {
			facts:  nodeStageFacts{NodesSynced: true, Match: noderef.Match{Outcome: noderef.Ambiguous}, Limit: time.Minute, Now: now},
			record: record(begun(StepDrain, now.Add(-time.Minute))), want: drainOverdue},
		"there is no Node": {facts: nodeStageFacts{NodesSynced: true, Match: noderef.Match{Outcome: noderef.NotFound}},
			want: drainSkip},
		"the Node is another machine's": {facts: nodeStageFacts{NodesSynced: true, Match: noderef.Match{Outcome: noderef.Stale}},
			want: drainSkip},
		"a Machine without a provider ID": {facts: nodeStageFacts{NodesSynced: true, Match: noderef.Match{Outcome: noderef.NoProviderID}},
			want: drainSkip},
		"it has lost its provider ID": {
			facts: nodeStageFacts{NodesSynced: true, Match: noderef.Match{Outcome: noderef.NoProviderID}, Disowned: true}, want: drainWait},
		"two Nodes claim the ID": {facts: nodeStageFacts{NodesSynced: true, Match: noderef.Match{Outcome: noderef.Ambiguous}},
			want: drainWait},
		"another Machine names it too": {
			facts: nodeStageFacts{NodesSynced: true, Match: noderef.Match{Outcome: noderef.Claimed, Other: node}}, want: drainWait},
		"a new Node is recorded first": {
			facts: nodeStageFacts{NodesSynced: true, Match: noderef.Match{Outcome: noderef.Readopted, Node: node, Record: true}}, want: drainRecord},
		"the start is recorded first": {facts: nodeStageFacts{NodesSynced: true, Match: matched}, want: drainStart},
		"under way": {facts: nodeStageFacts{NodesSynced: true, Match: matched, Now: now},
			record: record(begun(StepDrain, now.Add(-time.Hour))), want: drainContinue},
		"within its limit": {facts: nodeStageFacts{NodesSynced: true, Match: matched, Limit: time.Minute, Now: now},
			record: record(begun(StepDrain, now.Add(-30*time.Second))), want: drainContinue},
		"over its limit": {facts: nodeStageFacts{NodesSynced: true, Match: matched, Limit: time.Minute, Now: now},
			record: record(begun(StepDrain, now.Add(-time.Minute))), want: drainOverdue},
		"drained before": {facts: nodeStageFacts{NodesSynced: true, Match: matched, Now: now},
			record: record(begun(StepDrain, now), ended(StepDrain, "n-uid")), want: drainSkip},
		"another Node was drained before": {facts: nodeStageFacts{NodesSynced: true, Match: matched, Now: now},
			record: record(begun(StepDrain, now), ended(StepDrain, "old-uid")), want: drainContinue},
	} {
		t.Run(name, func(t *testing.T) {
			tc.facts.State, tc.facts.Deletion = &contract.MachineState{Node: contract.NodeRef{UID: tc.node}}, tc.record
			if got, _ := decideDrain(tc.facts); got != tc.want {
				t.Errorf("want %d, got %d", tc.want, got)
			}
		})
	}
}

func TestOnlyTheRecordedNodeIsDeletedAndTheWaitHasALimit(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	mine := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", UID: "n-uid"}, Spec: corev1.NodeSpec{ProviderID: "a://b"}}
	going := mine.DeepCopy()
	going.DeletionTimestamp = &metav1.Time{Time: now.Add(-5 * time.Second)}
	recorded := noderef.Ref{Name: "n", UID: "n-uid"}
	for name, tc := range map[string]struct {
		facts nodeDeletionFacts
		want  nodeDeletion
	}{
		"unread Nodes are not gone":      {facts: nodeDeletionFacts{}, want: nodeUnread},
		"unread Nodes that are left out": {facts: nodeDeletionFacts{Skipped: true}, want: nodeGiveUp},
		"nothing is done about the Node": {
			facts: nodeDeletionFacts{Care: careNone, Synced: true, Match: noderef.Match{Node: mine}, Current: recorded, ProviderID: "a://b"},
			want:  nodeLeave},
		"no Node": {facts: nodeDeletionFacts{Synced: true}, want: nodeLeave},
		"the recorded Node": {
			facts: nodeDeletionFacts{Synced: true, Match: noderef.Match{Node: mine}, Current: recorded, ProviderID: "a://b"}, want: nodeDelete},
		"another UID": {
			facts: nodeDeletionFacts{Synced: true, Match: noderef.Match{Node: mine}, Current: noderef.Ref{Name: "n", UID: "old"},
				ProviderID: "a://b"}, want: nodeLeave},
		"another provider ID": {
			facts: nodeDeletionFacts{Synced: true, Match: noderef.Match{Node: mine}, Current: recorded, ProviderID: "a://c"}, want: nodeLeave},
		"another provider ID, vouched for": {
			facts: nodeDeletionFacts{Synced: true, MatchedByStep: true, Match: noderef.Match{Node: mine}, Current: recorded, ProviderID: "a://c"},
			want:  nodeDelete},
		"another UID, vouched for": {
			facts: nodeDeletionFacts{Synced: true, MatchedByStep: true, Match: noderef.Match{Node: mine},
				Current: noderef.Ref{Name: "n", UID: "old"}, ProviderID: "a://b"}, want: nodeLeave},
		"matched just now": {
			facts: nodeDeletionFacts{Synced: true, Match: noderef.Match{Node: mine, Record: true}, Current: recorded, ProviderID: "a://b"},
			want:  nodeRecord},
		"on its way out": {
			facts: nodeDeletionFacts{Synced: true, Match: noderef.Match{Node: going}, Current: recorded, ProviderID: "a://b", Now: now,
				Limit: 10 * time.Second}, want: nodeWait},
		"stuck on its way out": {
			facts: nodeDeletionFacts{Synced: true, Match: noderef.Match{Node: going}, Current: recorded, ProviderID: "a://b", Now: now,
				Limit: 5 * time.Second}, want: nodeGiveUp},
		"no limit was set": {
			facts: nodeDeletionFacts{Synced: true, Match: noderef.Match{Node: going}, Current: recorded, ProviderID: "a://b", Now: now,
				Started: now.Add(-time.Hour)}, want: nodeWait},
		"tried within the limit": {
			facts: nodeDeletionFacts{Synced: true, Match: noderef.Match{Node: mine}, Current: recorded, ProviderID: "a://b", Now: now,
				Started: now.Add(-time.Second), Limit: 10 * time.Second}, want: nodeDelete},
		"tried for too long": {
			facts: nodeDeletionFacts{Synced: true, Match: noderef.Match{Node: mine}, Current: recorded, ProviderID: "a://b", Now: now,
				Started: now.Add(-10 * time.Second), Limit: 10 * time.Second}, want: nodeDeleteLast},
		"asked, and not gone in time": {
			facts: nodeDeletionFacts{Synced: true, Match: noderef.Match{Node: mine}, Current: recorded, ProviderID: "a://b", Now: now,
				Asked: now.Add(-10 * time.Second), Limit: 10 * time.Second}, want: nodeGiveUp},
		"asked after its limit": {
			facts: nodeDeletionFacts{Synced: true, Match: noderef.Match{Node: mine}, Current: recorded, ProviderID: "a://b", Now: now,
				Started: now.Add(-time.Hour), Asked: now.Add(-time.Second), Limit: 10 * time.Second}, want: nodeWait},
	} {
		t.Run(name, func(t *testing.T) {
			if got := decideNodeDeletion(tc.facts); got != tc.want {
				t.Errorf("want %d, got %d", tc.want, got)
			}
		})
	}
}

func TestANodeIsInterruptibleWhenItsInfrastructureSaysSoAndKeepsTheLabelWhileThatIsUnread(t *testing.T) {
	says := func(value any) external.Object {
		e := present("Infra")
		e.Contract = contract.V1Beta2
		if value != nil {
			e.Object.Object["status"] = map[string]any{"interruptible": value}
		}
		return e
	}
	for name, tc := range map[string]struct {
		infrastructure            external.Object
		unlabelledGets, labelKept bool
	}{
		"it says so":                    {says(true), true, true},
		"it says that it is not":        {says(false), false, false},
		"it says nothing":               {says(nil), false, false},
		"what it says is no bool":       {says("yes"), false, true},
		"it could not be read":          {external.Object{Presence: external.Unread}, false, true},
		"its kind is gone":              {external.Object{Presence: external.KindMissing}, false, true},
		"it is gone":                    {external.Object{Presence: external.Absent}, false, false},
		"the Machine does not name one": {external.Object{}, false, false},
		"a step of the embedder has it": {external.Object{Presence: external.Present}, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			if got := decideInterruptible(tc.infrastructure, false); got != tc.unlabelledGets {
				t.Errorf("a Node without the label: %v", got)
			}
			if got := decideInterruptible(tc.infrastructure, true); got != tc.labelKept {
				t.Errorf("a Node with the label: %v", got)
			}
		})
	}
}
