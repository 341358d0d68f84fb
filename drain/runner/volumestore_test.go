package runner_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/drain/runner"
	"github.com/machinist-dev/machinist/fake"
)

func persistent(name string) *corev1.PersistentVolume {
	return &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{"a": "b"}},
		Spec: corev1.PersistentVolumeSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Capacity:    corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
			ClaimRef:    &corev1.ObjectReference{Namespace: "default", Name: name},
			PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{
				Driver: "disk.example.com", VolumeHandle: "h-" + name, VolumeAttributes: map[string]string{"much": "text"},
			}},
		},
	}
}

func attached(node, volume string) *storagev1.VolumeAttachment {
	return &storagev1.VolumeAttachment{
		ObjectMeta: metav1.ObjectMeta{Name: volume + "-on-" + node},
		Spec: storagev1.VolumeAttachmentSpec{
			Attacher: "disk.example.com", NodeName: node, Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: &volume},
		},
	}
}

func TestCachedVolumes_FollowsTheClusterThroughInformers(t *testing.T) {
	store := fake.NewStore(fake.Options{})
	c := store.Client()
	for _, obj := range []client.Object{persistent("a"), persistent("b"), attached("n1", "a"), attached("n2", "a"), attached("n1", "b")} {
		require.NoError(t, c.Create(t.Context(), obj))
	}
	mgr, err := store.NewManager(ctrl.Options{Cache: cache.Options{DefaultTransform: runner.TrimVolumes}})
	require.NoError(t, err)
	source := runner.NewCachedVolumes(mgr.GetCache())
	var woken atomic.Int32
	ctx, cancel := context.WithCancel(t.Context())
	sourceEnded, managerEnded := make(chan error, 1), make(chan error, 1)
	unread := func() {
		t.Helper()
		_, synced := source.Attachments("n1")
		require.False(t, synced)
		_, err := source.Volume("a")
		require.Error(t, err)
		_, err = source.VolumesOf(types.NamespacedName{Namespace: "default", Name: "a"})
		require.Error(t, err)
	}
	unread()
	mend := store.Inject(fake.Fault{
		Match: fake.Match("", schema.GroupKind{Kind: "PersistentVolume"}, ""), Err: errors.New("forbidden"), Times: -1,
	})
	go func() { sourceEnded <- source.Run(ctx, func(string) { woken.Add(1) }) }()
	go func() { managerEnded <- mgr.Start(ctx) }()
	names := func(node string) map[string]bool {
		list, _ := source.Attachments(node)
		out := map[string]bool{}
		for _, a := range list {
			out[a.Name] = true
		}
		return out
	}
	poll(t, "the attachments are known", func() bool { _, synced := source.Attachments("n1"); return synced })
	require.Equal(t, map[string]bool{"a-on-n1": true, "b-on-n1": true}, names("n1"))
	require.Len(t, source.AttachmentsOf("a"), 2)
	_, err = source.Volume("a")
	require.Error(t, err, "volumes that cannot be listed are unread")
	mend()
	poll(t, "the volumes are known", func() bool { _, err := source.Volume("a"); return err == nil })
	pv, err := source.Volume("a")
	require.NoError(t, err)
	want := &corev1.CSIPersistentVolumeSource{Driver: "disk.example.com", VolumeHandle: "h-a"}
	if diff := cmp.Diff(want, pv.Spec.CSI); diff != "" || pv.Annotations != nil || pv.Spec.Capacity != nil {
		t.Errorf("want only what is read (-want +got):\n%s", diff)
	}
	none, err := source.Volume("none")
	require.NoError(t, err)
	require.Nil(t, none)
	of, err := source.VolumesOf(types.NamespacedName{Namespace: "default", Name: "b"})
	require.NoError(t, err)
	require.Len(t, of, 1)
	require.Error(t, source.Run(ctx, nil), "a source runs once")

	before := woken.Load()
	require.NoError(t, c.Delete(t.Context(), attached("n1", "a")))
	poll(t, "the attachment is gone", func() bool { return len(names("n1")) == 1 && len(source.AttachmentsOf("a")) == 1 })
	require.NoError(t, c.Delete(t.Context(), persistent("b")))
	poll(t, "the volume is gone", func() bool { pv, err := source.Volume("b"); return err == nil && pv == nil })
	poll(t, "both are told", func() bool { return woken.Load() >= before+2 })

	cancel()
	require.NoError(t, <-sourceEnded)
	require.NoError(t, <-managerEnded)
	unread()
}

func TestTrimVolumes_LeavesOthersAlone(t *testing.T) {
	pod := bound("n", "a")
	pod.Labels = map[string]string{"a": "b"}
	got, err := runner.TrimVolumes(pod)
	require.NoError(t, err)
	require.Equal(t, map[string]string{"a": "b"}, got.(*corev1.Pod).Labels)
	inline := &storagev1.VolumeAttachment{Spec: storagev1.VolumeAttachmentSpec{
		Source: storagev1.VolumeAttachmentSource{InlineVolumeSpec: &corev1.PersistentVolumeSpec{}},
	}}
	_, err = runner.TrimVolumes(inline)
	require.NoError(t, err)
	require.Nil(t, inline.Spec.Source.InlineVolumeSpec)
}

// The whole stage over a real manager: the drain is done, the volume is being detached, its attachment goes, the owner wakes.
func TestStore_ADetachedVolumeWakesTheOwnerOfItsNode(t *testing.T) {
	c := newCluster(t, "n1")
	require.NoError(t, c.client.Create(t.Context(), persistent("a")))
	require.NoError(t, c.client.Create(t.Context(), attached("n1", "a")))
	c.drain("n1")
	c.eventually("the Node is drained and waits for its volume", func() bool {
		result, err := c.volumes("n1")
		return err == nil && !result.Done && len(result.Attached) == 1
	})
	result, _ := c.volumes("n1")
	require.Equal(t, "* PersistentVolumeClaims: default/a", result.Message)
	require.Equal(t, 15*time.Second, result.RequeueAfter, "there is no other look within the limit of this test")
	require.NoError(t, c.client.Delete(t.Context(), attached("n1", "a")))
	c.eventually("the volume is detached", func() bool { result, err := c.volumes("n1"); return err == nil && result.Done })
}
