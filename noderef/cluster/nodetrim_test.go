package cluster

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
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

// kubeletNode returns a Node with everything that a kubelet, a cloud controller and plug-ins write to it: 50 images, which is
// the most that a kubelet lists, and the managed fields of five writers.
func kubeletNode(i int) *corev1.Node {
	n := newNode(fmt.Sprintf("worker-%05d", i), fmt.Sprintf("4212a3f0-0bd6-4e0f-a2a1-%012d", i), fmt.Sprintf("aws:///eu-west-1a/i-%017d", i))
	n.ResourceVersion = fmt.Sprint(1000 + i)
	n.CreationTimestamp = metav1.NewTime(time.Unix(int64(i), 0))
	n.Labels, n.Annotations = map[string]string{}, map[string]string{}
	for _, key := range []string{
		"kubernetes.io/hostname", "kubernetes.io/os", "kubernetes.io/arch", "node.kubernetes.io/instance-type",
		"topology.kubernetes.io/region", "topology.kubernetes.io/zone", "node-role.kubernetes.io/worker", "pool.example.com/name",
	} {
		n.Labels[key] = fmt.Sprintf("value-%d", i)
	}
	for _, key := range []string{
		"node.alpha.kubernetes.io/ttl", "volumes.kubernetes.io/controller-managed-attach-detach", "csi.volume.kubernetes.io/nodeid",
		"x-k8s.io/cluster-name", "x-k8s.io/cluster-namespace", "x-k8s.io/machine", "x-k8s.io/labels-from-machine",
	} {
		n.Annotations[key] = fmt.Sprintf("a value of some length %d", i)
	}
	for _, manager := range []string{"kubelet", "kube-controller-manager", "cloud-controller-manager", "manager", "calico-node"} {
		managed := &metav1.FieldsV1{}
		_ = managed.UnmarshalJSON(fmt.Appendf(nil, `{"f:metadata":{"f:annotations":{%0900d}}}`, i)) // it keeps any text
		n.ManagedFields = append(n.ManagedFields, metav1.ManagedFieldsEntry{
			Manager: manager, Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: "v1", FieldsType: "FieldsV1",
			FieldsV1: managed,
		})
	}
	for image := range 50 {
		n.Status.Images = append(n.Status.Images, corev1.ContainerImage{SizeBytes: int64(image), Names: []string{
			fmt.Sprintf("registry.example.com/team/application-%d@sha256:%064d", image, i),
			fmt.Sprintf("registry.example.com/team/application-%d:v1.2.%d", image, i),
		}})
	}
	for _, c := range []corev1.NodeConditionType{"MemoryPressure", "DiskPressure", "PIDPressure", "Ready", "NetworkUnavailable"} {
		n.Status.Conditions = append(n.Status.Conditions, corev1.NodeCondition{
			Type: c, Status: corev1.ConditionFalse, Reason: "KubeletHas", Message: fmt.Sprintf("kubelet %d has sufficient of it", i),
		})
	}
	n.Status.Capacity, n.Status.Allocatable = corev1.ResourceList{}, corev1.ResourceList{}
	for _, r := range []corev1.ResourceName{"cpu", "memory", "pods", "ephemeral-storage", "hugepages-2Mi", "hugepages-1Gi"} {
		n.Status.Capacity[r], n.Status.Allocatable[r] = resource.MustParse("16Gi"), resource.MustParse("15Gi")
	}
	n.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: fmt.Sprintf("10.0.%d.%d", i/256, i%256)}}
	n.Status.NodeInfo = corev1.NodeSystemInfo{KubeletVersion: "v1.36.3", MachineID: fmt.Sprintf("%032d", i), BootID: fmt.Sprintf("%036d", i)}
	return n
}

func TestTrimNodeTakesMostOfANodesSize(t *testing.T) {
	node := kubeletNode(1)
	full := node.Size()
	_, err := TrimNode(node)
	require.NoError(t, err)
	t.Logf("%d bytes encoded before, %d after", full, node.Size())
	require.Less(t, node.Size(), full/5)
}

// BenchmarkNodeMemory reports what a Node takes in a cache, in bytes of heap, with and without the transform.
func BenchmarkNodeMemory(b *testing.B) {
	for name, trim := range map[string]bool{"full": false, "trimmed": true} {
		b.Run(name, func(b *testing.B) {
			perNode := 0.0
			for b.Loop() {
				perNode = heapPerNode(b, 500, trim)
			}
			b.ReportMetric(perNode, "B/node")
		})
	}
}

func heapPerNode(b *testing.B, count int, trim bool) float64 {
	b.Helper()
	nodes := make([]*corev1.Node, count)
	before := heap()
	for i := range nodes {
		encoded, err := kubeletNode(i).Marshal()
		require.NoError(b, err)
		nodes[i] = &corev1.Node{}
		require.NoError(b, nodes[i].Unmarshal(encoded)) // as an informer gets it
		if trim {
			_, err = TrimNode(nodes[i])
			require.NoError(b, err)
		}
	}
	after := heap()
	runtime.KeepAlive(nodes)
	return float64(after-before) / float64(count)
}

func heap() uint64 {
	runtime.GC()
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return stats.HeapAlloc
}
