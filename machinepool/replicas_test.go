package machinepool_test

import (
	"fmt"
	"testing"
	"time"

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
