//go:build e2e

package e2e_test

import (
	"strings"
	"testing"

	"github.com/machinist-dev/machinist/contract"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/examples/lab/cluster"
)

const keepersRule = `apiVersion: cluster.x-k8s.io/v1beta2
kind: MachineDrainRule
metadata: {name: keepers, namespace: default}
spec:
  drain: {behavior: Skip}
  machines: [{selector: {matchLabels: {team: blue}}}]
  pods: [{selector: {matchLabels: {app: keeper}}, namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: default}}}]`

// TestE2EADeletionObeysDrainRulesAndWaitsForVolumes has real objects of both kinds: the API server validates them, and the
// manager has no more rights than it asks for.
func TestE2EADeletionObeysDrainRulesAndWaitsForVolumes(t *testing.T) {
	w := newWorld(t, worldOptions{})
	m := w.ready(w.apply(document("with-volume", contract.V1Beta2))[2])
	node := m.GetName()
	w.eventually("a Node without taints", func() string { return w.untainted([]string{node}) })
	crds, err := cluster.ClusterAPICRDs(t.Context(), "v1beta2", "MachineDrainRule")
	require.NoError(t, err)
	require.NoError(t, cluster.InstallCRDs(t.Context(), w.plane.Config(), crds...))
	rule := w.apply(keepersRule)[0]
	for _, app := range []string{"keeper", "goer"} {
		require.NoError(t, w.client.Create(t.Context(), &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: app, Labels: map[string]string{"app": app}},
			Spec:       corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{Name: "c", Image: "example.com/app"}}},
		}))
	}
	pv, va := w.attach("disk", node)

	require.NoError(t, w.client.Delete(t.Context(), m))
	w.eventually("the wait for volumes", func() string { return w.waitsForVolumes(m, "* PersistentVolumeClaims: default/disk") })
	var pods corev1.PodList
	require.NoError(t, w.client.List(t.Context(), &pods, client.InNamespace("default"), client.MatchingFields{"spec.nodeName": node}))
	var left []string
	for _, pod := range pods.Items {
		if pod.DeletionTimestamp == nil {
			left = append(left, pod.Name)
		}
	}
	require.Equal(t, []string{"keeper"}, left)
	w.gone(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "goer"}})
	require.NoError(t, w.client.Get(t.Context(), clientKey("", node), &corev1.Node{}))

	require.NoError(t, w.client.Delete(t.Context(), va))
	w.gone(m, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}})
	w.eventually("the event", func() string {
		var events eventsv1.EventList
		require.NoError(t, w.client.List(t.Context(), &events, client.InNamespace("default")))
		told := 0
		for _, e := range events.Items {
			if e.Regarding.Name == node && e.Reason == "NodeVolumesDetached" {
				told++
			}
		}
		if told != 1 {
			return "there are not one but others"
		}
		return ""
	})
	require.NoError(t, w.client.Delete(t.Context(), rule))
	require.NoError(t, w.client.Delete(t.Context(), pv))
	keeper := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "keeper"}}
	require.NoError(t, client.IgnoreNotFound(w.client.Delete(t.Context(), keeper, client.GracePeriodSeconds(0)))) // or it is collected
}

// attach creates a PersistentVolume of a claim, and has it attached as a driver's attacher would.
func (w *world) attach(name, node string) (*corev1.PersistentVolume, *storagev1.VolumeAttachment) {
	w.t.Helper()
	pv := &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PersistentVolumeSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Capacity:    corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
			ClaimRef:    &corev1.ObjectReference{Namespace: "default", Name: name},
			PersistentVolumeSource: corev1.PersistentVolumeSource{
				CSI: &corev1.CSIPersistentVolumeSource{Driver: "csi.example.com", VolumeHandle: name},
			},
		},
	}
	require.NoError(w.t, w.client.Create(w.t.Context(), pv))
	va := &storagev1.VolumeAttachment{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: storagev1.VolumeAttachmentSpec{
			Attacher: "csi.example.com", NodeName: node, Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: &name},
		},
	}
	require.NoError(w.t, w.client.Create(w.t.Context(), va))
	va.Status.Attached = true
	require.NoError(w.t, w.client.Status().Update(w.t.Context(), va))
	return pv, va
}

// waitsForVolumes says how a Machine is otherwise than waiting for these.
func (w *world) waitsForVolumes(m *unstructured.Unstructured, volumes string) string {
	fresh := w.get(m)
	if fresh == nil {
		w.t.Fatal("the Machine went with volumes attached")
	}
	c, _, err := contract.ConditionsAt("status", "conditions").Find(fresh.Object, "Deleting")
	require.NoError(w.t, err)
	if c.Reason != "WaitingForVolumeDetach" || !strings.HasSuffix(c.Message, volumes) {
		return describe(fresh)
	}
	return ""
}
