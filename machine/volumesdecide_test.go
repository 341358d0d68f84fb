package machine

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/drain"
	"github.com/machinist-dev/machinist/drain/runner"
	"github.com/machinist-dev/machinist/internal/engine"
	"github.com/machinist-dev/machinist/internal/external"
	"github.com/machinist-dev/machinist/noderef"
	"github.com/machinist-dev/machinist/noderef/cluster"
)

func TestVolumesAreWaitedForOnceOnTheNodeThatWasMatched(t *testing.T) {
	now := time.Unix(10_000, 0)
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", UID: "n-uid"}}
	matched := noderef.Match{Outcome: noderef.Matched, Node: node}
	for name, tc := range map[string]struct {
		facts  nodeStageFacts
		node   types.UID // recorded
		record contract.Deletion
		want   stageAction
	}{
		"after the drain":                 {facts: nodeStageFacts{NodesSynced: true, Match: matched}, want: stageRuns},
		"excluded":                        {facts: nodeStageFacts{Excluded: "asked", NodesSynced: true, Match: matched}, want: stageExcluded},
		"excluded while Nodes are unread": {facts: nodeStageFacts{Excluded: "asked"}, want: stageExcluded},
		"the machine is gone":             {facts: nodeStageFacts{InfrastructureGone: true, NodesSynced: true, Match: matched}, want: stageDone},
		"the machine is going": {facts: nodeStageFacts{Infrastructure: leaving(present("I")), NodesSynced: true, Match: matched},
			want: stageDone},
		"an unread machine is not a gone one": {
			facts: nodeStageFacts{Infrastructure: external.Object{Presence: external.Unread}, NodesSynced: true, Match: matched},
			want:  stageRuns},
		"unread Nodes are not missing":   {facts: nodeStageFacts{Match: noderef.Match{Outcome: noderef.NotFound}}, want: stageUnread},
		"unread Nodes that are given up": {facts: nodeStageFacts{ClusterGone: true}, want: stageOver},
		"done before Nodes were unread": {facts: nodeStageFacts{},
			record: record(ended(StepVolumes, "n-uid")), node: "n-uid", want: stageDone},
		"of another Node before": {facts: nodeStageFacts{},
			record: record(ended(StepVolumes, "old")), node: "n-uid", want: stageUnread},
		"there is no Node": {facts: nodeStageFacts{NodesSynced: true, Match: noderef.Match{Outcome: noderef.NotFound}}, want: stageDone},
		"the Node is another machine's": {
			facts: nodeStageFacts{NodesSynced: true, Match: noderef.Match{Outcome: noderef.Stale, Node: node}}, want: stageDone},
		"another Machine names it too": {
			facts: nodeStageFacts{NodesSynced: true, Match: noderef.Match{Outcome: noderef.Claimed, Other: node}}, want: stageDone},
		"two Nodes claim the ID": {facts: nodeStageFacts{NodesSynced: true, Match: noderef.Match{Outcome: noderef.Ambiguous}}, want: stageDone},
		"done before": {facts: nodeStageFacts{NodesSynced: true, Match: matched},
			record: record(ended(StepVolumes, "n-uid")), want: stageDone},
		"done before, of another Node": {facts: nodeStageFacts{NodesSynced: true, Match: matched},
			record: record(ended(StepVolumes, "old")), want: stageRuns},
		"pre-terminate hooks have begun": {facts: nodeStageFacts{NodesSynced: true, Match: matched},
			record: record(begun(StepPreTerminateHooks, now)), want: stageDone},
		"without a limit": {facts: nodeStageFacts{NodesSynced: true, Match: matched},
			record: record(begun(StepVolumes, now.Add(-time.Hour))), want: stageRuns},
		"within its limit": {facts: nodeStageFacts{NodesSynced: true, Match: matched, Limit: time.Minute},
			record: record(begun(StepVolumes, now.Add(-59*time.Second))), want: stageRuns},
		"at its limit": {facts: nodeStageFacts{NodesSynced: true, Match: matched, Limit: time.Minute},
			record: record(begun(StepVolumes, now.Add(-time.Minute))), want: stageOver},
		"a limit that has not begun": {facts: nodeStageFacts{NodesSynced: true, Match: matched, Limit: time.Nanosecond},
			want: stageRuns},
	} {
		t.Run(name, func(t *testing.T) {
			tc.facts.Now = now
			if got, why := tc.facts.decide(volumesStage(), tc.record, tc.node); got != tc.want {
				t.Errorf("want %d, got %d: %s", tc.want, got, why)
			}
		})
	}
}

// attachedTo answers what it is told to about volumes, and writes down what it was asked.
type attachedTo struct {
	result   runner.VolumesResult
	err      error
	asked    []runner.Request
	released int
}

func (a *attachedTo) StepVolumes(_ context.Context, req runner.Request, _ time.Duration) (runner.VolumesResult, error) {
	a.asked = append(a.asked, req)
	return a.result, a.err
}
func (a *attachedTo) Release(string) { a.released++ }

func TestAPassWritesAboutVolumesOnlyWhatALaterOneNeeds(t *testing.T) {
	now := time.Unix(10_000, 0)
	began := now.Add(-time.Minute)
	some := runner.VolumesResult{Attached: []drain.VolumeRef{{Name: "va"}}, Message: "* PersistentVolumeClaims: shop/data",
		RequeueAfter: 15 * time.Second}
	unlisted := runner.VolumesResult{Message: "* waiting for lists", RequeueAfter: 15 * time.Second}
	type outcome struct {
		Result   Result
		Began    contract.Change[time.Time]
		Detached bool
		Message  string
		Told     []string
		Released int
	}
	const waiting = "Waiting for Node volumes to be detached"
	for name, tc := range map[string]struct {
		volumes attachedTo
		limit   time.Duration
		began   time.Time
		drained bool // in this pass
		unread  bool
		want    outcome
	}{
		"nothing is attached": {
			volumes: attachedTo{result: runner.VolumesResult{Done: true}}, want: outcome{Released: 1}},
		"nothing is attached right after the drain": {
			volumes: attachedTo{result: runner.VolumesResult{Done: true}}, drained: true,
			want: outcome{Detached: true, Released: 1}},
		"something is attached": {
			volumes: attachedTo{result: some},
			want: outcome{Result: Result{Stop: true, Checkpoint: true, RequeueAfter: 15 * time.Second}, Began: contract.SetTo(now),
				Message: waiting + " (started at 1970-01-01T02:46:40Z)\n* PersistentVolumeClaims: shop/data"}},
		"it still is": {
			volumes: attachedTo{result: some}, began: began,
			want: outcome{Result: Result{Stop: true, RequeueAfter: 15 * time.Second},
				Message: waiting + " (started at 1970-01-01T02:45:40Z)\n* PersistentVolumeClaims: shop/data"}},
		"it still is, and the limit is near": {
			volumes: attachedTo{result: some}, began: began, limit: 63 * time.Second,
			want: outcome{Result: Result{Stop: true, RequeueAfter: 3 * time.Second},
				Message: waiting + " (started at 1970-01-01T02:45:40Z)\n* PersistentVolumeClaims: shop/data"}},
		"a limit that was shortened meanwhile has passed": {
			volumes: attachedTo{result: some}, began: began, limit: time.Second,
			want: outcome{Told: []string{`Warning FailedWaitForVolumeDetach error waiting for node volumes detaching Machine's node "n": ` +
				"not completed within 1s: the deletion goes on without"}, Released: 1}},
		"it was, and is not any more": {
			volumes: attachedTo{result: runner.VolumesResult{Done: true}}, began: began,
			want: outcome{Detached: true, Released: 1,
				Told: []string{`Normal NodeVolumesDetached success waiting for node volumes detaching Machine's node "n"`}}},
		"the Node does not answer any more": {
			volumes: attachedTo{result: runner.VolumesResult{Done: true, Stopped: drain.VolumesUnreachable, Message: "* left"}},
			want: outcome{Detached: true,
				Told: []string{"Warning NodeVolumesLeftAttached * left"}, Released: 1}},
		"it is not known yet": {
			volumes: attachedTo{result: unlisted},
			want:    outcome{Result: Result{Stop: true, RequeueAfter: 15 * time.Second}, Message: waiting + "\n* waiting for lists"}},
		"it is not known yet, and there is a limit": {
			volumes: attachedTo{result: unlisted}, limit: 5 * time.Second,
			want: outcome{Result: Result{Stop: true, Checkpoint: true, RequeueAfter: 5 * time.Second}, Began: contract.SetTo(now),
				Message: waiting + "\n* waiting for lists"}},
		"the cluster is lost while it is asked": {
			volumes: attachedTo{err: cluster.ErrNotConnected},
			want: outcome{Result: Result{Stop: true, RequeueAfter: engine.ConflictRetry},
				Message: waiting + "\n" + cluster.ErrNotConnected.Error()}},
		"the Nodes are unread": {
			unread: true, want: outcome{Result: Result{Stop: true}, Began: contract.SetTo(now),
				Message: cluster.ErrNotConnected.Error() + "; to go on without, " + volumesStage().exits}},
		"the Nodes are unread, and there is a limit": {
			unread: true, limit: 5 * time.Second,
			want: outcome{Result: Result{Stop: true, RequeueAfter: 5 * time.Second}, Began: contract.SetTo(now),
				Message: cluster.ErrNotConnected.Error() + "; to go on without, " + volumesStage().exits}},
	} {
		t.Run(name, func(t *testing.T) {
			s := scopeWithVolumes(&tc.volumes, now, tc.limit)
			if !tc.began.IsZero() {
				s.State.VolumeDetachStarted, s.deletion = tc.began, record(begun(StepVolumes, tc.began))
			}
			if tc.drained {
				s.end(StepDrain, "n-uid")
			}
			if tc.unread {
				s.NodesSynced, s.NodesErr = false, cluster.ErrNotConnected
			}
			result, err := volumesStage().run(t.Context(), s)
			require.NoError(t, err)
			deleting, _ := engine.Find(s.Asserted, contract.ConditionDeleting)
			got := outcome{Result: result, Began: s.Update.VolumeDetachStarted, Detached: s.deletion.HasEnded(StepVolumes, "n-uid"),
				Message: deleting.Message, Released: tc.volumes.released}
			for _, e := range s.told {
				got.Told = append(got.Told, e.Kind+" "+e.Reason+" "+e.Note)
			}
			if diff := cmp.Diff(tc.want, got, cmp.AllowUnexported(contract.Change[time.Time]{})); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func scopeWithVolumes(volumes cluster.Volumes, now time.Time, limit time.Duration) *Scope {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", UID: "n-uid"}}
	return attached(&Scope{
		Scope: base{Object: testKind().New(), Now: now, State: contract.MachineState{
			MachineSpec: contract.MachineSpec{NodeVolumeDetachTimeout: contract.Some(limit)}, Node: contract.NodeRef{Name: "n", UID: "n-uid"},
		}},
		Node: noderef.Match{Outcome: noderef.Matched, Node: node}, NodesSynced: true,
		Workload: Workload{Volumes: volumes},
		env: testReconciler(testKind(), Ports{}, Options{
			Options: engine.Options{Clock: clocktesting.NewFakePassiveClock(now)}, Steps: Steps(),
		}),
	})
}

// drainsAtOnce is a Drainer whose Nodes are drained.
type drainsAtOnce struct{ released *int }

func (drainsAtOnce) Step(context.Context, runner.Request) (runner.Result, error) {
	return runner.Result{Done: true}, nil
}
func (d drainsAtOnce) Release(string) { *d.released++ }

func TestTheEndOfADrainAndWhatItFindsOfVolumesAreOneCheckpoint(t *testing.T) {
	now, released := time.Unix(10_000, 0), 0
	attached := &attachedTo{result: runner.VolumesResult{Attached: []drain.VolumeRef{{Name: "va"}}}}
	s := scopeWithVolumes(attached, now, 0)
	s.State.Deleting = now
	s.Workload.Drainer = drainsAtOnce{&released}
	result, err := run(t.Context(), []Step{
		{Name: StepDrain, On: engine.InDeletion, Run: func(ctx context.Context, s *Scope) (Result, error) { return s.drain(ctx) }},
		{Name: StepVolumes, On: engine.InDeletion, Run: volumesStage().run},
	}, s)
	require.NoError(t, err)
	if !result.Checkpoint || !s.deletion.HasEnded(StepDrain, "n-uid") || s.Update.VolumeDetachStarted.Keeps() {
		t.Errorf("want the drain and the start of the wait in one write, got %+v", s.Update)
	}
	if released+attached.released != 0 {
		t.Error("the Node was released although its pods say whose volumes stay")
	}
}
