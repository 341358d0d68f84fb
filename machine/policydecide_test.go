package machine

import (
	"errors"
	"strings"
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

func TestNodeCare(t *testing.T) {
	type view = *external.ClusterView
	at, plane := time.Unix(1, 0), present("Plane")
	broken, none := plane, contract.Opt[int]{}
	broken.Problem = external.Problem{Message: "it is broken"}
	const going, noMembers = "the control plane is being deleted", "no control plane members"
	const uncounted = "the cluster stays: its control plane has no Machines of this kind that could be counted"
	for name, tc := range map[string]struct {
		change func(view) // of a Cluster that stays
		want   nodeCare
		why    string
	}{
		"the Cluster stays":           {func(view) {}, careDrainAndDelete, "the cluster stays"},
		"there are no Clusters":       {func(v view) { *v = external.ClusterView{} }, careDrainAndDelete, "the Machine belongs to no Cluster"},
		"the Cluster goes":            {func(v view) { v.State.Deleting = at }, careNone, "the Cluster is being deleted"},
		"the Cluster is gone":         {func(v view) { v.Presence = external.Absent }, careNone, "the Cluster no longer exists"},
		"the Cluster is unread":       {func(v view) { v.Presence = external.Unread }, careUnknown, "the Cluster could not be read yet"},
		"the kind Cluster is missing": {func(v view) { v.Presence = external.KindMissing }, careUnknown, "the Cluster could not be read yet"},
		"the control plane is missing": {func(v view) { v.ControlPlane.Presence = external.Absent }, careDrainAndDelete,
			"the cluster stays"},
		"the control plane's kind is too": {func(v view) { v.ControlPlane.Presence = external.KindMissing }, careDrainAndDelete,
			"the cluster stays"},
		"the control plane is unread": {func(v view) { v.ControlPlane = external.Object{Presence: external.Unread, Ref: plane.Ref} }, careUnknown,
			"the control plane Plane m could not be read"},
		"the control plane is no use": {func(v view) { v.ControlPlane = broken }, careUnknown,
			"the control plane Plane m could not be read: it is broken"},
		"the control plane goes":         {func(v view) { v.ControlPlane = leaving(plane) }, careNone, going},
		"the control plane reports that": {func(v view) { v.ControlPlane, v.ControlPlaneState.Deleting = plane, at }, careNone, going},
		"the control plane is elsewhere": {func(v view) {
			v.ControlPlane, v.ControlPlaneState.ExternalManagedControlPlane, v.ActiveControlPlaneMachines = plane, true, contract.Some(0)
		}, careDrainAndDelete, "the control plane is managed elsewhere"},
		"its members are not counted": {func(v view) { v.ActiveControlPlaneMachines = none }, careUnknown,
			"the Machines of the control plane could not be counted yet"},
		"its members cannot be counted": {func(v view) { v.ActiveControlPlaneMachines, v.ControlPlaneUncounted = none, true },
			careDrainAndDelete, uncounted},
		"nor be, and its object is there": {func(v view) {
			v.ControlPlane, v.ActiveControlPlaneMachines, v.ControlPlaneUncounted = plane, none, true
		}, careDrainAndDelete, uncounted},
		"nor be, and it goes": {func(v view) {
			v.ControlPlane, v.ActiveControlPlaneMachines, v.ControlPlaneUncounted = leaving(plane), none, true
		}, careNone, going},
		"nor be, and the Cluster goes": {func(v view) {
			v.State.Deleting, v.ActiveControlPlaneMachines, v.ControlPlaneUncounted = at, none, true
		}, careNone, "the Cluster is being deleted"},
		"the last member goes": {func(v view) { v.ActiveControlPlaneMachines = contract.Some(0) }, careNone, noMembers},
		"there is no member, and no object": {func(v view) {
			v.ControlPlane.Presence, v.ActiveControlPlaneMachines = external.Absent, contract.Some(0)
		}, careNone, noMembers},
	} {
		t.Run(name, func(t *testing.T) {
			seen := external.ClusterView{Presence: external.Present, ActiveControlPlaneMachines: contract.Some(3)}
			tc.change(&seen)
			got, why := decideNodeCare(seen, true)
			require.Equal(t, []any{tc.want, tc.why}, []any{got, why})
		})
	}
	for _, seen := range []external.ClusterView{{Presence: external.Present}, {Presence: external.Unread}} {
		got, why := decideNodeCare(seen, false)
		require.Equal(t, []any{careNone, "the Machine has no Node"}, []any{got, why})
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
		require.Equal(t, tc.want, coversControlPlane(tc.own, tc.cluster, tc.seen), "%s: counted", name)
	}
	s := attached(&Scope{})
	s.Cluster.GVK.Group = testKind().GVK.Group
	require.NoError(t, s.countControlPlane(t.Context(), types.NamespacedName{Name: "c"}))
	require.True(t, s.Cluster.ControlPlaneUncounted, "no index")
}

func TestANodeThatCouldNotBeLookedForMayExist(t *testing.T) {
	waiting := external.ClusterView{Presence: external.Present}
	foreign := present("Infra")
	foreign.Foreign = true
	of := func(id, node string, uid types.UID, view external.ClusterView) base {
		return base{Cluster: view, State: contract.MachineState{
			MachineSpec: contract.MachineSpec{ProviderID: id}, Node: contract.NodeRef{Name: node, UID: uid}}}
	}
	known, none := of("a://b", "", "", external.ClusterView{}), external.ClusterView{}
	for name, tc := range map[string]struct {
		scope *Scope
		want  bool
	}{
		"it was recorded":              {&Scope{Scope: of("", "n", "", none)}, true},
		"it was recorded, and is gone": {&Scope{NodesSynced: true, Scope: of("", "n", "", none)}, true},
		"it is there": {
			&Scope{NodesSynced: true, Node: noderef.Match{Outcome: noderef.Matched, Node: &corev1.Node{}}}, true},
		"it may be one of two":                    {&Scope{NodesSynced: true, Node: noderef.Match{Outcome: noderef.Ambiguous}}, true},
		"it may be another Machine's":             {&Scope{NodesSynced: true, Node: noderef.Match{Outcome: noderef.Claimed}}, true},
		"it is not there":                         {&Scope{NodesSynced: true, Scope: known}, false},
		"unread":                                  {&Scope{Scope: known}, true},
		"unread, and nothing to go by":            {&Scope{}, false},
		"unread, in a cluster that never came up": {&Scope{Scope: of("a://b", "", "", waiting)}, false},
		"its UID was recorded, in a cluster whose status was not restored": {&Scope{Scope: of("a://b", "", "u", waiting)}, true},
		"the infrastructure is another's":                                  {&Scope{Infrastructure: foreign, Scope: known}, false},
	} {
		tc.scope.env = &Reconciler{}
		require.Equal(t, tc.want, tc.scope.mayHaveNode(), name)
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
		require.Equal(t, tc.want, isSameNode(tc.node, tc.id, noderef.Rules{}), name)
	}
}

func TestStageFactsOfUnreadNodes(t *testing.T) {
	now := time.Unix(1000, 0).UTC()
	clusterIs := func(presence external.Presence) *Scope {
		return &Scope{Scope: base{Cluster: external.ClusterView{Presence: presence}}}
	}
	going, failed := clusterIs(external.Present), clusterIs(external.Absent)
	going.Cluster.State.Deleting, failed.ClusterErr = now, errors.New("no")
	limited := func(node string, volumes contract.Opt[time.Duration]) *Scope {
		s := &Scope{}
		s.State.Node.Name, s.State.NodeDrainTimeout, s.State.NodeVolumeDetachTimeout = node, contract.Some(time.Minute), volumes
		return s
	}
	unlimited := contract.Opt[time.Duration]{}
	for name, tc := range map[string]struct {
		scope *Scope
		stage Stage
		drain time.Duration // since when it began, zero for not
		want  stageFacts
	}{
		"the Cluster is unread": {clusterIs(external.Unread), volumesStage(), 0, stageFacts{}},
		"the Cluster stays":     {clusterIs(external.Present), volumesStage(), 0, stageFacts{}},
		"its read has failed":   {failed, volumesStage(), 0, stageFacts{}},
		"the Cluster is gone":   {clusterIs(external.Absent), volumesStage(), 0, stageFacts{ClusterGone: true}},
		"the Cluster goes":      {going, volumesStage(), 0, stageFacts{ClusterGone: true}},
		"its object is gone":    {&Scope{infrastructureGone: true}, drainStage(), 0, stageFacts{InstanceGone: true}},
		"the machine is off":    {&Scope{PoweredOff: true}, drainStage(), 0, stageFacts{PoweredOff: true}},
		"its Node is deleted anyway": {&Scope{infrastructureGone: true, PoweredOff: true}, deleteNodeStage(), 0,
			stageFacts{Last: true}},
		"there was never a Node, and the drain has a limit": {limited("", unlimited), volumesStage(), time.Second,
			stageFacts{Started: now.Add(-time.Second), Limit: time.Minute}},
		"and has not begun": {limited("", unlimited), volumesStage(), 0, stageFacts{Limit: time.Minute}},
		"there was a Node":  {limited("n", unlimited), volumesStage(), time.Second, stageFacts{}},
		"the stage has a limit of its own": {limited("", contract.Some(time.Hour)), volumesStage(), time.Second,
			stageFacts{Limit: time.Hour}},
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

func TestAWaitForUnreadNodesEndsWithALimitOrAnotherTry(t *testing.T) {
	now := time.Unix(1000, 0)
	unknown := errors.New("no idea")
	for name, tc := range map[string]struct {
		err   error
		limit time.Duration
		want  Result
	}{
		"the first list of the own cluster": {want: Result{Stop: true, RequeueAfter: 10 * time.Second}},
		"an event follows, as a rule":       {err: cluster.ErrNoCluster, want: Result{Stop: true, RequeueAfter: time.Minute}},
		"the state cannot be read":          {err: unknown, want: Result{Stop: true, RequeueAfter: 10 * time.Second}},
		"the state cannot be read before the limit": {err: unknown, limit: 35 * time.Second,
			want: Result{Stop: true, RequeueAfter: 5 * time.Second}},
	} {
		t.Run(name, func(t *testing.T) {
			s := &Scope{Scope: base{Now: now}, NodesErr: tc.err}
			stage := Stage{Name: StepDrain, Reason: contract.ReasonDrainingNode}
			facts := stageFacts{Unread: s.unread(), Started: now.Add(-30 * time.Second), Limit: tc.limit}
			got, err := s.waitForStage(stage, facts, s.unread())
			require.NoError(t, err)
			require.Empty(t, cmp.Diff(tc.want, got))
			said, _ := s.Condition(contract.ConditionDeleting)
			require.Equal(t, contract.ReasonDrainingNode, said.Reason)
			require.Equal(t, s.unread(), said.Message)
		})
	}
}

func TestAnInstanceThatSeveralMachinesNameIsDeletedWithTheOneThatAloneHasItsNode(t *testing.T) {
	t.Parallel()
	other := func(name string, recorded, deleting bool) instanceClaim {
		return instanceClaim{Machine: types.NamespacedName{Namespace: "ns", Name: name}, Recorded: recorded, Deleting: deleting}
	}
	made := func(name string, deleting bool) instanceClaim {
		c := other(name, false, deleting)
		c.Made = true
		return c
	}
	far := func(recorded, deleting bool) instanceClaim {
		return instanceClaim{types.NamespacedName{Namespace: "far", Name: "a"}, recorded, deleting, true, false}
	}
	for name, tc := range map[string]struct {
		facts instanceClaims
		want  []string
	}{
		"there is no other": {},
		"this one alone has recorded the Node": {
			facts: instanceClaims{Recorded: true, Others: []instanceClaim{other("b", false, false), other("c", false, true)}}},
		"this one alone has recorded the Node, and the instance was made for another one, which has lost the record": {
			facts: instanceClaims{Recorded: true, Others: []instanceClaim{made("b", false)}}, want: []string{"ns/b"}},
		"the instance was made for another one, which is being deleted": {
			facts: instanceClaims{Recorded: true, Others: []instanceClaim{made("b", true)}}},
		"this one has recorded a Node of another instance": {
			facts: instanceClaims{Recorded: true, Contested: true, Others: []instanceClaim{other("b", false, false)}}, want: []string{"ns/b"}},
		"another one has recorded the Node": {
			facts: instanceClaims{Others: []instanceClaim{other("b", true, false)}}, want: []string{"ns/b"}},
		"another one has recorded the Node, and drains it": {
			facts: instanceClaims{Others: []instanceClaim{other("b", true, true), other("c", false, true)}}, want: []string{"ns/b"}},
		"no one has recorded a Node": {
			facts: instanceClaims{Others: []instanceClaim{other("c", false, false), other("b", false, false)}}, want: []string{"ns/b", "ns/c"}},
		"no one has recorded a Node, and all are being deleted": {
			facts: instanceClaims{Others: []instanceClaim{other("b", false, true)}}},
		"both have recorded a Node, as after a copy with all annotations": {
			facts: instanceClaims{Recorded: true, Contested: true, Others: []instanceClaim{other("b", true, false)}}, want: []string{"ns/b"}},
		"both have recorded a Node, and are being deleted": {
			facts: instanceClaims{Recorded: true, Contested: true, Others: []instanceClaim{other("b", true, true)}}},
		"it was restored for another cluster": {
			facts: instanceClaims{Recorded: true, Others: []instanceClaim{far(true, false)}}, want: []string{"far/a"}},
		"it was restored for another cluster, and both are being deleted": {
			facts: instanceClaims{Others: []instanceClaim{far(true, true)}}},
		"a copy was restored for another cluster": {
			facts: instanceClaims{Made: true, Others: []instanceClaim{far(true, false)}}},
		"a copy was restored, and there is one in the cluster": {
			facts: instanceClaims{Made: true, Others: []instanceClaim{far(true, false), other("b", false, false)}}, want: []string{"ns/b"}},
		"the Node of the other cluster's copy does not contest this one's": {
			facts: instanceClaims{Recorded: true, Made: true, Others: []instanceClaim{far(true, false), other("b", false, false)}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tc.want, decideInstanceClaim(tc.facts))
		})
	}
}

func TestMachinesThatAreBeingDeletedDoNotWaitForEachOther(t *testing.T) {
	t.Parallel()
	for bits := range 1 << 7 {
		recorded, contested := [2]bool{bits&1 != 0, bits&2 != 0}, [2]bool{bits&4 != 0, bits&8 != 0}
		made, elsewhere := [2]bool{bits&16 != 0, bits&32 != 0}, bits&64 != 0
		waiting := 0
		for i := range 2 {
			facts := instanceClaims{Recorded: recorded[i], Contested: contested[i], Made: made[i], Others: []instanceClaim{{
				Recorded: recorded[1-i], Deleting: true, Elsewhere: elsewhere,
			}}}
			waiting += len(decideInstanceClaim(facts))
		}
		require.Less(t, waiting, 2, "recorded %v, contested %v, made %v, elsewhere %v", recorded, contested, made, elsewhere)
	}
}

// Only the Machine's own Node that is there says that the instance is its own.
func TestAnInstanceIsContestedUnlessItsNodeIsTheMachines(t *testing.T) {
	t.Parallel()
	own, outcomes := []string{}, 0
	for o := noderef.Unknown; !strings.HasPrefix(o.String(), "Outcome("); o++ {
		outcomes++
		copied := instanceClaims{Recorded: true, Contested: isContested(o), Others: []instanceClaim{{}}}
		alone := instanceClaims{Recorded: true, Contested: isContested(o)}
		require.Empty(t, decideInstanceClaim(alone), "%s", o)
		if len(decideInstanceClaim(copied)) == 0 {
			own = append(own, o.String())
		}
	}
	require.Equal(t, 8, outcomes)
	require.Equal(t, []string{"Matched", "Readopted"}, own)
}

func TestNodeClaim(t *testing.T) {
	t.Parallel()
	other := func(name string, deleting, made bool) instanceClaim {
		return instanceClaim{Machine: types.NamespacedName{Namespace: "ns", Name: name}, Deleting: deleting, Made: made}
	}
	for name, tc := range map[string]struct {
		others          []instanceClaim
		known           bool
		heldBy, unclear string
	}{
		"there is no other": {},
		"the driver has not answered": {
			others: []instanceClaim{other("c", false, false), other("b", false, false)}, unclear: "ns/b"},
		"the others are being deleted": {others: []instanceClaim{other("b", true, false)}},
		"it was made for another one": {
			others: []instanceClaim{other("c", false, false), other("b", false, true)}, known: true, heldBy: "ns/b"},
		"it was made for one that is being deleted": {others: []instanceClaim{other("b", true, true)}, known: true},
		"it was made for none of them":              {others: []instanceClaim{other("b", false, false)}, known: true},
	} {
		heldBy, unclear := decideNodeClaim(tc.others, tc.known)
		require.Equal(t, [2]string{tc.heldBy, tc.unclear}, [2]string{heldBy, unclear}, name)
	}
}
