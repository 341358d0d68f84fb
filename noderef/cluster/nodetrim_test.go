package cluster

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestTrimNodeDropsOnlyWhatIsNeverRead(t *testing.T) {
	full := func() *corev1.Node {
		n := newNode("a", "u1", "test://1")
		n.Labels = map[string]string{"l": "1"}
		n.Annotations = map[string]string{"a": "1"}
		n.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "10.0.0.1"}}
		n.Status.VolumesAttached = []corev1.AttachedVolume{{Name: "v"}}
		return n
	}
	node := full()
	node.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "kubelet"}}
	node.Status.Images = []corev1.ContainerImage{{Names: []string{"image"}}}
	got, err := TrimNode(node)
	require.NoError(t, err)
	require.Equal(t, full(), got)

	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{ManagedFields: []metav1.ManagedFieldsEntry{{}}}}
	got, err = TrimNode(pod)
	require.NoError(t, err)
	require.Len(t, got.(*corev1.Pod).ManagedFields, 1)
	_, err = TrimNode((*corev1.Node)(nil))
	require.NoError(t, err)
}
