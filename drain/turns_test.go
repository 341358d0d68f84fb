package drain

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// serialDrain is a Node whose pods leave in turn, in the hands of a test.
type serialDrain struct {
	t           *testing.T
	policy      SerialVolumes
	now         time.Time
	pods        []*corev1.Pod
	attachments []*storagev1.VolumeAttachment
	volumes     volumes
	budgets     []*policyv1.PodDisruptionBudget
	held        map[types.UID]Hold
	turns       *VolumeTurns
}

// look makes a plan and returns it in lines, without what is ignored.
func (s *serialDrain) look() (Plan, []string) {
	s.t.Helper()
	volumePlan, err := VolumePlanner{}.Plan(VolumeFacts{Now: s.now, Node: nodeWith(), Attachments: s.attachments, Lookup: s.volumes})
	require.NoError(s.t, err)
	s.turns = s.policy.Next(s.turns, TurnFacts{Now: s.now, Volumes: volumePlan, Pods: s.pods, Elsewhere: s.elsewhere})
	plan := Planner{}.Plan([]NodePods{{Node: testNode, Pods: s.pods}}, Facts{
		Now: s.now, Budgets: s.budgets, Held: s.held, Turns: map[string]*VolumeTurns{testNode: s.turns},
	})
	var out []string
	for _, d := range plan.Decisions {
		out = append(out, fmt.Sprintf("%s %s %s", d.Pod.Name, d.Action, d.Reason))
	}
	slices.Sort(out)
	return plan, out
}

func (s *serialDrain) elsewhere(pv string) bool {
	return slices.ContainsFunc(s.attachments, func(a *storagev1.VolumeAttachment) bool {
		return a.Spec.NodeName != testNode && a.Spec.Source.PersistentVolumeName != nil && *a.Spec.Source.PersistentVolumeName == pv &&
			a.Status.Attached && a.DeletionTimestamp == nil
	})
}

func (s *serialDrain) want(lines ...string) {
	s.t.Helper()
	_, got := s.look()
	if diff := cmp.Diff(lines, got); diff != "" {
		s.t.Fatalf("(-want +got):\n%s", diff)
	}
}

func (s *serialDrain) remove(pod string) {
	s.pods = slices.DeleteFunc(s.pods, func(p *corev1.Pod) bool { return p.Name == pod })
}

func (s *serialDrain) terminate(pod string) {
	for i, p := range s.pods {
		if p.Name == pod {
			s.pods[i] = p.DeepCopy()
			s.pods[i].DeletionTimestamp = &metav1.Time{Time: s.now}
		}
	}
}

func (s *serialDrain) detach(pv string) {
	s.attachments = slices.DeleteFunc(s.attachments, func(a *storagev1.VolumeAttachment) bool {
		return a.Name == "va-"+pv && a.Spec.NodeName == testNode
	})
}

// newSerialDrain has pods a (no priority), b (priority 10) and c (priority 5) with volumes of their names, and w without.
func newSerialDrain(t *testing.T, policy SerialVolumes) *serialDrain {
	t.Helper()
	return &serialDrain{
		t: t, policy: policy, now: noon, held: map[types.UID]Hold{},
		pods: []*corev1.Pod{
			newPod("a", claiming("a")), newPod("b", claiming("b"), prio(10)), newPod("c", claiming("c"), prio(5)), newPod("w"),
		},
		attachments: []*storagev1.VolumeAttachment{attachment("a"), attachment("b"), attachment("c")},
		volumes:     volumes{volume("a"), volume("b"), volume("c")},
	}
}

func TestTurns_OnePodAfterTheOtherByPriorityAndDetached(t *testing.T) {
	s := newSerialDrain(t, SerialVolumes{})
	s.want("a Wait VolumeTurn", "b Evict Evictable", "c Wait VolumeTurn", "w Evict Evictable")
	s.held["uid-b"] = Hold{Reason: ReasonEvictionAccepted}
	s.want("a Wait VolumeTurn", "b Wait EvictionAccepted", "c Wait VolumeTurn", "w Evict Evictable")
	s.terminate("b")
	s.remove("w")
	s.want("a Wait VolumeTurn", "b Wait Terminating", "c Wait VolumeTurn")
	s.remove("b")
	s.want("a Wait VolumeTurn", "c Wait VolumeTurn") // gone, but still attached
	if got := s.turns.Summary(0); got != "* PersistentVolumeClaims default/b: waiting until detached from the Node" {
		t.Errorf("unexpected summary %q", got)
	}
	s.detach("b")
	s.want("a Wait VolumeTurn", "c Evict Evictable")
	s.remove("c")
	s.detach("c")
	s.want("a Evict Evictable")
	require.Empty(t, s.turns.Waits)
	require.True(t, s.turns.Deadline().IsZero())
}

func TestTurns_ABudgetHoldsAPodThatTakesNoTurn(t *testing.T) {
	s := newSerialDrain(t, SerialVolumes{})
	s.pods[3].Labels = map[string]string{"app": "web"}
	s.budgets = []*policyv1.PodDisruptionBudget{newBudget("closed", 0, healthy(3, 2, 2))}
	_, got := s.look()
	require.NotContains(t, got, "w Evict Evictable")
}

func TestTurns_TheWaitsAreSortedByVolume(t *testing.T) {
	for range 20 { // they are kept in maps
		s := newSerialDrain(t, SerialVolumes{MaxParallel: 3})
		s.look()
		s.pods = nil
		s.look()
		var names []string
		for _, w := range s.turns.Waits {
			names = append(names, w.PV)
		}
		require.Len(t, names, 3)
		require.IsIncreasing(t, names)
	}
}

func TestTurns_SeveralAtOnceWhenAskedTo(t *testing.T) {
	s := newSerialDrain(t, SerialVolumes{MaxParallel: 2})
	s.want("a Wait VolumeTurn", "b Evict Evictable", "c Evict Evictable", "w Evict Evictable")
	s.remove("b")
	s.want("a Wait VolumeTurn", "c Evict Evictable", "w Evict Evictable")
	s.detach("b")
	s.want("a Evict Evictable", "c Evict Evictable", "w Evict Evictable")
}

func TestTurns_VolumesOfOnePodTakeUpOneTurn(t *testing.T) {
	s := newSerialDrain(t, SerialVolumes{MaxParallel: 2})
	s.pods = []*corev1.Pod{newPod("two", claiming("a", "b"), prio(9)), newPod("c", claiming("c"))}
	s.look()
	s.remove("two")
	s.want("c Evict Evictable")
	require.Len(t, s.turns.Waits, 2)
}

func TestTurns_WaitsForAttachmentElsewhereWhenAskedTo(t *testing.T) {
	s := newSerialDrain(t, SerialVolumes{ReattachTimeout: 90 * time.Second})
	s.look()
	s.remove("b")
	s.detach("b")
	s.attachments = append(s.attachments, attachment("b", to("other"), notAttached))
	s.want("a Wait VolumeTurn", "c Wait VolumeTurn", "w Evict Evictable")
	if got := s.turns.Summary(0); got != "* PersistentVolumeClaims default/b: waiting until attached to another Node" {
		t.Errorf("unexpected summary %q", got)
	}
	require.Equal(t, noon.Add(90*time.Second), s.turns.Deadline())
	s.attachments[len(s.attachments)-1] = attachment("b", to("other"))
	s.want("a Wait VolumeTurn", "c Evict Evictable", "w Evict Evictable")
}

// What follows are the ways in which Gardener's machine-controller-manager reports success, or stops, too early
// (reference: its drain, section on defects). Each must not happen here.

func TestTurns_PodsWithoutExclusiveVolumesAreStillWaitedFor(t *testing.T) {
	s := newSerialDrain(t, SerialVolumes{})
	s.volumes[0] = volume("a", modes(corev1.ReadWriteMany)) // like NFS: nothing to detach
	s.attachments = s.attachments[:1]
	s.pods = []*corev1.Pod{newPod("a", claiming("a")), newPod("nfs", claiming("unattached"))}
	s.want("a Evict Evictable", "nfs Evict Evictable") // as parallel as pods without volumes
	s.terminate("a")
	s.terminate("nfs")
	if plan, _ := s.look(); plan.Done() {
		t.Error("want not done while the pods are there")
	}
}

func TestTurns_LimitsEndTurnsAndNeverTheDrain(t *testing.T) {
	s := newSerialDrain(t, SerialVolumes{TerminateTimeout: 10 * time.Second, DetachTimeout: time.Minute, ReattachTimeout: time.Minute})
	s.remove("w")
	s.look()
	s.terminate("b")
	s.now = s.now.Add(9 * time.Second)
	s.want("a Wait VolumeTurn", "b Wait Terminating", "c Wait VolumeTurn")
	s.now = s.now.Add(time.Second)
	s.want("a Wait VolumeTurn", "b Wait Terminating", "c Evict Evictable") // b hangs, c goes on
	s.remove("c")
	s.look()
	s.now = s.now.Add(59 * time.Second)
	s.want("a Wait VolumeTurn", "b Wait Terminating")
	s.now = s.now.Add(time.Second)
	s.want("a Evict Evictable", "b Wait Terminating") // c's volume hangs
	require.True(t, s.turns.Waits[0].Overdue)
	s.remove("a")
	plan, _ := s.look()
	if plan.Done() {
		t.Error("want not done while a pod is there, whatever limit has passed")
	}
	s.remove("b")
	volumePlan, err := VolumePlanner{}.Plan(VolumeFacts{Now: s.now, Node: nodeWith(), Attachments: s.attachments, Lookup: s.volumes})
	require.NoError(t, err)
	if len(volumePlan.Blocking()) != 3 || volumePlan.Done() {
		t.Error("want all volumes to be waited for after the drain")
	}
	s.look()
	s.detach("c") // late, but it starts the wait for its attachment elsewhere
	s.look()
	for _, w := range s.turns.Waits {
		if w.PV == "c" && (w.Stage != WaitReattach || w.Overdue) {
			t.Errorf("want c to wait for its new Node, got %+v", w)
		}
	}
}

func TestTurns_NamesAreComparedExactly(t *testing.T) {
	s := newSerialDrain(t, SerialVolumes{ReattachTimeout: time.Hour})
	s.pods = []*corev1.Pod{newPod("a", claiming("vol.1"), prio(1)), newPod("b", claiming("vol-12"))}
	s.volumes = volumes{volume("vol.1"), volume("vol-12"), volume("vol-1")}
	s.attachments = []*storagev1.VolumeAttachment{attachment("vol.1"), attachment("vol-12"), attachment("vol-1", to("other"))}
	s.look()
	s.remove("a")
	s.detach("vol.1")
	s.want("b Wait VolumeTurn") // vol-1, elsewhere, is not vol.1
	s.attachments = append(s.attachments, attachment("vol.1", to("other")))
	s.want("b Evict Evictable") // vol-12, still here, is not vol-1
}

func TestTurns_EphemeralVolumesTakeTurns(t *testing.T) {
	s := newSerialDrain(t, SerialVolumes{})
	s.pods = []*corev1.Pod{newPod("a", claiming("a"), prio(1)), newPod("e", ephemeral("data"))}
	s.volumes = append(s.volumes, volume("e-data"))
	s.attachments = []*storagev1.VolumeAttachment{attachment("a"), attachment("e-data")}
	s.want("a Evict Evictable", "e Wait VolumeTurn")
}

func TestTurns_AVolumeBeingAttachedIsNotDetached(t *testing.T) {
	s := newSerialDrain(t, SerialVolumes{})
	s.look()
	s.remove("b")
	s.attachments[1] = attachment("b", notAttached)
	s.want("a Wait VolumeTurn", "c Wait VolumeTurn", "w Evict Evictable")
}

func TestTurns_AVolumeOfSeveralPodsIsWaitedForWithTheLast(t *testing.T) {
	s := newSerialDrain(t, SerialVolumes{})
	s.pods = []*corev1.Pod{newPod("a", claiming("a"), prio(3)), newPod("a2", claiming("a"), prio(2)), newPod("b", claiming("b"))}
	s.attachments = s.attachments[:2]
	s.want("a Evict Evictable", "a2 Wait VolumeTurn", "b Wait VolumeTurn")
	s.remove("a")
	s.want("a2 Evict Evictable", "b Wait VolumeTurn") // no wait: a2 keeps the volume attached
	s.remove("a2")
	s.want("b Wait VolumeTurn")
	s.detach("a")
	s.want("b Evict Evictable")
}

func TestTurns_AnAttachmentElsewhereThatWasNotWatchedCounts(t *testing.T) {
	s := newSerialDrain(t, SerialVolumes{ReattachTimeout: time.Hour})
	s.look()
	s.remove("b")
	s.detach("b")
	s.attachments = append(s.attachments, attachment("b", to("other")), attachment("odd", inline))
	s.want("a Wait VolumeTurn", "c Evict Evictable", "w Evict Evictable")
}

func TestTurns_ARefusedPodLosesItsTurnAndIsNotDeleted(t *testing.T) {
	s := newSerialDrain(t, SerialVolumes{})
	s.pods[1].Labels = map[string]string{"app": "b"}
	s.budgets = []*policyv1.PodDisruptionBudget{
		newBudget("b", 0, selecting(&metav1.LabelSelector{MatchLabels: map[string]string{"app": "b"}}))}
	s.want("a Wait VolumeTurn", "b Wait BudgetExhausted", "c Evict Evictable", "w Evict Evictable")
	s.held["uid-c"] = Hold{Reason: ReasonForbidden}
	s.want("a Evict Evictable", "b Wait BudgetExhausted", "c Wait Forbidden", "w Evict Evictable")
}

func TestTurns_WhatMayHaveHappenedKeepsTheTurn(t *testing.T) {
	for _, reason := range []Reason{
		ReasonEvictionRequested, ReasonEvictionAccepted, ReasonThrottled, ReasonUnauthorized, ReasonUnknownOutcome,
	} {
		s := newSerialDrain(t, SerialVolumes{})
		s.held["uid-a"] = Hold{Reason: reason} // the lowest priority, but it was asked first
		plan, got := s.look()
		want := []string{"a Wait " + string(reason), "b Wait VolumeTurn", "c Wait VolumeTurn", "w Evict Evictable"}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		if !s.turns.Full(plan) {
			t.Error("want the turn taken")
		}
	}
}

func TestTurns_ARestartFindsLeftoverVolumesAgain(t *testing.T) {
	s := newSerialDrain(t, SerialVolumes{ReattachTimeout: time.Hour})
	s.look()
	s.remove("b")
	s.look()
	s.now = s.now.Add(time.Minute)
	s.turns = nil // the process is new
	s.want("a Wait VolumeTurn", "c Wait VolumeTurn", "w Evict Evictable")
	require.Equal(t, s.now.Add(2*time.Minute), s.turns.Deadline(), "its limit begins anew")
	s.detach("b")
	s.want("a Wait VolumeTurn", "c Wait VolumeTurn", "w Evict Evictable") // waits for its new Node
}

func TestTurns_NoPodGoesWhileVolumesAreUnknown(t *testing.T) {
	s := newSerialDrain(t, SerialVolumes{})
	s.look()
	unknown := s.policy.UnknownVolumes(s.turns, "waiting for the list of VolumeAttachments")
	plan := Planner{}.Plan([]NodePods{{Node: testNode, Pods: s.pods}}, Facts{Turns: map[string]*VolumeTurns{testNode: unknown}})
	want := []string{"node-a a Wait VolumeTurn", "node-a b Wait VolumeTurn", "node-a c Wait VolumeTurn", "node-a w Evict Evictable"}
	if diff := cmp.Diff(want, lines(plan)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	require.Equal(t, Counts{Total: 4, Evictable: 1, Waiting: 3}, plan.Counts())
	require.True(t, unknown.Full(plan))
	s.turns = unknown
	s.remove("b")
	s.look()
	require.Equal(t, "b", s.turns.Waits[0].Pod.Name, "what was known before is not forgotten")
}

func TestTurns_LowerOrdersComeFirstWhateverThePriority(t *testing.T) {
	s := newSerialDrain(t, SerialVolumes{})
	byName := func(pod *corev1.Pod, prev Verdict) (Verdict, error) {
		if pod.Name == "a" {
			prev.Order = -1
		}
		return prev, nil
	}
	s.look()
	plan := Planner{Rules: append([]Rule{byName}, DefaultRules()...)}.Plan([]NodePods{{Node: testNode, Pods: s.pods}},
		Facts{Turns: map[string]*VolumeTurns{testNode: s.turns}})
	want := []string{"node-a a Evict Evictable", "node-a b Wait LowerOrder", "node-a c Wait LowerOrder", "node-a w Wait LowerOrder"}
	if diff := cmp.Diff(want, lines(plan)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestTurns_NilMeansThatVolumesDoNotMatter(t *testing.T) {
	var none *VolumeTurns
	if none.Concerns(newPod("a", claiming("a"))) || none.Full(Plan{}) || none.Summary(0) != "" || !none.Deadline().IsZero() {
		t.Error("want nothing")
	}
	for stage, want := range map[VolumeStage]string{WaitDetach: "Detach", WaitReattach: "Reattach", 9: "VolumeStage(9)"} {
		require.Equal(t, want, stage.String())
	}
	for stop, want := range map[VolumeStop]string{VolumesNotStopped: "NotStopped", VolumesPoweredOff: "PoweredOff",
		VolumesUnreachable: "Unreachable", VolumesTimedOut: "TimedOut", 9: "VolumeStop(9)"} {
		require.Equal(t, want, stop.String())
	}
}
