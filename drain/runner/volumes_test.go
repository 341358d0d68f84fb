package runner

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/machinist-dev/machinist/drain"
)

// memoryVolumes are lists that tests fill by hand. Every volume is bound to a claim of its name, and there are no budgets.
type memoryVolumes struct {
	Lists
	t *testing.T
}

// attach replaces what is attached.
func (v *memoryVolumes) attach(attachments ...*storagev1.VolumeAttachment) {
	var all, volumes []any
	for _, a := range attachments {
		name := *a.Spec.Source.PersistentVolumeName
		all = append(all, a)
		volumes = append(volumes, &corev1.PersistentVolume{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec:       corev1.PersistentVolumeSpec{ClaimRef: &corev1.ObjectReference{Namespace: "default", Name: name}},
		})
	}
	require.NoError(v.t, v.volumes().Replace(volumes, ""))
	require.NoError(v.t, v.attachments().Replace(all, ""))
}

func attachment(node, volume string) *storagev1.VolumeAttachment {
	return &storagev1.VolumeAttachment{
		ObjectMeta: metav1.ObjectMeta{Name: "va-" + volume + "-" + node},
		Spec: storagev1.VolumeAttachmentSpec{
			Attacher: "disk.example.com", NodeName: node, Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: &volume},
		},
		Status: storagev1.VolumeAttachmentStatus{Attached: true},
	}
}

// podWith is a pod with a claim of its own name.
func podWith(node, name string) *corev1.Pod {
	p := pod(node, name)
	p.Spec.Volumes = []corev1.Volume{{VolumeSource: corev1.VolumeSource{
		PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: name},
	}}}
	return p
}

func newVolumeRig(t *testing.T, change func(*Config)) (*rig, *memoryVolumes) {
	t.Helper()
	g := newRig(t, change)
	volumes := &memoryVolumes{Lists: g.runner.Follow(), t: t}
	volumes.attach()
	require.NoError(t, volumes.budgets().Replace(nil, ""))
	return g, volumes
}

// volumesWait is what a test changes of a wait for volumes.
type volumesWait struct {
	Request

	Timeout time.Duration
}

func (g *rig) stepVolumes(change func(*volumesWait)) VolumesResult {
	g.t.Helper()
	req := volumesWait{Request: Request{Node: cordoned("n"), Owner: types.NamespacedName{Name: "machine"}, StartedAt: g.clock.Now()}}
	if change != nil {
		change(&req)
	}
	result, err := g.runner.StepVolumes(g.t.Context(), req.Request, req.Timeout)
	require.NoError(g.t, err)
	return result
}

func TestStepVolumes_WaitsUntilNothingIsAttached(t *testing.T) {
	g, volumes := newVolumeRig(t, nil)
	g.pods.lost = true // Pods are not read while nothing is attached
	if diff := cmp.Diff(VolumesResult{Done: true}, g.stepVolumes(nil)); diff != "" {
		t.Fatalf("(-want +got):\n%s", diff)
	}
	g.pods.lost = false
	volumes.attach(attachment("n", "b"), attachment("n", "a"), attachment("other", "c"))
	want := VolumesResult{
		Attached: []drain.VolumeRef{
			{Name: "va-a-n", PV: "a", Claim: types.NamespacedName{Namespace: "default", Name: "a"}},
			{Name: "va-b-n", PV: "b", Claim: types.NamespacedName{Namespace: "default", Name: "b"}},
		},
		Message: "* PersistentVolumeClaims: default/a, default/b", RequeueAfter: 15 * time.Second,
	}
	got := g.stepVolumes(nil)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatalf("(-want +got):\n%s", diff)
	}
	volumes.attach(attachment("other", "a"))
	if got := g.stepVolumes(nil); !got.Done {
		t.Fatalf("want done, got %+v", got)
	}
	require.Empty(t, g.nodes.patches, "the wait sends nothing")
	g.wantRequests()
}

func TestStepVolumes_UnreadIsNeverDone(t *testing.T) {
	g := newRig(t, nil)
	volumes := &memoryVolumes{Lists: g.runner.Follow(), t: t} // which are not listed yet
	long := func(req *volumesWait) {
		req.StartedAt, req.Timeout, req.PoweredOff = g.clock.Now().Add(-time.Hour), time.Minute, true
	}
	for _, change := range []func(*volumesWait){nil, long} {
		if got := g.stepVolumes(change); got.Done || got.Message == "" || got.RequeueAfter == 0 {
			t.Errorf("want not done without the attachments, got %+v", got)
		}
	}
	volumes.attach(attachment("n", "a"))
	g.pods.lost = true
	if got := g.stepVolumes(nil); got.Done || got.Message == "" || got.RequeueAfter == 0 {
		t.Errorf("want not done without the pods, got %+v", got)
	}
	g.pods.err = errors.New("watch refused")
	_, err := g.runner.StepVolumes(t.Context(), Request{Node: cordoned("n")}, 0)
	require.ErrorContains(t, err, "watch refused")
	_, err = g.runner.StepVolumes(t.Context(), Request{}, 0)
	require.Error(t, err)
	without := newRig(t, nil)
	_, err = without.runner.StepVolumes(t.Context(), Request{Node: cordoned("n")}, 0)
	require.ErrorContains(t, err, "use NewForCluster")
}

func TestStepVolumes_VolumesOfPodsThatStayDoNotCount(t *testing.T) {
	g, volumes := newVolumeRig(t, nil)
	volumes.attach(attachment("n", "ds"), attachment("n", "a"))
	ds := podWith("n", "ds")
	ds.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "DaemonSet", Name: "ds", Controller: new(true)}}
	g.pods.put(ds)
	if got := g.stepVolumes(nil); len(got.Attached) != 1 || got.Attached[0].PV != "a" {
		t.Errorf("want only a in the way, got %+v", got)
	}
	ignoreAll := func(*corev1.Pod, drain.Verdict) (drain.Verdict, error) {
		return drain.Verdict{Action: drain.Ignore}, nil
	}
	g.pods.put(podWith("n", "a"))
	if got := g.stepVolumes(func(req *volumesWait) { req.Rules = []drain.Rule{ignoreAll} }); !got.Done {
		t.Errorf("want the request's rules to count, got %+v", got)
	}
}

func TestStepVolumes_StopsAtItsLimits(t *testing.T) {
	g, volumes := newVolumeRig(t, nil)
	volumes.attach(attachment("n", "a"))
	silent := func(for_ time.Duration) func(*volumesWait) {
		return func(req *volumesWait) {
			req.Node.Status.Conditions = []corev1.NodeCondition{{
				Type: corev1.NodeReady, Status: corev1.ConditionUnknown, LastTransitionTime: metav1.NewTime(g.clock.Now().Add(-for_)),
			}}
		}
	}
	cases := map[string]struct {
		change  func(*volumesWait)
		stopped drain.VolumeStop
		requeue time.Duration
	}{
		"no limit":                 {nil, drain.VolumesNotStopped, 15 * time.Second},
		"shortly before the limit": {func(r *volumesWait) { r.Timeout = 3 * time.Second }, drain.VolumesNotStopped, 15 * time.Second},
		"at the limit": {func(r *volumesWait) { r.Timeout, r.StartedAt = time.Hour, g.clock.Now().Add(-time.Hour) },
			drain.VolumesTimedOut, 0},
		"off":                     {func(r *volumesWait) { r.PoweredOff = true }, drain.VolumesPoweredOff, 0},
		"silent for a while":      {silent(299 * time.Second), drain.VolumesNotStopped, 15 * time.Second},
		"silent for five minutes": {silent(300 * time.Second), drain.VolumesUnreachable, 0},
		"not ready, but the kubelet says": {func(r *volumesWait) { r.Node.Status.Conditions = notReady(g.clock.Now().Add(-time.Hour)) },
			drain.VolumesNotStopped, 15 * time.Second},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := g.stepVolumes(tc.change)
			if got.Stopped != tc.stopped || got.Done != (tc.stopped != drain.VolumesNotStopped) || got.RequeueAfter != tc.requeue {
				t.Errorf("want %s and %s, got %+v", tc.stopped, tc.requeue, got)
			}
			if len(got.Attached) != 1 || got.Message == "" {
				t.Errorf("want the volume to be named in any case, got %+v", got)
			}
		})
	}
}

func notReady(since time.Time) []corev1.NodeCondition {
	return []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionFalse, LastTransitionTime: metav1.NewTime(since)}}
}

func TestVolumes_ChangesWakeWhoeverWaits(t *testing.T) {
	g, volumes := newVolumeRig(t, func(c *Config) { c.Debounce = time.Millisecond })
	queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
	defer queue.ShutDown()
	require.NoError(t, g.runner.Source().Start(t.Context(), queue))
	g.start()
	defer g.stop()
	woken := func(what, want string) {
		t.Helper()
		g.eventually(what, func() bool { return queue.Len() == 1 })
		request, _ := queue.Get()
		queue.Done(request)
		require.Equal(t, want, request.Name, what)
	}
	volumes.attach(attachment("n", "a"))
	g.stepVolumes(nil)
	require.NoError(t, volumes.attachments().Update(attachment("elsewhere", "a")))
	require.Zero(t, queue.Len())
	require.NoError(t, volumes.attachments().Delete(attachment("n", "a")))
	woken("the attachment of a waiting Node changes", "machine")
	g.runner.Release("n")
	require.NoError(t, volumes.attachments().Delete(attachment("n", "a")))
	require.Zero(t, queue.Len())

	volumes.attach(attachment("m", "b"))
	g.pods.put(podWith("m", "b"))
	g.step("m")
	g.settled(1)
	woken("its eviction is answered", "machine-of-m")
	g.pods.remove("m", "uid-b")
	woken("its pod goes", "machine-of-m")
}
