//go:build e2e

package e2e_test

import (
	"testing"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/examples/manager/api"
	"github.com/machinist-dev/machinist/fake"
	"github.com/stretchr/testify/require"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
)

// TestE2EAPoolOfOurOwnIsScaledByTheHorizontalPodAutoscaler has the autoscaler of kube-controller-manager judge the scale subresource:
// it refuses Cluster API's MachinePool, whose Scale has no selector, and takes ours.
func TestE2EAPoolOfOurOwnIsScaledByTheHorizontalPodAutoscaler(t *testing.T) {
	gvk := api.Machinist.MachinePool().GVK
	p := newPoolScene(t, fake.PoolInfrastructure{Owner: gvk})
	p.installOwnCRDs()
	p.startManager([]string{"--machinepools", "--machinepool-group", string(api.Machinist)})

	theirs := fake.MachinePool("theirs", 3)
	require.NoError(t, p.client.Create(t.Context(), theirs))
	ours := fake.MachinePool("ours", 1)
	ours.SetGroupVersionKind(gvk)
	infrastructure, bootstrap := fake.InfraMachinePool(contract.V1Beta2, "ours"), fake.BootstrapConfig(contract.V1Beta2, "ours")
	for _, obj := range []*unstructured.Unstructured{bootstrap, infrastructure, ours} {
		require.NoError(t, p.client.Create(t.Context(), obj))
	}
	p.reaches(ours, 1)
	for _, pool := range []*unstructured.Unstructured{theirs, ours} {
		require.NoError(t, p.client.Create(t.Context(), autoscaler(pool)))
	}
	p.reaches(ours, 3) // the autoscaler's minimum
	selector, _, err := unstructured.NestedString(p.scaleOf(ours).Object, "status", "selector")
	require.NoError(t, err)
	require.Equal(t, "cluster.x-k8s.io/cluster-name=demo,cluster.x-k8s.io/pool-name=ours", selector)
	p.verdict(theirs, "InvalidSelector")
	p.verdict(ours, "FailedGetResourceMetric") // it fails only at the metrics, which are not served here

	p.scaleTo(ours, 4)
	p.reaches(ours, 4)
	for _, pool := range []*unstructured.Unstructured{theirs, ours} {
		require.NoError(t, p.client.Delete(t.Context(), autoscaler(pool)))
		require.NoError(t, p.client.Delete(t.Context(), pool))
	}
	p.gone(theirs, ours, infrastructure, bootstrap)
	p.nodesAre(0)
}

// autoscaler wants at least three replicas of a pool.
func autoscaler(pool *unstructured.Unstructured) *autoscalingv2.HorizontalPodAutoscaler {
	target := autoscalingv2.CrossVersionObjectReference{APIVersion: pool.GetAPIVersion(), Kind: pool.GetKind(), Name: pool.GetName()}
	return &autoscalingv2.HorizontalPodAutoscaler{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: pool.GetName()},
		Spec: autoscalingv2.HorizontalPodAutoscalerSpec{
			ScaleTargetRef: target, MinReplicas: new(int32(3)), MaxReplicas: 5,
			Metrics: []autoscalingv2.MetricSpec{{
				Type: autoscalingv2.ResourceMetricSourceType, Resource: &autoscalingv2.ResourceMetricSource{
					Name: corev1.ResourceCPU, Target: autoscalingv2.MetricTarget{Type: autoscalingv2.UtilizationMetricType,
						AverageUtilization: new(int32(50))},
				},
			}},
		},
	}
}

// verdict waits until the autoscaler of a pool says why it cannot scale by metrics.
func (p *poolScene) verdict(pool *unstructured.Unstructured, reason string) {
	p.t.Helper()
	p.eventually("a verdict on "+pool.GetName(), func() string {
		hpa := autoscaler(pool)
		require.NoError(p.t, p.client.Get(p.t.Context(), client.ObjectKeyFromObject(hpa), hpa))
		for _, c := range hpa.Status.Conditions {
			if c.Type == autoscalingv2.ScalingActive && c.Reason == reason {
				return ""
			}
		}
		conditions, err := yaml.Marshal(hpa.Status.Conditions)
		require.NoError(p.t, err)
		return string(conditions)
	})
}
