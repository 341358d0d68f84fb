package machinepool_test

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/fake"
	"github.com/machinist-dev/machinist/machinepool"
	"github.com/machinist-dev/machinist/noderef/cluster"
)

// gone has the workload cluster vanish when a test says so.
func gone(away *atomic.Bool) func(ctrl.Manager, *machinepool.Ports) {
	return func(_ ctrl.Manager, ports *machinepool.Ports) {
		inner := ports.Workload
		ports.NodesOf = func(types.NamespacedName) (cluster.Workload, error) {
			if away.Load() {
				return cluster.Workload{}, errors.Join(cluster.ErrNotConnected, errors.New("the kubeconfig Secret demo-kubeconfig does not exist"))
			}
			return inner, nil
		}
		ports.WorkloadEvents = func(cluster.Mapper) source.Source { return source.Func(noEvents) }
	}
}

func TestADeletionDoesNotWaitForAClusterThatIsGone(t *testing.T) {
	t.Parallel()
	// kubernetes-sigs/cluster-api#7559, #4296: the missing Cluster is an error for ever.
	w := newWorld(t, worldOptions{provider: &fake.PoolInfrastructure{}, clusters: true})
	demo := fake.Cluster("demo")
	status := demo.Object["status"]
	w.create(demo)
	w.change(demo, func(u *unstructured.Unstructured) { u.Object["status"] = status })
	pool := w.poolWith(2)
	w.reports(pool, "Running", 2, 2)
	w.change(pool, func(u *unstructured.Unstructured) { u.SetOwnerReferences(nil) }) // or the garbage collector deletes it
	w.change(pool, func(u *unstructured.Unstructured) { u.SetAnnotations(map[string]string{contract.PausedAnnotation: ""}) })
	require.NoError(t, w.client.Delete(t.Context(), pool))
	require.NoError(t, w.client.Delete(t.Context(), demo))
	w.change(pool, func(u *unstructured.Unstructured) { u.SetAnnotations(nil) })
	w.goes(pool, fake.InfraMachinePool(contract.V1Beta2, "pool"))
	if n := len(w.nodes()); n != 2 {
		t.Errorf("the Nodes go with their cluster: want 2 to be left, got %d", n)
	}
}

func TestADeletionDoesNotWaitForEverForNodesThatCannotBeRead(t *testing.T) {
	t.Parallel()
	var away atomic.Bool
	w := newWorld(t, worldOptions{
		provider: &fake.PoolInfrastructure{}, ports: gone(&away), unread: time.Second,
	})
	pool := w.poolWith(2, fake.WithField(map[string]any{"nodeDeletionTimeoutSeconds": int64(1)}, "spec", "template", "spec", "deletion"))
	w.reports(pool, "Running", 2, 2)
	away.Store(true)
	require.NoError(t, w.client.Delete(t.Context(), pool))
	w.goes(pool, fake.InfraMachinePool(contract.V1Beta2, "pool"), fake.BootstrapConfig(contract.V1Beta2, "pool"))
}

func TestWhatCannotBeReadIsUnknownAndCountersStay(t *testing.T) {
	t.Parallel()
	var away atomic.Bool
	w := newWorld(t, worldOptions{
		provider: &fake.PoolInfrastructure{}, ports: gone(&away), pool: machinepool.Options{ConnectionGrace: time.Second},
	})
	pool := w.poolWith(2)
	w.reports(pool, "Running", 2, 2)
	away.Store(true)
	w.change(pool, func(u *unstructured.Unstructured) { u.SetLabels(map[string]string{"wake": "up"}) })
	w.conditionIs(pool, contract.ConditionMachinesReady, contract.ReasonConnectionDown)
	w.reports(pool, "Running", 2, 2)
	if n := len(w.nodes()); n != 2 {
		t.Errorf("a Node that cannot be read is not retired, %d are left", n)
	}
}

func TestNodesThatWereInAnotherClusterAreNotGone(t *testing.T) {
	t.Parallel()
	var other atomic.Bool
	w := newWorld(t, worldOptions{
		provider: &fake.PoolInfrastructure{}, pool: machinepool.Options{ConnectionGrace: time.Second},
		ports: func(_ ctrl.Manager, ports *machinepool.Ports) {
			inner := ports.Workload
			ports.NodesOf = func(types.NamespacedName) (cluster.Workload, error) {
				if inner.UID = "first"; other.Load() {
					inner.UID = "second"
				}
				return inner, nil
			}
			ports.WorkloadEvents = func(cluster.Mapper) source.Source { return source.Func(noEvents) }
		},
	})
	pool := w.poolWith(2)
	w.reports(pool, "Running", 2, 2)
	require.Equal(t, "first", w.get(pool).GetAnnotations()[cluster.UIDAnnotation])
	other.Store(true)
	for _, node := range w.nodes() {
		require.NoError(t, w.client.Delete(t.Context(), &node))
	}
	w.change(pool, func(u *unstructured.Unstructured) { u.SetLabels(map[string]string{"wake": "up"}) })
	message := w.conditionIs(pool, contract.ConditionMachinesReady, contract.ReasonInspectionFailed)
	require.Contains(t, message, "leads to another cluster")
	w.reports(pool, "Running", 2, 2)
	require.NoError(t, w.client.Delete(t.Context(), pool))
	w.settles()
	require.Nil(t, w.get(fake.InfraMachinePool(contract.V1Beta2, "pool")).GetDeletionTimestamp())
	other.Store(false)
	w.change(pool, func(u *unstructured.Unstructured) { u.SetLabels(map[string]string{"wake": "again"}) })
	w.goes(pool, fake.InfraMachinePool(contract.V1Beta2, "pool"))
}

func TestReadinessOutlivesTheConnectionForAWhile(t *testing.T) {
	t.Parallel()
	var away atomic.Bool
	w := newWorld(t, worldOptions{provider: &fake.PoolInfrastructure{}, ports: gone(&away)})
	pool := w.poolWith(2)
	w.reports(pool, "Running", 2, 2)
	w.isQuiet()
	away.Store(true)
	w.change(pool, func(u *unstructured.Unstructured) {
		u.SetLabels(map[string]string{contract.ClusterNameLabel: "demo", "wake": "up"})
	})
	w.settles()
	if got := w.writes(); len(got) > 0 {
		t.Errorf("connections come back: want no write, got %v", got)
	}
}

func TestADrainThatTakesLongIsNotGivenUpWhenTheConnectionBreaks(t *testing.T) {
	t.Parallel()
	var away atomic.Bool
	w := newWorld(t, worldOptions{provider: &fake.PoolInfrastructure{}, ports: gone(&away)})
	pool, infra := w.poolWith(1), fake.InfraMachinePool(contract.V1Beta2, "pool")
	w.reports(pool, "Running", 1, 1)
	w.guarded("pool-0")
	require.NoError(t, w.client.Delete(t.Context(), pool))
	w.conditionIs(pool, contract.ConditionDeleting, contract.ReasonDrainingNode)
	away.Store(true)
	w.change(pool, func(u *unstructured.Unstructured) { // it began minutes ago, and the Nodes cannot be read since now
		deletion := u.GetDeletionTimestamp()
		began := deletion.Add(-contract.ClockTolerance + time.Second).UTC().Format(time.RFC3339)
		u.SetAnnotations(map[string]string{contract.DeletionAnnotation: fmt.Sprintf(
			`{"deletion":%q,"stages":{"drain":{"start":%q}}}`, deletion.UTC().Format(time.RFC3339), began)})
	})
	w.eventually("the Nodes cannot be read", func() string {
		if c := conditionOf(w.get(pool), contract.ConditionDeleting); !strings.Contains(c.Message, "cannot be read") {
			return c.Message
		}
		return ""
	})
	w.settles()
	if w.get(infra).GetDeletionTimestamp() != nil {
		t.Error("the instances went, and their pods with them")
	}
}

func TestALargePoolsNodesAreAllDeletedHoweverLongItTakes(t *testing.T) {
	t.Parallel()
	const nodes = 120 // more than one pass deletes
	w := newWorld(t, worldOptions{provider: &fake.PoolInfrastructure{}})
	pool := w.poolWith(nodes)
	w.reports(pool, "Running", nodes, nodes)
	w.change(pool, func(u *unstructured.Unstructured) {
		u.SetAnnotations(map[string]string{contract.ExcludeDrain: ""})
	})
	require.NoError(t, w.client.Delete(t.Context(), pool))
	w.goes(pool)
	if n := len(w.nodes()); n != 0 {
		t.Errorf("%d Nodes are left", n)
	}
}

func TestADeletionGoesOnWhenTheInfrastructureIsGone(t *testing.T) {
	t.Parallel()
	w := newWorld(t, worldOptions{provider: &fake.PoolInfrastructure{}})
	pool := w.poolWith(2)
	w.reports(pool, "Running", 2, 2)
	infra := fake.InfraMachinePool(contract.V1Beta2, "pool")
	require.NoError(t, w.client.Delete(t.Context(), infra))
	w.goes(infra)
	w.conditionIs(pool, contract.ConditionInfrastructureReady, contract.ReasonDeleted)
	if n := len(w.nodes()); n != 2 {
		t.Errorf("the provider does not say that the instances are gone: want 2 Nodes, got %d", n)
	}
	require.NoError(t, w.client.Delete(t.Context(), pool))
	w.goes(pool)
	if n := len(w.nodes()); n != 0 {
		t.Errorf("want no Node, got %d", n)
	}
}

func TestADrainBeforeADeletionHonoursBudgetsAndItsLimit(t *testing.T) {
	t.Parallel()
	w := newWorld(t, worldOptions{provider: &fake.PoolInfrastructure{}})
	pool := w.poolWith(1, fake.WithField(map[string]any{"nodeDrainTimeoutSeconds": int64(3600)}, "spec", "template", "spec", "deletion"))
	w.reports(pool, "Running", 1, 1)
	w.guarded("pool-0")
	require.NoError(t, w.client.Delete(t.Context(), pool))
	w.conditionIs(pool, contract.ConditionDeleting, contract.ReasonDrainingNode)
	if w.get(fake.InfraMachinePool(contract.V1Beta2, "pool")).GetDeletionTimestamp() != nil {
		t.Error("the instances go before the drain is over")
	}
	w.change(pool, set(int64(1), "spec", "template", "spec", "deletion", "nodeDrainTimeoutSeconds")) // since the drain began
	w.goes(pool)
}

func TestAPoolOfAnotherControllersInfrastructureTakesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, worldOptions{provider: &fake.PoolInfrastructure{}})
	first := w.poolWith(2)
	w.reports(first, "Running", 2, 2)
	second := fake.MachinePool("second", 2, fake.WithField("pool", "spec", "template", "spec", "infrastructureRef", "name"))
	w.create(fake.BootstrapConfig(contract.V1Beta2, "second"), second)
	w.conditionIs(second, contract.ConditionInfrastructureReady, contract.ReasonOwnedByAnother)
	require.NoError(t, w.client.Delete(t.Context(), second))
	w.goes(second)
	w.reports(first, "Running", 2, 2)
}

func TestBootstrapDataOutliveTheInstances(t *testing.T) {
	t.Parallel()
	// Cluster API deletes both at once, so that an instance that restarts meanwhile finds nothing.
	w := newWorld(t, worldOptions{provider: &fake.PoolInfrastructure{}})
	pool := w.poolWith(1)
	w.reports(pool, "Running", 1, 1)
	infra, bootstrap := fake.InfraMachinePool(contract.V1Beta2, "pool"), fake.BootstrapConfig(contract.V1Beta2, "pool")
	require.NoError(t, w.client.Patch(t.Context(), infra, client.RawPatch(types.MergePatchType,
		[]byte(`{"metadata":{"finalizers":["test.machinist.dev/slow","fake.machinist.dev/provider"]}}`))))
	require.NoError(t, w.client.Delete(t.Context(), pool))
	w.conditionIs(pool, contract.ConditionDeleting, contract.ReasonWaitingForInfrastructureDeletion)
	if w.get(bootstrap).GetDeletionTimestamp() != nil {
		t.Error("the bootstrap data go before the instances")
	}
	if n := len(w.nodes()); n != 1 {
		t.Errorf("the Node goes before the instance: %d are left", n)
	}
	require.NoError(t, w.client.Patch(t.Context(), infra, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))))
	w.goes(pool, infra, bootstrap)
	if n := len(w.nodes()); n != 0 {
		t.Errorf("want no Node, got %d", n)
	}
}

func TestInstancesThatAreAnotherControllersNowKeepTheirNodes(t *testing.T) {
	t.Parallel()
	w := newWorld(t, worldOptions{provider: &fake.PoolInfrastructure{}})
	pool := w.poolWith(2)
	w.reports(pool, "Running", 2, 2)
	other := fake.BootstrapConfig(contract.V1Beta2, "other") // whatever its kind
	w.create(other)
	infra := fake.InfraMachinePool(contract.V1Beta2, "pool")
	w.change(infra, func(u *unstructured.Unstructured) {
		u.SetOwnerReferences([]metav1.OwnerReference{{
			APIVersion: other.GetAPIVersion(), Kind: other.GetKind(), Name: other.GetName(), UID: other.GetUID(), Controller: new(true),
		}})
	})
	w.conditionIs(pool, contract.ConditionInfrastructureReady, contract.ReasonOwnedByAnother)
	require.NoError(t, w.client.Delete(t.Context(), pool))
	w.goes(pool)
	for _, node := range w.nodes() {
		if node.Spec.Unschedulable || node.DeletionTimestamp != nil {
			t.Errorf("Node %s does not serve any more", node.Name)
		}
	}
	if n := len(w.nodes()); n != 2 {
		t.Errorf("Nodes were deleted, %d are left", n)
	}
	if w.get(infra) == nil {
		t.Error("the instances were deleted")
	}
}

// An API server that does not serve a version at the moment answers 404 to all that is asked of it.
func TestADeletionThatTheServerDidNotUnderstandIsRequestedAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t, worldOptions{provider: &fake.PoolInfrastructure{}})
	pool, infra := w.poolWith(1), fake.InfraMachinePool(contract.V1Beta2, "pool")
	w.reports(pool, "Running", 1, 1)
	kind := fake.InfraMachinePoolGVK(contract.V1Beta2).Kind
	w.store.FailNext(func(r fake.Request) bool { return r.Verb == "delete" && r.GVK.Kind == kind },
		apierrors.NewGenericServerResponse(404, "delete", schema.GroupResource{Resource: kind}, "pool", "404 page not found", 0, true))
	require.NoError(t, w.client.Delete(t.Context(), pool))
	w.goes(pool, infra)
}

func TestAPoolThatLivesForgetsTheDeletionThatItsBackupWasMadeIn(t *testing.T) {
	t.Parallel()
	w := newWorld(t, worldOptions{provider: &fake.PoolInfrastructure{}})
	pool := w.poolWith(1)
	w.reports(pool, "Running", 1, 1)
	w.change(pool, func(u *unstructured.Unstructured) {
		u.SetAnnotations(map[string]string{
			contract.DeletionAnnotation: `{"deletion":"2020-01-01T00:00:00Z","stages":{"drain":{"start":"2020-01-01T00:00:00Z"}}}`,
		})
	})
	w.eventually("the record to go", func() string {
		if _, found := w.get(pool).GetAnnotations()[contract.DeletionAnnotation]; found {
			return "there still is " + contract.DeletionAnnotation
		}
		return ""
	})
	w.isQuiet()
}

// A snapshot of etcd that is restored while the process runs brings back what it was deleting.
func TestAPoolThatIsRestoredInItsDeletionRequestsThatOfItsInfrastructureAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t, worldOptions{provider: &fake.PoolInfrastructure{}})
	pool, infra := w.poolWith(1), fake.InfraMachinePool(contract.V1Beta2, "pool")
	w.reports(pool, "Running", 1, 1)
	w.change(infra, func(u *unstructured.Unstructured) { u.SetFinalizers(append(u.GetFinalizers(), "example.com/hold")) })
	w.isQuiet()
	backup := w.store.Backup()
	isGoing := func() string {
		if w.get(infra).GetDeletionTimestamp() == nil {
			return "it lives"
		}
		return ""
	}
	require.NoError(t, w.client.Delete(t.Context(), pool))
	w.eventually("the infrastructure to be deleted", isGoing)
	w.store.Restore(backup)
	w.reports(pool, "Running", 1, 1)
	w.isQuiet()
	require.NoError(t, w.client.Delete(t.Context(), pool))
	w.eventually("the infrastructure to be deleted again", isGoing)
	w.change(infra, func(u *unstructured.Unstructured) { u.SetFinalizers(nil) })
	w.goes(pool, infra)
}

// Velero and a replayed journal bring single objects back, with the UIDs that they had.
func TestInfrastructureThatComesBackInTheDeletionOfItsPoolIsDeletedAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t, worldOptions{}) // no provider: it would write into the restored object what it has read before
	pool, infra := w.poolOf("p://1")
	w.isQuiet()
	backup := w.store.Backup(infra.GroupVersionKind().GroupKind())
	w.change(infra, func(u *unstructured.Unstructured) { u.SetFinalizers([]string{"example.com/hold"}) })
	require.NoError(t, w.client.Delete(t.Context(), pool))
	isGoing := func() string {
		if w.get(infra).GetDeletionTimestamp() == nil {
			return "it lives"
		}
		return ""
	}
	w.eventually("the infrastructure to be deleted", isGoing)
	w.store.Restore(backup)
	w.goes(pool, infra)
}
