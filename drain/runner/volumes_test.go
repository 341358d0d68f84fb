package runner

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

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

func newVolumeRig(t *testing.T, change ...func(*Config)) (*rig, *memoryVolumes) {
	t.Helper()
	g := newRig(t, change...)
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

func TestStepVolumes(t *testing.T) {
	g, volumes := newVolumeRig(t)
	g.pods.lost = true // Pods are not read while nothing is attached
	require.Equal(t, VolumesResult{Done: true}, g.stepVolumes(nil))
	g.pods.lost = false
	volumes.attach(attachment("n", "b"), attachment("n", "a"), attachment("other", "c"))
	require.Equal(t, VolumesResult{
		Attached: []drain.VolumeRef{
			{Name: "va-a-n", PV: "a", Claim: types.NamespacedName{Namespace: "default", Name: "a"}},
			{Name: "va-b-n", PV: "b", Claim: types.NamespacedName{Namespace: "default", Name: "b"}},
		},
		Message: "* PersistentVolumeClaims: default/a, default/b", RequeueAfter: 15 * time.Second,
	}, g.stepVolumes(nil))
	volumes.attach(attachment("other", "a"))
	require.True(t, g.stepVolumes(nil).Done)
	require.Empty(t, g.nodes.patches, "the wait sends nothing")
	g.wantRequests()
}

func TestUnreadVolumes(t *testing.T) {
	g := newRig(t)
	volumes := &memoryVolumes{Lists: g.runner.Follow(), t: t} // which are not listed yet
	waits := func(change func(*volumesWait)) {
		t.Helper()
		got := g.stepVolumes(change)
		require.False(t, got.Done)
		require.NotEmpty(t, got.Message)
		require.NotZero(t, got.RequeueAfter)
	}
	waits(nil)
	waits(func(req *volumesWait) {
		req.StartedAt, req.Timeout, req.PoweredOff = g.clock.Now().Add(-time.Hour), time.Minute, true
	})
	volumes.attach(attachment("n", "a"))
	g.pods.lost = true
	waits(nil)
	g.pods.err = errors.New("watch refused")
	_, err := g.runner.StepVolumes(t.Context(), Request{Node: cordoned("n")}, 0)
	require.ErrorContains(t, err, "watch refused")
	_, err = g.runner.StepVolumes(t.Context(), Request{}, 0)
	require.Error(t, err)
	_, err = newRig(t).runner.StepVolumes(t.Context(), Request{Node: cordoned("n")}, 0)
	require.ErrorContains(t, err, "use NewForCluster")
}

func TestVolumesOfIgnored(t *testing.T) {
	g, volumes := newVolumeRig(t)
	volumes.attach(attachment("n", "ds"), attachment("n", "a"))
	ds := podWith("n", "ds")
	ds.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "DaemonSet", Name: "ds", Controller: new(true)}}
	g.pods.put(ds)
	got := g.stepVolumes(nil)
	require.Len(t, got.Attached, 1)
	require.Equal(t, "a", got.Attached[0].PV)
	ignoreAll := func(*corev1.Pod, drain.Verdict) (drain.Verdict, error) {
		return drain.Verdict{Action: drain.Ignore}, nil
	}
	g.pods.put(podWith("n", "a"))
	require.True(t, g.stepVolumes(func(req *volumesWait) { req.Rules = []drain.Rule{ignoreAll} }).Done, "the rules of the request")
}

func TestVolumeLimits(t *testing.T) {
	g, volumes := newVolumeRig(t)
	volumes.attach(attachment("n", "a"))
	ready := func(status corev1.ConditionStatus, since time.Duration) func(*volumesWait) {
		return func(req *volumesWait) {
			req.Node.Status.Conditions = []corev1.NodeCondition{
				{Type: corev1.NodeReady, Status: status, LastTransitionTime: metav1.NewTime(g.clock.Now().Add(-since))},
			}
		}
	}
	for name, tc := range map[string]struct {
		change  func(*volumesWait)
		stopped drain.VolumeStop
	}{
		"no limit":                 {nil, drain.VolumesNotStopped},
		"shortly before the limit": {func(r *volumesWait) { r.Timeout = 3 * time.Second }, drain.VolumesNotStopped},
		"at the limit": {func(r *volumesWait) { r.Timeout, r.StartedAt = time.Hour, g.clock.Now().Add(-time.Hour) },
			drain.VolumesTimedOut},
		"off":                     {func(r *volumesWait) { r.PoweredOff = true }, drain.VolumesPoweredOff},
		"silent for a while":      {ready(corev1.ConditionUnknown, 299*time.Second), drain.VolumesNotStopped},
		"silent for five minutes": {ready(corev1.ConditionUnknown, 300*time.Second), drain.VolumesUnreachable},
		"not ready":               {ready(corev1.ConditionFalse, time.Hour), drain.VolumesNotStopped},
	} {
		t.Run(name, func(t *testing.T) {
			got := g.stepVolumes(tc.change)
			require.Equal(t, tc.stopped, got.Stopped)
			require.Equal(t, tc.stopped != drain.VolumesNotStopped, got.Done)
			require.Equal(t, !got.Done, got.RequeueAfter == 15*time.Second)
			require.Equal(t, got.Done, got.RequeueAfter == 0)
			require.Len(t, got.Attached, 1)
			require.NotEmpty(t, got.Message)
		})
	}
}

func TestVolumeWakes(t *testing.T) {
	g, volumes := newVolumeRig(t, soon)
	woken, none := g.wakings(t.Context())
	g.start()
	volumes.attach(attachment("n", "a"))
	g.stepVolumes(nil)
	require.NoError(t, volumes.attachments().Update(attachment("elsewhere", "a")))
	none()
	require.NoError(t, volumes.attachments().Delete(attachment("n", "a")))
	woken("the attachment of a waiting Node changes", "machine")
	g.runner.Release("n")
	require.NoError(t, volumes.attachments().Delete(attachment("n", "a")))
	none()

	volumes.attach(attachment("m", "b"))
	g.pods.put(podWith("m", "b"))
	g.step("m")
	g.settled(1)
	woken("its eviction is answered", "machine-of-m")
	g.gone("m", "b")
	woken("its pod goes", "machine-of-m")
}
