package machine

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/internal/engine"
	"github.com/machinist-dev/machinist/internal/external"
	"github.com/machinist-dev/machinist/noderef"
)

func TestStageDecision(t *testing.T) {
	now := time.Unix(10_000, 0)
	hour, second := now.Add(-time.Hour), now.Add(-time.Second)
	for name, tc := range map[string]struct {
		facts stageFacts
		want  stageAction
		says  string
	}{
		"it has all that it needs": {stageFacts{}, stageRuns, ""},
		"the Cluster is unread": {stageFacts{CareUnknown: "unread", Excluded: "asked", Done: true, Unread: "away", Needs: "more"}, stageWaits,
			"Waiting to know whether the Node is to be drained: unread"},
		"it is excluded": {stageFacts{Excluded: "asked", Done: true, Unread: "away", Needs: "more"}, stageExcluded, "asked"},
		"it is done": {stageFacts{Done: true, Unread: "away", Needs: "more", Started: hour, Limit: time.Minute},
			stageDone, ""},
		"the Nodes are unread":                {stageFacts{Unread: "away", Needs: "more"}, stageUnread, "away"},
		"unread for an hour, without a limit": {stageFacts{Unread: "away", Started: hour}, stageUnread, "away"},
		"unread, and not begun":               {stageFacts{Unread: "away", Limit: time.Minute}, stageUnread, "away"},
		"unread within the limit":             {stageFacts{Unread: "away", Started: second, Limit: time.Minute}, stageUnread, "away"},
		"unread at the limit": {stageFacts{Unread: "away", Started: second, Limit: time.Second}, stageOver,
			"not completed within 1s, while its Nodes could not be read: away"},
		"the Cluster is gone": {stageFacts{Unread: "away", ClusterGone: true}, stageOver,
			"the Cluster no longer exists, or is being deleted, while its Nodes could not be read: away"},
		"the instance is gone": {stageFacts{Unread: "away", InstanceGone: true}, stageOver,
			"the machine no longer exists, while its Nodes could not be read: away"},
		"the instance is off": {stageFacts{Unread: "away", PoweredOff: true}, stageOver,
			"the machine is off, while its Nodes could not be read: away"},
		"something is missing": {stageFacts{Needs: "more", Started: second, Limit: time.Minute}, stageWaits, "more"},
		"something is missing for too long": {stageFacts{Needs: "more", Started: hour, Limit: time.Minute}, stageOver,
			"not completed within 1m0s: more"},
		"it is at work":                 {stageFacts{Started: second, Limit: time.Minute}, stageRuns, ""},
		"it is at work without a limit": {stageFacts{Started: hour}, stageRuns, ""},
		"it is over its limit":          {stageFacts{Started: hour, Limit: time.Minute}, stageOver, "not completed within 1m0s"},
		"and makes one attempt more":    {stageFacts{Started: hour, Limit: time.Minute, Last: true}, stageRuns, ""},
		"a limit of what has not begun": {stageFacts{Limit: time.Nanosecond}, stageRuns, ""},
	} {
		t.Run(name, func(t *testing.T) {
			tc.facts.Now = now
			action, says := decideStage(tc.facts)
			require.Equal(t, []any{tc.want, tc.says}, []any{action, says})
		})
	}
}

func TestStageOfAnEmbedder(t *testing.T) {
	now := time.Unix(10_000, 0).UTC()
	waiting, excluded, needs := true, "", ""
	stage := Stage{
		Name: "backup", Reason: "BackingUp", Limit: func(*Scope) time.Duration { return time.Minute },
		Excluded: func(*Scope) string { return excluded }, Needs: func(*Scope) string { return needs },
		Run: func(_ context.Context, s *Scope) (Result, error) {
			if waiting {
				return s.Wait("BackingUp", "under way"), nil
			}
			return Result{}, nil
		},
	}
	s := attached(&Scope{Scope: base{Object: testKind().New(), Now: now}})
	s.State.Deleting = now
	pass := func(at time.Time) Result {
		s.Now, s.events = at, nil
		result, err := stage.run(t.Context(), s)
		require.NoError(t, err)
		return result
	}
	require.Equal(t, Result{Stop: true, Checkpoint: true, RequeueAfter: time.Minute}, pass(now), "its start is recorded")
	require.Contains(t, s.State.Annotations[contract.DeletionAnnotation], `"backup":{"start":`)
	require.Equal(t, Result{Stop: true, RequeueAfter: 20 * time.Second}, pass(now.Add(40*time.Second)))
	needs = "a backup store"
	require.Equal(t, Result{Stop: true, RequeueAfter: 20 * time.Second}, pass(now.Add(40*time.Second)))
	require.Equal(t, Result{}, pass(now.Add(time.Minute)), "the deletion continues without")
	require.Len(t, s.events, 1)
	require.Equal(t, "stage backup: not completed within 1m0s: a backup store: the deletion continues without", s.events[0].Note)
	require.Equal(t, EventStageFailed, s.events[0].Reason)
	excluded = "asked"
	require.Equal(t, Result{}, pass(now))
	require.Len(t, s.events, 1)
	require.Equal(t, "stage backup is skipped: asked", s.events[0].Note)
	excluded, needs, waiting = "", "", false
	require.Equal(t, Result{}, pass(now.Add(50*time.Second)))
	s.end(StepDrain, "n-uid")
	waiting = true
	require.Equal(t, Result{}, pass(now.Add(time.Hour)), "it is done")
	require.Empty(t, s.events)
}

// nodeStageFacts are what a stage that needs the Node is decided by. The Nodes are read, and one is matched, unless they say otherwise.
type nodeStageFacts struct {
	Care                             nodeCare // careDrainAndDelete by default
	Excluded, Disowned, Unread       bool
	Infrastructure                   external.Object
	InfrastructureGone, InstanceGone bool
	ClusterGone                      bool // the Nodes are never read again
	Outcome                          noderef.Outcome
	Limit                            time.Duration
}

// namedNodes is an index of Nodes that has each name.
type namedNodes struct{}

func (namedNodes) HasSynced() bool                    { return true }
func (namedNodes) ByProviderID(string) []*corev1.Node { return nil }

func (namedNodes) ByName(name string) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

func (f nodeStageFacts) decide(stage Stage, now time.Time, record contract.Deletion, recorded types.UID) (stageAction, string) {
	match, node := noderef.Match{Outcome: f.Outcome}, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", UID: "n-uid"}}
	switch f.Outcome { //nolint:exhaustive // the others name no Node
	case noderef.Unknown:
		if !f.Unread {
			match = noderef.Match{Outcome: noderef.Matched, Node: node}
		}
	case noderef.Readopted:
		match.Node, match.Record = node, true
	case noderef.Claimed:
		match.Other = node
	}
	s := attached(&Scope{
		Scope: base{Object: testKind().New(), Now: now}, Infrastructure: f.Infrastructure, InstanceGone: f.InstanceGone,
		infrastructureGone: f.InfrastructureGone, Node: match, NodesSynced: !f.Unread, deletion: record, careReason: "why",
		Workload: Workload{Nodes: namedNodes{}, Drainer: drainsAtOnce{}, Volumes: &attachedTo{}},
	})
	s.care = max(f.Care, careDrainAndDelete)
	s.State.Node.UID = recorded
	if f.Disowned {
		s.State.Node.Name = "n"
	}
	if f.Excluded {
		s.State.Annotations = map[string]string{contract.ExcludeDrain: "", contract.ExcludeVolumeDetach: ""}
	}
	if f.ClusterGone {
		s.Cluster.Presence = external.Absent
	}
	s.State.NodeDrainTimeout, s.State.NodeVolumeDetachTimeout = contract.Some(f.Limit), contract.Some(f.Limit)
	return decideStage(s.stageFacts(stage))
}

// Nothing is done because something was unread, and nothing twice. A Node that is not drained has a reason, unless it was, or is gone.
func TestStagesOfANode(t *testing.T) {
	now := time.Unix(10_000, 0)
	at := func(stage string, ago time.Duration) func(*contract.Deletion) { return begun(stage, now.Add(-ago)) }
	drain, volumes, hooks := at(StepDrain, time.Minute), at(StepVolumes, time.Minute), at(StepPreTerminateHooks, 0)
	unread, going := external.Object{Presence: external.Unread}, leaving(present("I"))
	type stages = []func(*contract.Deletion)
	type facts = nodeStageFacts
	for name, tc := range map[string]struct {
		facts          facts
		node           types.UID // recorded
		record         stages
		drain, volumes stageAction
		told           bool // why the drain is left out
	}{
		"there is a Node":                 {facts{}, "", nil, stageRuns, stageRuns, false},
		"a new Node is recorded first":    {facts{Outcome: noderef.Readopted}, "", nil, stageRuns, stageRuns, false},
		"excluded by annotation":          {facts{Excluded: true}, "", nil, stageExcluded, stageExcluded, true},
		"excluded while it is under way":  {facts{Excluded: true}, "", stages{drain}, stageExcluded, stageExcluded, true},
		"excluded while Nodes are unread": {facts{Excluded: true, Unread: true}, "", nil, stageExcluded, stageExcluded, true},
		"nothing is done about the Node":  {facts{Care: careNone}, "", nil, stageExcluded, stageExcluded, true},
		"unread Nodes of no interest":     {facts{Care: careNone, Unread: true}, "", nil, stageExcluded, stageExcluded, true},
		"unread Nodes are not missing":    {facts{Unread: true, Outcome: noderef.NotFound}, "", nil, stageUnread, stageUnread, false},
		"unread Nodes that are given up":  {facts{Unread: true, ClusterGone: true}, "", nil, stageOver, stageOver, false},
		"the provider reports it as gone": {facts{InstanceGone: true}, "", nil, stageExcluded, stageExcluded, true},
		"its object is gone":              {facts{InfrastructureGone: true}, "", nil, stageExcluded, stageDone, true},
		"its object is going":             {facts{Infrastructure: going}, "", nil, stageExcluded, stageDone, true},
		"its object goes after it began":  {facts{Infrastructure: going}, "", stages{drain}, stageDone, stageDone, false},
		"an unread object is not gone":    {facts{Infrastructure: unread}, "", nil, stageRuns, stageRuns, false},
		"unread, and an earlier process":  {facts{Infrastructure: unread}, "", stages{drain}, stageWaits, stageRuns, false},
		"there is no Node":                {facts{Outcome: noderef.NotFound}, "", nil, stageDone, stageDone, false},
		"there never was one":             {facts{Outcome: noderef.NoProviderID}, "", nil, stageDone, stageDone, false},
		"its provider ID is lost":         {facts{Outcome: noderef.NoProviderID, Disowned: true}, "", nil, stageWaits, stageDone, false},
		"it is another machine's":         {facts{Outcome: noderef.Stale}, "", nil, stageExcluded, stageDone, true},
		"two Nodes claim the ID":          {facts{Outcome: noderef.Ambiguous}, "", nil, stageWaits, stageDone, false},
		"for too long": {facts{Outcome: noderef.Ambiguous, Limit: time.Minute}, "", stages{drain},
			stageOver, stageDone, false},
		"another Machine names it too":     {facts{Outcome: noderef.Claimed}, "", nil, stageWaits, stageDone, false},
		"under way, without a limit":       {facts{}, "", stages{drain, volumes}, stageRuns, stageRuns, false},
		"within the limit":                 {facts{Limit: time.Minute + 1}, "", stages{drain, volumes}, stageRuns, stageRuns, false},
		"at the limit":                     {facts{Limit: time.Minute}, "", stages{drain, volumes}, stageOver, stageOver, false},
		"a limit of what has not begun":    {facts{Limit: 1}, "", nil, stageRuns, stageRuns, false},
		"drained before":                   {facts{}, "", stages{drain, ended(StepDrain, "n-uid")}, stageDone, stageRuns, false},
		"another Node was drained":         {facts{}, "", stages{drain, ended(StepDrain, "old")}, stageRuns, stageRuns, false},
		"drained, and unread now":          {facts{Unread: true}, "n-uid", stages{ended(StepDrain, "n-uid")}, stageDone, stageUnread, false},
		"another was, and unread now":      {facts{Unread: true}, "n-uid", stages{ended(StepDrain, "old")}, stageUnread, stageUnread, false},
		"free of volumes before":           {facts{}, "", stages{ended(StepVolumes, "n-uid")}, stageRuns, stageDone, false},
		"another Node was":                 {facts{}, "", stages{ended(StepVolumes, "old")}, stageRuns, stageRuns, false},
		"free of volumes, and unread now":  {facts{Unread: true}, "n-uid", stages{ended(StepVolumes, "n-uid")}, stageUnread, stageDone, false},
		"another was free, and unread now": {facts{Unread: true}, "n-uid", stages{ended(StepVolumes, "old")}, stageUnread, stageUnread, false},
		"later hooks have begun":           {facts{}, "", stages{hooks}, stageExcluded, stageDone, true},
		"later hooks, after the drain":     {facts{}, "", stages{drain, hooks}, stageDone, stageDone, false},
		"later hooks, and it came anew":    {facts{}, "", stages{drain, hooks, ended(StepDrain, "old")}, stageExcluded, stageDone, true},
	} {
		t.Run(name, func(t *testing.T) {
			action, why := tc.facts.decide(drainStage(), now, record(tc.record...), tc.node)
			require.Equal(t, tc.drain, action, why)
			if action == stageExcluded || action == stageDone {
				require.Equal(t, tc.told, why != "", why)
			}
			action, why = tc.facts.decide(volumesStage(), now, record(tc.record...), tc.node)
			require.Equal(t, tc.volumes, action, why)
		})
	}
}

func TestDeletionCompleted(t *testing.T) {
	own := contract.MachineFinalizer
	for name, tc := range map[string]struct {
		finalizers []string
		want       string
	}{
		"there is no other one": {finalizers: []string{own}, want: "Deletion completed"},
		"the set gives another one, or others have theirs": {finalizers: []string{own, "example.com/guest"},
			want: "Deletion completed, and these finalizers are left: example.com/guest"},
	} {
		t.Run(name, func(t *testing.T) {
			s := attached(&Scope{})
			s.env.frame.Finalizer, s.State.Finalizers = own, tc.finalizers
			_, err := removeFinalizer(t.Context(), s)
			require.NoError(t, err)
			said, _ := s.Condition(contract.ConditionDeleting)
			require.Equal(t, tc.want, said.Message)
			require.Equal(t, contract.ReasonDeletionCompleted, said.Reason)
		})
	}
}

func TestAnObjectThatMayJustHaveGotItsMachineIsNotDeletedAsItWasReadBefore(t *testing.T) {
	for name, tc := range map[string]struct {
		providerID, version string
	}{
		"no machine is known":  {version: "7"},
		"its machine is known": {providerID: "a://b"},
	} {
		t.Run(name, func(t *testing.T) {
			asked := 0
			s := attached(&Scope{
				Scope: base{State: contract.MachineState{MachineSpec: contract.MachineSpec{ProviderID: tc.providerID}}},
				env: testReconciler(testKind(), Ports{Ports: engine.Ports{
					Client: interceptor.NewClient(nil, interceptor.Funcs{
						Delete: func(_ context.Context, _ client.WithWatch, _ client.Object, opts ...client.DeleteOption) error {
							var options client.DeleteOptions
							options.ApplyOptions(opts)
							only := options.Preconditions
							asked++
							require.Equal(t, types.UID("u"), *only.UID)
							require.Equal(t, tc.version, ptr.Deref(only.ResourceVersion, ""))
							return nil
						},
					}),
				}}, Options{}),
			})
			e := present("Infra")
			e.Object.SetUID("u")
			e.Object.SetResourceVersion("7")
			for range 2 {
				_, err := s.deleteReferenced(t.Context(), e, "", "")
				require.NoError(t, err)
			}
			require.Equal(t, 1, asked, "once is enough, whatever the cache says")
		})
	}
}

func TestADrainIsNotLeftOutBecauseOfWhatTheServerDidNotConfirm(t *testing.T) {
	boom := errors.New("boom")
	s := scopeWithVolumes(nil, time.Unix(1000, 0), 0)
	s.State.Deleting, s.care = s.Now, careDrainAndDelete
	s.Infrastructure = external.Object{Ref: contract.Ref{Group: "g", Kind: "Infra", Name: "m"}, Presence: external.Absent,
		GVK: schema.GroupVersionKind{Group: "g", Version: "v1", Kind: "Infra"}}
	s.env.frame.Ports.APIReader = interceptor.NewClient(nil, interceptor.Funcs{
		Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
			return boom
		},
	})
	_, err := drainStage().run(t.Context(), s)
	require.ErrorIs(t, err, boom)
}

func TestADeletionSaysWhatItWaitsForAndGoesOnWhenThatIsGone(t *testing.T) {
	absent := external.Object{Ref: contract.Ref{Group: "g", Kind: "Infra", Name: "m"}, Presence: external.Absent}
	boom := errors.New("boom")
	for name, tc := range map[string]struct {
		found external.Object
		reads error
		takes error
		want  Result
		says  string
		fails bool
	}{
		"not in the cache alone": {found: absent, want: Result{Stop: true, RequeueAfter: external.AbsenceRetry},
			says: "Infra m exists, but has not been seen yet"},
		"really gone": {found: absent, reads: apierrors.NewNotFound(schema.GroupResource{}, "m")},
		"no answer comes": {found: absent, reads: boom, want: Result{Stop: true}, says: "make sure that Infra default/m is gone: boom",
			fails: true},
		"its deletion is accepted": {found: present("Infra"), want: Result{Stop: true}, says: "Waiting for Infra m to be deleted"},
		"its deletion is refused":  {found: present("Infra"), takes: boom, want: Result{Stop: true}, says: "delete Infra m: boom", fails: true},
	} {
		t.Run(name, func(t *testing.T) {
			s := scopeWithVolumes(nil, time.Unix(1000, 0), 0)
			s.State.Key.Namespace = "default"
			tc.found.GVK = schema.GroupVersionKind{Group: "g", Version: "v1", Kind: "Infra"}
			server := interceptor.NewClient(nil, interceptor.Funcs{
				Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
					return tc.reads
				},
				Delete: func(context.Context, client.WithWatch, client.Object, ...client.DeleteOption) error { return tc.takes },
			})
			s.env.frame.Ports.APIReader, s.env.frame.Ports.Client = server, server
			got, err := s.deleteReferenced(t.Context(), tc.found, "", contract.ReasonWaitingForInfrastructureDeletion)
			require.Equal(t, tc.fails, err != nil, err)
			got.RequeueAfter = s.RequeueAfter()
			require.Equal(t, tc.want, got)
			said, _ := engine.Find(s.Asserted, contract.ConditionDeleting)
			require.Equal(t, tc.says, said.Message)
			require.Equal(t, tc.says != "", said.Reason == contract.ReasonWaitingForInfrastructureDeletion)
		})
	}
}
