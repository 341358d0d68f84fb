package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// stream decodes what -o json printed.
func stream(t *testing.T, text string) (changes []change, end summary) {
	t.Helper()
	lines := strings.Split(strings.TrimSpace(text), "\n")
	for i, line := range lines {
		decoder := json.NewDecoder(strings.NewReader(line))
		decoder.DisallowUnknownFields()
		if i == len(lines)-1 {
			require.NoError(t, decoder.Decode(&end), line)
			require.Equal(t, eventSummary, end.Event)
			continue
		}
		var c change
		require.NoError(t, decoder.Decode(&c), line)
		require.False(t, c.Time.IsZero())
		changes = append(changes, c)
	}
	return changes, end
}

func eventsOf(changes []change, event string) (of []change) {
	for _, c := range changes {
		if c.Event == event {
			of = append(of, c)
		}
	}
	return of
}

func TestRun_DrainsAndSaysSoInLines(t *testing.T) {
	t.Parallel()
	s := newStage(t, "a", "b")
	s.create(newDaemonSet("default", "agent"))
	s.pods(append(numbered("a", "web", 3), newPod("b", "cache", app("cache"), withScratch),
		newPod("a", "agent-a", owned("apps/v1", "DaemonSet", "agent"), app("agent")))...)
	got := s.do("run", "a", "b", "--delete-emptydir-data")
	require.Equal(t, exitDone, got.code, got.stderr)
	for _, want := range []string{
		"draining 2 Nodes: 4 pods to go, 1 to stay", "warning: b: default/cache: deleting Pods with local storage", "a: cordoned",
		"a: evicting default/web-1", "b: evicting default/cache", "a: drained", "b: drained", "Drained a, b in ",
	} {
		require.Contains(t, got.stdout, want)
	}
	require.Len(t, s.allPods(), 1, "the DaemonSet's")
	require.True(t, s.node("a").Spec.Unschedulable)
	require.Equal(t, 4, s.store.CountRequests(evictions), "one request per pod")
	require.Zero(t, s.store.CountRequests(requests("get", "Pod")))
}

func TestRun_CordonsAllNodesBeforeTheFirstEviction(t *testing.T) {
	t.Parallel()
	s := newStage(t, "a", "b", "c")
	s.pods(newPod("a", "web-0"), newPod("b", "web-1"), newPod("c", "web-2"))
	s.store.ResetRequests()
	got := s.do("run", "-l", "pool=old", "-o", "json")
	require.Equal(t, exitDone, got.code, got.stderr)
	order := ""
	for _, r := range s.store.Requests() {
		switch {
		case r.Verb == "patch":
			order += "c"
		case evictions(r):
			order += "e"
		}
	}
	require.Equal(t, "ccceee", order)
}

func TestRun_StreamsOneObjectPerChange(t *testing.T) {
	t.Parallel()
	s := newStage(t, "a")
	s.pods(numbered("a", "web", 4)...)
	got := s.do("run", "a", "-o", "json")
	require.Equal(t, exitDone, got.code, got.stderr)
	changes, end := stream(t, got.stdout)
	require.Equal(t, eventPlanned, changes[0].Event)
	require.Len(t, changes[0].Plan.Nodes[0].Pods, 4)
	require.Equal(t, eventCordoned, changes[1].Event)
	evicted := eventsOf(changes, eventEvicted)
	require.Len(t, evicted, 4)
	require.Equal(t, "a", evicted[0].Node)
	last := changes[len(changes)-1]
	require.Equal(t, eventDrained, last.Event)
	require.Equal(t, countsReport{Gone: 4}, *last.Counts)
	require.Equal(t, outcomeDrained, end.Outcome)
	require.Zero(t, *end.Nodes[0].Left)
	require.Empty(t, end.Resume)
}

func TestRun_RefusesBeforeTheFirstCordon(t *testing.T) {
	t.Parallel()
	s := newStage(t, "a", "b")
	s.pods(newPod("a", "web-0"), newPod("b", "debug", bare, app("debug")))
	got := s.do("run", "a", "b")
	require.Equal(t, exitBlocked, got.code)
	for _, want := range []string{
		"nothing was changed", "b: default/debug: cannot delete Pods that declare no controller", "what helps: add --force",
		"drainctl plan a b\n", "drainctl run a b --wait",
	} {
		require.Contains(t, got.stdout, want)
	}
	require.Zero(t, s.writes())

	got = s.do("run", "a", "b", "-o=json")
	require.Equal(t, exitBlocked, got.code)
	changes, end := stream(t, got.stdout)
	require.Empty(t, changes)
	require.Equal(t, outcomeRefused, end.Outcome)
	require.Len(t, end.Plan.Obstacles, 1)
	require.Zero(t, s.writes())
}

func TestRun_WaitsUntilABudgetAllowsAnEviction(t *testing.T) {
	t.Parallel()
	s := newStage(t, "a")
	s.pods(numbered("a", "web", 2)...)
	pdb := s.budget("web", 2)
	out, _, wait := s.start("run", "a", "--wait", "-o", "json")
	s.until("the budget is in the way", func() bool { return strings.Contains(out.String(), `"since"`) })
	require.Len(t, s.allPods(), 2)
	require.NoError(t, s.live.Patch(t.Context(), pdb, client.RawPatch(client.Merge.Type(), []byte(`{"spec":{"minAvailable":0}}`))))
	got := wait()
	require.Equal(t, exitDone, got.code, got.stderr)
	require.Empty(t, s.allPods())
}

func TestRun_AnInterruptLeavesAStateThatTheSameCommandResumes(t *testing.T) {
	t.Parallel()
	s := newStage(t, "a", "b")
	s.pods(append(numbered("a", "web", 3), newPod("a", "free", app("free")), newPod("b", "later", app("later")))...)
	pdb := s.budget("web", 3)
	out, interrupt, wait := s.start("run", "a", "b", "--wait", "-o", "lines")
	s.until("the budget is in the way, and one pod has gone", func() bool {
		return strings.Contains(out.String(), "a: blocked") && strings.Contains(out.String(), "a: 1 of 4 pods gone")
	})
	interrupt()
	got := wait()
	require.Equal(t, exitInterrupted, got.code)
	for _, want := range []string{
		"Stopped: no further evictions are asked for", "a: stopped, 1 gone, 3 left, cordoned", "b: stopped, 0 gone, 1 left, cordoned",
		"blocked: default/web-0, default/web-1, default/web-2: The disruption budget web",
		"To go on: drainctl run a b --wait", "drainctl uncordon a b",
	} {
		require.Contains(t, got.stdout, want)
	}
	require.Len(t, s.allPods(), 4)
	require.True(t, s.node("b").Spec.Unschedulable)

	require.NoError(t, s.live.Patch(t.Context(), pdb, client.RawPatch(client.Merge.Type(), []byte(`{"spec":{"minAvailable":0}}`))))
	again := s.do("run", "a", "b", "--wait")
	require.Equal(t, exitDone, again.code, again.stdout+again.stderr)
	require.Empty(t, s.allPods())
}

func TestRun_GivesUpAfterItsTime(t *testing.T) {
	t.Parallel()
	s := newStage(t, "a")
	s.pods(numbered("a", "web", 2)...)
	s.budget("web", 2)
	var end summary
	for _, timeout := range []string{"300ms", "3s", "1m"} { // long enough to ask once, however busy the machine is
		got := s.do("run", "a", "--wait", "--timeout", timeout, "-o", "json")
		require.Equal(t, exitOutOfTime, got.code, got.stderr)
		_, end = stream(t, got.stdout)
		require.Equal(t, outcomeOutOfTime, end.Outcome)
		if len(end.Nodes[0].Blockers) > 0 {
			break
		}
	}
	require.NotEmpty(t, end.Nodes[0].Blockers)
	require.Equal(t, 2, *end.Nodes[0].Left)
	require.True(t, *end.Nodes[0].Cordoned)
	require.Equal(t, []string{"default/web"}, end.Nodes[0].Blockers[0].Budgets)
	require.NotNil(t, end.Nodes[0].Blockers[0].Since)
}

func TestRun_DisablesEvictionOnlyWhenAsked(t *testing.T) {
	t.Parallel()
	for name, flag := range map[string]string{"at once": "--disable-eviction", "after a time": "--delete-after=100ms"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStage(t, "a")
			s.pods(numbered("a", "web", 2)...)
			s.budget("web", 2)
			got := s.do("run", "a", flag, "-o", "json")
			require.Equal(t, exitDone, got.code, got.stdout+got.stderr)
			changes, _ := stream(t, got.stdout)
			require.Len(t, eventsOf(changes, eventDeleted), 2)
			require.Equal(t, 2, s.store.CountRequests(requests("delete", "Pod")))
		})
	}
}

func TestRun_WaitsForVolumes(t *testing.T) {
	t.Parallel()
	s := newStage(t, "a")
	volume := "disk"
	s.create(&corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: volume},
		Spec: corev1.PersistentVolumeSpec{
			AccessModes:            []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			ClaimRef:               &corev1.ObjectReference{Namespace: "default", Name: "data"},
			PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: "d", VolumeHandle: "h"}},
		},
	})
	attachment := &storagev1.VolumeAttachment{
		ObjectMeta: metav1.ObjectMeta{Name: "disk-on-a"},
		Spec: storagev1.VolumeAttachmentSpec{Attacher: "d", NodeName: "a",
			Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: &volume}},
	}
	s.create(attachment)
	s.pods(newPod("a", "web-0"))
	out, _, wait := s.start("run", "a", "--wait-volumes", "-o", "lines")
	s.until("the volume is waited for", func() bool {
		return strings.Contains(out.String(), "a: waiting for volumes to be detached: default/data")
	})
	require.NoError(t, s.live.Delete(t.Context(), attachment))
	got := wait()
	require.Equal(t, exitDone, got.code, got.stderr)
	require.Contains(t, got.stdout, "a: volumes are detached")

	s.create(&storagev1.VolumeAttachment{ObjectMeta: metav1.ObjectMeta{Name: "again"}, Spec: attachment.Spec})
	out, interrupt, wait := s.start("run", "a", "--wait-volumes", "-o", "json")
	s.until("the volume is waited for", func() bool { return strings.Contains(out.String(), "default/data") })
	interrupt()
	got = wait()
	require.Equal(t, exitInterrupted, got.code, got.stderr)
	_, end := stream(t, got.stdout)
	require.Equal(t, []string{"default/data"}, end.Nodes[0].Volumes)
}

func TestUncordon_GivesNodesBack(t *testing.T) {
	t.Parallel()
	s := newStage(t, "a", "b")
	require.Equal(t, exitDone, s.do("run", "a").code)
	require.True(t, s.node("a").Spec.Unschedulable)
	got := s.do("uncordon", "a", "b")
	require.Equal(t, exitDone, got.code, got.stderr)
	require.Equal(t, "a is schedulable again\nb is schedulable already\n", got.stdout)
	require.False(t, s.node("a").Spec.Unschedulable)
}
