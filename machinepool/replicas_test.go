package machinepool_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/fake"
)

func TestAPoolWithoutReplicasKeepsWhatItHas(t *testing.T) {
	t.Parallel()
	w := newWorld(t, worldOptions{})
	without := func(u *unstructured.Unstructured) { unstructured.RemoveNestedField(u.Object, "spec", "replicas") }
	named := func(pool *unstructured.Unstructured, want int64) {
		t.Helper()
		w.eventually(fmt.Sprintf("%s to have %d", pool.GetName(), want), func() string {
			if n, found, _ := unstructured.NestedInt64(w.get(pool).Object, "spec", "replicas"); n != want || !found {
				return fmt.Sprint(n, found)
			}
			return ""
		})
	}
	pool, _ := w.poolOf("fake://a", "fake://b")
	w.change(pool, without)
	named(pool, 2)
	fresh := fake.MachinePool("fresh", 7, without)
	w.create(fresh)
	named(fresh, 1)
	elsewhere := fake.MachinePool("elsewhere", 7, without, func(u *unstructured.Unstructured) {
		u.SetAnnotations(map[string]string{contract.ReplicasManagedByAnnotation: "karpenter"})
	})
	w.create(elsewhere)
	w.Never("write the replicas of another component", 300*time.Millisecond, func() string {
		if _, found, _ := unstructured.NestedInt64(w.get(elsewhere).Object, "spec", "replicas"); found {
			return "it did"
		}
		return ""
	})
}

func TestAPoolThatIsManagedElsewhereWantsWhatItsProviderHas(t *testing.T) {
	t.Parallel()
	w := newWorld(t, worldOptions{})
	infra := fake.InfraMachinePool(contract.V1Beta2, "pool")
	pool := fake.MachinePool("pool", 7, set(map[string]any{"dataSecretName": "mine"}, "spec", "template", "spec", "bootstrap"),
		func(u *unstructured.Unstructured) {
			unstructured.RemoveNestedField(u.Object, "spec", "replicas")
			u.SetAnnotations(map[string]string{contract.ReplicasManagedByAnnotation: "karpenter"})
		})
	w.create(infra, pool, fake.Node("n-0", "fake://a"), fake.Node("n-1", "fake://b"))
	w.listed(infra, "fake://a", "fake://b")
	w.reports(pool, "Running", 2, 2)
	for _, kind := range []string{contract.ConditionAvailable, contract.ConditionScalingUp, contract.ConditionScalingDown} {
		require.NotEqual(t, metav1.ConditionUnknown, conditionOf(w.get(pool), kind).Status, kind)
	}
	w.listed(infra, "fake://a", "fake://b", "fake://c")
	w.reports(pool, "Scaling", 2, 2)
	w.create(fake.Node("n-2", "fake://c"))
	w.reports(pool, "Running", 3, 3)
}
