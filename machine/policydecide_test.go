package machine

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/internal/external"
	"github.com/machinist-dev/machinist/noderef"
	"github.com/machinist-dev/machinist/noderef/cluster"
)

func TestWhatIsDoneAboutANodeFollowsFromItsCluster(t *testing.T) {
	at := time.Unix(1, 0)
	stays := external.ClusterView{Presence: external.Present, ActiveControlPlaneMachines: contract.Some(3)}
	type careFacts struct {
		view    external.ClusterView
		hasNode bool
	}
	with := func(change func(*external.ClusterView)) careFacts {
		view := stays
		change(&view)
		return careFacts{view, true}
	}
	plane := present("Plane")
	broken := plane
	broken.Problem = external.Problem{Message: "it is broken"}
	for name, tc := range map[string]struct {
		facts careFacts
		want  nodeCare
		says  string
	}{
		"there are no Clusters": {careFacts{hasNode: true}, careDrainAndDelete, "the Machine belongs to no Cluster"},
		"there is no Node":      {careFacts{view: stays}, careNone, "the Machine has no Node"},
		"no Node, and an unread Cluster": {careFacts{view: external.ClusterView{Presence: external.Unread}}, careNone,
			"the Machine has no Node"},
		"the Cluster stays": {with(func(*external.ClusterView) {}), careDrainAndDelete, "the cluster stays"},
		"the Cluster goes": {with(func(v *external.ClusterView) { v.State.Deleting = at }), careNone,
			"the Cluster is being deleted"},
		"the Cluster is gone": {with(func(v *external.ClusterView) { v.Presence = external.Absent }), careNone,
			"the Cluster no longer exists"},
		"the Cluster is unread": {with(func(v *external.ClusterView) { v.Presence = external.Unread }), careUnknown,
			"the Cluster could not be read yet"},
		"the kind Cluster is missing": {with(func(v *external.ClusterView) { v.Presence = external.KindMissing }), careUnknown,
			"the Cluster could not be read yet"},
		"the control plane is missing": {with(func(v *external.ClusterView) { v.ControlPlane = external.Object{Presence: external.Absent} }),
			careDrainAndDelete, "the cluster stays"},
		"the control plane's kind is too": {
			with(func(v *external.ClusterView) {
				v.ControlPlane = external.Object{
					Presence: external.KindMissing}
			}), careDrainAndDelete, "the cluster stays"},
		"the control plane is unread": {with(func(v *external.ClusterView) {
			v.ControlPlane = external.Object{Presence: external.Unread, Ref: plane.Ref}
		}),
			careUnknown, "the control plane Plane m could not be read"},
		"the control plane is no use": {with(func(v *external.ClusterView) { v.ControlPlane = broken }),
			careUnknown, "the control plane Plane m could not be read: it is broken"},
		"the control plane goes": {with(func(v *external.ClusterView) { v.ControlPlane = leaving(plane) }), careNone,
			"the control plane is being deleted"},
		"the control plane says that": {with(func(v *external.ClusterView) { v.ControlPlane, v.ControlPlaneState.Deleting = plane, at }),
			careNone, "the control plane is being deleted"},
		"the control plane is elsewhere": {with(func(v *external.ClusterView) {
			v.ControlPlane, v.ControlPlaneState.ExternalManagedControlPlane = plane, true
			v.ActiveControlPlaneMachines = contract.Some(0)
		}), careDrainAndDelete, "the control plane is managed elsewhere"},
		"its members are not counted": {with(func(v *external.ClusterView) { v.ActiveControlPlaneMachines = contract.Opt[int]{} }),
			careUnknown, "the Machines of the control plane could not be counted yet"},
		"its members cannot be counted by this kind": {with(func(v *external.ClusterView) {
			v.ActiveControlPlaneMachines, v.ControlPlaneUncounted = contract.Opt[int]{}, true
		}), careDrainAndDelete, "the cluster stays: its control plane has no Machines of this kind that could be counted"},
		"its members are not counted, and its object is there": {with(func(v *external.ClusterView) {
			v.ControlPlane, v.ActiveControlPlaneMachines, v.ControlPlaneUncounted = plane, contract.Opt[int]{}, true
		}), careDrainAndDelete, "the cluster stays: its control plane has no Machines of this kind that could be counted"},
		"its members are not counted, and it goes": {with(func(v *external.ClusterView) {
			v.ControlPlane, v.ActiveControlPlaneMachines, v.ControlPlaneUncounted = leaving(plane), contract.Opt[int]{}, true
		}), careNone, "the control plane is being deleted"},
		"its members are not counted, and the Cluster goes": {with(func(v *external.ClusterView) {
			v.State.Deleting, v.ActiveControlPlaneMachines, v.ControlPlaneUncounted = at, contract.Opt[int]{}, true
		}), careNone, "the Cluster is being deleted"},
		"the last member goes": {with(func(v *external.ClusterView) { v.ActiveControlPlaneMachines = contract.Some(0) }), careNone,
			"no control plane members"},
		"there is no member, and no object of a control plane": {with(func(v *external.ClusterView) {
			v.ControlPlane, v.ActiveControlPlaneMachines = external.Object{Presence: external.Absent}, contract.Some(0)
		}), careNone, "no control plane members"},
	} {
		t.Run(name, func(t *testing.T) {
			if got, says := decideNodeCare(tc.facts.view, tc.facts.hasNode); got != tc.want || says != tc.says {
				t.Errorf("want %d (%s), got %d (%s)", tc.want, tc.says, got, says)
			}
		})
	}
}

func TestNoMachinesOfAControlPlaneAreNoneOnlyWhereTheyCouldBeSeen(t *testing.T) {
	const capi, own = "cluster.x-k8s.io", "example.com"
	for name, tc := range map[string]struct {
		own, cluster string
		seen         int
		want         bool
	}{
		"the Cluster's own kind":                    {own: capi, cluster: capi, want: true},
		"the Cluster's own kind, and some":          {own: capi, cluster: capi, seen: 3, want: true},
		"another kind":                              {own: own, cluster: capi},
		"another kind, which the control plane has": {own: own, cluster: capi, seen: 1, want: true},
		"what a Cluster is is unknown":              {own: own},
		"no group, and that is unknown":             {},
	} {
		if got := coversControlPlane(tc.own, tc.cluster, tc.seen); got != tc.want {
			t.Errorf("%s: counted: want %v, got %v", name, tc.want, got)
		}
	}
	s := attached(&Scope{})
	s.Cluster.GVK.Group = testKind().GVK.Group
	require.NoError(t, s.countControlPlane(t.Context(), types.NamespacedName{Name: "c"}))
	require.True(t, s.Cluster.ControlPlaneUncounted, "no index")
}

func TestANodeThatCouldNotBeLookedForMayExist(t *testing.T) {
	waiting := external.ClusterView{Presence: external.Present}
	known := contract.MachineSpec{ProviderID: "a://b"}
	foreign := present("Infra")
	foreign.Foreign = true
	for name, tc := range map[string]struct {
		scope *Scope
		want  bool
	}{
		"it was recorded": {scope: &Scope{Scope: base{State: contract.MachineState{Node: contract.NodeRef{Name: "n"}}}},
			want: true},
		"it was recorded, and is gone": {
			scope: &Scope{NodesSynced: true, Scope: base{State: contract.MachineState{Node: contract.NodeRef{Name: "n"}}}}, want: true},
		"it is there": {
			scope: &Scope{NodesSynced: true, Node: noderef.Match{Outcome: noderef.Matched, Node: &corev1.Node{}}}, want: true},
		"it may be one of two": {scope: &Scope{NodesSynced: true, Node: noderef.Match{Outcome: noderef.Ambiguous}},
			want: true},
		"it may be another Machine's": {scope: &Scope{NodesSynced: true, Node: noderef.Match{Outcome: noderef.Claimed}}, want: true},
		"it is not there": {
			scope: &Scope{NodesSynced: true, Scope: base{State: contract.MachineState{MachineSpec: known}}}},
		"unread":                       {scope: &Scope{Scope: base{State: contract.MachineState{MachineSpec: known}}}, want: true},
		"unread, and nothing to go by": {scope: &Scope{}},
		"unread, in a cluster that never came up": {
			scope: &Scope{Scope: base{Cluster: waiting, State: contract.MachineState{MachineSpec: known}}}},
		"its UID was recorded, in a cluster whose status was not restored": {
			scope: &Scope{Scope: base{Cluster: waiting, State: contract.MachineState{MachineSpec: known, Node: contract.NodeRef{UID: "u"}}}},
			want:  true},
		"the infrastructure is another's": {
			scope: &Scope{Infrastructure: foreign, Scope: base{State: contract.MachineState{MachineSpec: known}}}},
	} {
		t.Run(name, func(t *testing.T) {
			tc.scope.env = &Reconciler{}
			if got := tc.scope.mayHaveNode(); got != tc.want {
				t.Errorf("want %v, got %v", tc.want, got)
			}
		})
	}
}

func TestTheDecisionAboutANodeIsMadeOnceAndNotFromAnError(t *testing.T) {
	s := &Scope{
		Scope: base{State: contract.MachineState{Node: contract.NodeRef{Name: "n"}}, ClusterErr: errors.New("no answer")},
		env:   &Reconciler{},
	}
	require.Equal(t, careUnknown, s.decidedCare(), "an error says nothing about a Cluster")
	require.Equal(t, "the Cluster could not be read yet: no answer", s.careReason)
	result, err := drainStage().run(t.Context(), s)
	require.ErrorIs(t, err, s.ClusterErr)
	require.True(t, result.Stop)

	s.care = careNone
	require.Equal(t, careNone, s.decidedCare())
}

func TestANodeByTheRecordedNameIsTheMachinesWhenItIsTheRecordedOneOrItsInstance(t *testing.T) {
	node := func(uid types.UID, id string) *corev1.Node {
		return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", UID: uid}, Spec: corev1.NodeSpec{ProviderID: id}}
	}
	known := noderef.Identity{ProviderID: "a://b", Current: contract.NodeRef{Name: "n", UID: "u"}}
	unnamed := noderef.Identity{Current: known.Current}
	for name, tc := range map[string]struct {
		node *corev1.Node
		id   noderef.Identity
		want bool
	}{
		"the recorded one":                                 {node: node("u", "a://b"), id: known, want: true},
		"its instance registered again":                    {node: node("new", "a://b"), id: known, want: true},
		"another instance took its name":                   {node: node("new", "a://c"), id: known},
		"nothing says whose it is":                         {node: node("new", ""), id: known},
		"the recorded one of a Machine without an ID":      {node: node("u", "a://b"), id: unnamed, want: true},
		"another than that of a Machine without an ID":     {node: node("new", "a://b"), id: unnamed},
		"one without a UID, of a Machine without anything": {node: node("", "a://b"), id: noderef.Identity{}},
	} {
		if got := isSameNode(tc.node, tc.id, noderef.Rules{}); got != tc.want {
			t.Errorf("%s: want %v, got %v", name, tc.want, got)
		}
	}
}

func TestAStageWhoseNodesCannotBeReadIsWaitedForUnlessItMakesNoSenseOrItsTimeIsUp(t *testing.T) {
	now := time.Unix(1000, 0)
	for name, tc := range map[string]struct {
		facts stageFacts
		says  string // empty: it is waited for
	}{
		"nothing is known":      {},
		"the Cluster is gone":   {stageFacts{ClusterGone: true}, "the Cluster no longer exists, or is being deleted"},
		"the machine is gone":   {stageFacts{InstanceGone: true}, "the machine no longer exists"},
		"the machine is off":    {stageFacts{PoweredOff: true}, "the machine is off"},
		"no limit":              {stageFacts{Started: now.Add(-time.Hour)}, ""},
		"a limit, and no start": {stageFacts{Limit: time.Minute}, ""},
		"within the limit":      {stageFacts{Started: now.Add(-59 * time.Second), Limit: time.Minute}, ""},
		"the limit is reached":  {stageFacts{Started: now.Add(-time.Minute), Limit: time.Minute}, "not completed within 1m0s"},
	} {
		t.Run(name, func(t *testing.T) {
			tc.facts.Now, tc.facts.Unread = now, "no answer"
			want, text := stageUnread, "no answer"
			if tc.says != "" {
				want, text = stageOver, tc.says+", while its Nodes could not be read: no answer"
			}
			got, says := decideStage(tc.facts)
			require.Equal(t, []any{want, text}, []any{got, says})
		})
	}
}

func TestStageFactsOfUnreadNodes(t *testing.T) {
	now := time.Unix(1000, 0).UTC()
	limited := contract.MachineSpec{NodeDrainTimeout: contract.Some(time.Minute)}
	for name, tc := range map[string]struct {
		scope *Scope
		stage Stage
		drain time.Duration // since when it began, zero for not
		want  stageFacts
	}{
		"the Cluster is unread": {scope: &Scope{Scope: base{Cluster: external.ClusterView{Presence: external.Unread}}}, stage: volumesStage()},
		"the Cluster stays":     {scope: &Scope{Scope: base{Cluster: external.ClusterView{Presence: external.Present}}}, stage: volumesStage()},
		"its read has failed": {
			scope: &Scope{Scope: base{Cluster: external.ClusterView{Presence: external.Absent}, ClusterErr: errors.New("no")}},
			stage: volumesStage()},
		"the Cluster is gone": {scope: &Scope{Scope: base{Cluster: external.ClusterView{Presence: external.Absent}}}, stage: volumesStage(),
			want: stageFacts{ClusterGone: true}},
		"the Cluster goes": {
			scope: &Scope{Scope: base{Cluster: external.ClusterView{Presence: external.Present,
				State: contract.ClusterState{Metadata: contract.Metadata{Deleting: now}}}}},
			stage: volumesStage(), want: stageFacts{ClusterGone: true}},
		"its object is gone": {scope: &Scope{infrastructureGone: true}, stage: drainStage(), want: stageFacts{InstanceGone: true}},
		"the machine is off": {scope: &Scope{PoweredOff: true}, stage: drainStage(), want: stageFacts{PoweredOff: true}},
		"its Node is deleted anyway": {scope: &Scope{infrastructureGone: true, PoweredOff: true}, stage: deleteNodeStage(),
			want: stageFacts{Last: true}},
		"there was never a Node, and the drain has a limit": {
			scope: &Scope{Scope: base{State: contract.MachineState{MachineSpec: limited}}},
			stage: volumesStage(), drain: time.Second, want: stageFacts{Started: now.Add(-time.Second), Limit: time.Minute}},
		"and has not begun": {
			scope: &Scope{Scope: base{State: contract.MachineState{MachineSpec: limited}}},
			stage: volumesStage(), want: stageFacts{Limit: time.Minute}},
		"there was a Node": {
			scope: &Scope{Scope: base{State: contract.MachineState{Node: contract.NodeRef{Name: "n"},
				MachineSpec: limited}}},
			stage: volumesStage(), drain: time.Second},
		"the stage has a limit of its own": {
			scope: &Scope{Scope: base{State: contract.MachineState{MachineSpec: contract.MachineSpec{
				NodeDrainTimeout: contract.Some(time.Minute), NodeVolumeDetachTimeout: contract.Some(time.Hour)}}}},
			stage: volumesStage(), drain: time.Second, want: stageFacts{Limit: time.Hour}},
	} {
		t.Run(name, func(t *testing.T) {
			s := attached(tc.scope)
			s.Now, s.care = now, careDrainAndDelete
			if tc.drain > 0 {
				s.deletion = record(begun(StepDrain, now.Add(-tc.drain)))
			}
			got := s.stageFacts(tc.stage)
			tc.want.Now, tc.want.Unread = now, s.unread()
			got.Excluded, got.Done, got.Needs = "", false, ""
			require.Equal(t, tc.want, got)
		})
	}
}

func TestAWaitForUnreadNodesEndsWithAnEventALimitOrAnotherTry(t *testing.T) {
	now := time.Unix(1000, 0)
	unknown := errors.New("no idea")
	for name, tc := range map[string]struct {
		err   error
		limit time.Duration
		want  Result
	}{
		"the first list of the own cluster": {want: Result{Stop: true, RequeueAfter: time.Second}},
		"an event will tell":                {err: cluster.ErrNoCluster, want: Result{Stop: true}},
		"an event will tell, or the limit": {err: cluster.ErrNoCluster, limit: time.Minute,
			want: Result{Stop: true, RequeueAfter: 30 * time.Second}},
		"the state cannot be read": {err: unknown, want: Result{Stop: true, RequeueAfter: 10 * time.Second}},
		"the state cannot be read before the limit": {err: unknown, limit: 35 * time.Second,
			want: Result{Stop: true, RequeueAfter: 5 * time.Second}},
	} {
		t.Run(name, func(t *testing.T) {
			s := &Scope{Scope: base{Now: now}, NodesErr: tc.err}
			stage := Stage{Name: StepDrain, Reason: contract.ReasonDrainingNode}
			facts := stageFacts{Unread: s.unread(), Started: now.Add(-30 * time.Second), Limit: tc.limit}
			got, err := s.waitForStage(stage, facts, s.unread())
			require.NoError(t, err)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			said, _ := s.Condition(contract.ConditionDeleting)
			require.Equal(t, contract.ReasonDrainingNode, said.Reason)
			require.Equal(t, s.unread(), said.Message)
		})
	}
}
