package machine_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/drain"
	"github.com/machinist-dev/machinist/machine"
)

func TestADrainPolicyLetsPodsWithVolumesLeaveOneAfterTheOther(t *testing.T) {
	t.Parallel()
	policy := machine.Policy{DrainPolicy: &drain.Policy{SerialVolumes: &drain.SerialVolumes{}}}
	w := newWorld(t, worldOptions{machine: machine.Options{Policy: policy}})
	m := w.machineWith("m1")
	w.conditionIs(m, contract.ConditionReady, contract.ReasonReady)
	for name, priority := range map[string]int32{"a": 0, "b": 5} {
		w.create(&corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
			Spec: corev1.PodSpec{
				NodeName: "m1", Priority: &priority, Containers: []corev1.Container{{Name: "c", Image: "example.com/app"}},
				Volumes: []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{
					PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: name},
				}}},
			},
		})
	}
	first, last := w.attach("b", "m1"), w.attach("a", "m1")
	require.NoError(t, w.client.Delete(t.Context(), m))
	w.conditionSays(m, contract.ConditionDeleting, contract.ReasonDrainingNode,
		"* PersistentVolumeClaims default/b: waiting until detached from the Node", "the following Pods will be evicted: default/a")
	require.Nil(t, w.pod("b"))
	require.NotNil(t, w.pod("a"), "the volume of the Pod before it is still attached")
	require.NoError(t, w.client.Delete(t.Context(), first))
	w.waitsForVolumes(m, "default/a")
	require.Nil(t, w.pod("a"))
	require.NoError(t, w.client.Delete(t.Context(), last))
	w.goes(m)
}
