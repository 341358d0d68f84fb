package machine

import (
	"cmp"
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/internal/engine"
	"github.com/machinist-dev/machinist/internal/external"
	"github.com/machinist-dev/machinist/internal/instance"
	"github.com/machinist-dev/machinist/machine/provider"
	"github.com/machinist-dev/machinist/noderef"
	"github.com/machinist-dev/machinist/noderef/propagate"
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

func TestOnlyTheRecordedNodeIsDeleted(t *testing.T) {
	mine := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", UID: "n-uid"}, Spec: corev1.NodeSpec{ProviderID: "a://b"}}
	recorded := contract.NodeRef{Name: "n", UID: "n-uid"}
	for name, tc := range map[string]struct {
		match      noderef.Match
		recorded   contract.NodeRef
		providerID string
		unread     bool
		gone       bool // the Cluster
		byStep     bool // a step of the embedder has matched the Node
		care       nodeCare
		want       stageAction
	}{
		"unread Nodes are not gone":      {unread: true, want: stageUnread},
		"unread Nodes that are left out": {unread: true, gone: true, want: stageOver},
		"nothing is done about the Node": {care: careNone, match: noderef.Match{Node: mine}, want: stageExcluded},
		"no Node":                        {want: stageDone},
		"another machine's Node":         {match: noderef.Match{Outcome: noderef.Stale}, want: stageExcluded},
		"the recorded Node":              {match: noderef.Match{Node: mine}, want: stageRuns},
		"another UID": {match: noderef.Match{Node: mine}, recorded: contract.NodeRef{Name: "n", UID: "old"},
			want: stageExcluded},
		"another provider ID":              {match: noderef.Match{Node: mine}, providerID: "a://c", want: stageExcluded},
		"another provider ID, vouched for": {match: noderef.Match{Node: mine}, providerID: "a://c", byStep: true, want: stageRuns},
		"another UID, vouched for": {match: noderef.Match{Node: mine}, recorded: contract.NodeRef{Name: "n", UID: "old"}, byStep: true,
			want: stageExcluded},
		"matched just now": {match: noderef.Match{Node: mine, Record: true}, want: stageRuns},
	} {
		t.Run(name, func(t *testing.T) {
			s := attached(&Scope{Scope: base{Object: testKind().New()}, Node: tc.match, NodesSynced: !tc.unread})
			s.State.Node, s.State.ProviderID = recorded, cmp.Or(tc.providerID, "a://b")
			if tc.recorded.Name != "" {
				s.State.Node = tc.recorded
			}
			if !tc.byStep {
				s.matched = tc.match.Node
			}
			s.careReason = "why"
			if s.care = max(tc.care, careDrainAndDelete); tc.gone {
				s.Cluster.Presence = external.Absent
			}
			if got, why := decideStage(s.stageFacts(deleteNodeStage())); got != tc.want {
				t.Errorf("want %d, got %d: %s", tc.want, got, why)
			}
		})
	}
}

func TestTheWaitForANodeThatIsDeletedHasALimit(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	ago := func(seconds int) time.Time { return now.Add(-time.Duration(seconds) * time.Second) }
	const ten = 10 * time.Second
	for name, tc := range map[string]struct {
		started, asked, going time.Time
		limit                 time.Duration
		asks, gives           bool // up
	}{
		"the first attempt":           {limit: ten, asks: true},
		"on its way out":              {going: ago(5), limit: ten},
		"stuck on its way out":        {going: ago(5), limit: 5 * time.Second, gives: true},
		"no limit was set":            {going: ago(5), started: ago(3600)},
		"tried within the limit":      {started: ago(1), limit: ten, asks: true},
		"tried for too long":          {started: ago(10), limit: ten, asks: true},
		"asked, and not gone in time": {asked: ago(10), limit: ten, gives: true},
		"asked after its limit":       {started: ago(3600), asked: ago(1), limit: ten},
	} {
		t.Run(name, func(t *testing.T) {
			s := deletingNode(now, tc.limit, nil, nil)
			if !tc.started.IsZero() {
				s.deletion = record(begun(StepDeleteNode, tc.started))
			}
			if !tc.asked.IsZero() {
				s.memory.requested.Add("n-uid", "", tc.asked)
			}
			if !tc.going.IsZero() {
				s.Node.Node.DeletionTimestamp = new(metav1.NewTime(tc.going))
			}
			asked := s.memory.requested.Has("n-uid")
			result, err := deleteNodeStage().run(t.Context(), s)
			require.NoError(t, err)
			require.Equal(t, tc.gives, !result.Stop, "it is given up")
			require.Equal(t, tc.gives, len(s.events) > 0)
			require.Equal(t, tc.asks, !asked && s.memory.requested.Has("n-uid"), "it is asked for")
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
			require.Equal(t, tc.unlabelledGets, decideInterruptible(tc.infrastructure, false), "a Node without the label")
			require.Equal(t, tc.labelKept, decideInterruptible(tc.infrastructure, true), "a Node with the label")
		})
	}
}

func TestOutdatedTaint(t *testing.T) {
	marked := propagate.Desired{Taints: []propagate.Taint{{Taint: outdatedTaint(), Propagation: propagate.WhenMissing}}}
	cleared := propagate.Desired{WithoutTaints: []corev1.Taint{outdatedTaint()}}
	is := func(status metav1.ConditionStatus, reason string) []metav1.Condition {
		return []metav1.Condition{{Type: contract.ConditionUpToDate, Status: status, Reason: reason}}
	}
	for name, tc := range map[string]struct {
		conditions []metav1.Condition
		alone      bool
		want       propagate.Desired
	}{
		"of an old revision":      {conditions: is(metav1.ConditionFalse, contract.ReasonNotUpToDate), want: marked},
		"of the newest":           {conditions: is(metav1.ConditionTrue, contract.ReasonUpToDate), want: cleared},
		"updated in place":        {conditions: is(metav1.ConditionFalse, contract.ReasonUpdating)},
		"unknown":                 {conditions: is(metav1.ConditionUnknown, contract.ReasonInternalError)},
		"not judged yet":          {},
		"without an owner":        {alone: true, want: cleared},
		"that has lost its owner": {alone: true, conditions: is(metav1.ConditionFalse, contract.ReasonNotUpToDate), want: cleared},
	} {
		t.Run(name, func(t *testing.T) {
			s := attached(&Scope{Scope: base{Stored: tc.conditions}})
			if !tc.alone {
				s.State.OwnerReferences = []metav1.OwnerReference{{Kind: "MachineSet", Controller: new(true)}}
			}
			var got propagate.Desired
			s.markOutdated(&got)
			require.Equal(t, tc.want, got)
		})
	}
}

func TestDriverConditions(t *testing.T) {
	t.Parallel()
	for name, state := range map[string]provider.State{"was off": provider.Stopped, "had failed": provider.Failed} {
		t.Run("an instance runs again that "+name, func(t *testing.T) {
			t.Parallel()
			shown := provider.Instance{ProviderID: "cloud:///i", State: state}
			get := func(context.Context, provider.Request) (provider.Instance, error) { return shown, nil }
			gone := func(context.Context, provider.Request) (bool, error) { return true, nil }
			steps := WithDriver(Steps(), DriverOptions{Calls: provider.Calls{Name: "cloud", Create: get, Get: get, Delete: gone}})
			step := steps[engine.Position(steps, StepInfrastructure, engine.InRunning)]
			pass := func(stored []metav1.Condition) *Scope {
				s := attached(&Scope{Scope: base{Object: testKind().New(), Stored: stored}})
				s.State.UID, s.State.ProviderID, s.State.InfrastructureReady = "uid", shown.ProviderID, contract.Some(true)
				_, err := step.Run(t.Context(), s)
				require.NoError(t, err)
				return s
			}
			off := pass(nil)
			require.True(t, engine.HasStatus(off.Asserted, contract.ConditionInfrastructureReady, metav1.ConditionFalse))
			shown.State = provider.Running
			require.True(t, engine.HasStatus(pass(off.Asserted).Asserted, contract.ConditionInfrastructureReady, metav1.ConditionTrue))
		})
	}
}

// A webhook or a restore may take away that the infrastructure was ready, and leave that the instance is lost.
func TestWhatIsKnownOfALostInstanceStaysWhileALookWaits(t *testing.T) {
	t.Parallel()
	waits := func(context.Context, provider.Request) (provider.Instance, error) {
		return provider.Instance{}, &provider.Error{Class: provider.RateLimited, Delayed: true, RetryAfter: time.Second}
	}
	gone := func(context.Context, provider.Request) (bool, error) { return true, nil }
	steps := WithDriver(Steps(), DriverOptions{Calls: provider.Calls{Name: "cloud", Create: waits, Get: waits, Delete: gone}})
	for reason, reports := range map[string]bool{"": true, instance.ReasonGone: false, instance.ReasonFailed: false} {
		s := attached(&Scope{Scope: base{Object: testKind().New()}})
		s.State.UID, s.State.ProviderID, s.State.FailureReason = "uid", "cloud:///i", reason
		_, err := steps[engine.Position(steps, StepInfrastructure, engine.InRunning)].Run(t.Context(), s)
		require.NoError(t, err)
		_, found := engine.Find(s.Asserted, contract.ConditionInfrastructureReady)
		require.Equal(t, reports, found, reason)
	}
}
