package runner_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
