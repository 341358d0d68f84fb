package machinepool_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/fake"
	"github.com/machinist-dev/machinist/machinepool"
	"github.com/machinist-dev/machinist/noderef/cluster"
)

// forgetful is an index that has yet to hear of the Nodes of one name.
type forgetful struct {
	*cluster.NodeIndex

	misses atomic.Pointer[string]
}

func (f *forgetful) without(nodes []*corev1.Node) []*corev1.Node {
	var there []*corev1.Node
	for _, node := range nodes {
		if misses := f.misses.Load(); misses == nil || *misses != node.Name {
			there = append(there, node)
		}
	}
	return there
}

func (f *forgetful) ByProviderID(id string) []*corev1.Node {
	return f.without(f.NodeIndex.ByProviderID(id))
}

func (f *forgetful) ByName(name string) *corev1.Node {
	if node := f.NodeIndex.ByName(name); node != nil && len(f.without([]*corev1.Node{node})) > 0 {
		return node
	}
	return nil
}

// missedWorld has a pool of two instances, and an index that does not have the Node of the first one any more.
func missedWorld(t *testing.T, unread time.Duration) (*world, *forgetful, *unstructured.Unstructured) {
	t.Helper()
	nodes := &forgetful{}
	w := newWorld(t, worldOptions{provider: &fake.PoolInfrastructure{}, unread: unread,
		ports: func(_ ctrl.Manager, p *machinepool.Ports) {
			nodes.NodeIndex, _ = p.Workload.Nodes.(*cluster.NodeIndex)
			p.Workload.Nodes = nodes
		}})
	pool := w.poolWith(2)
	w.reports(pool, "Running", 2, 2)
	w.isQuiet()
	nodes.misses.Store(new("pool-0"))
	return w, nodes, pool
}

// asksForNodes are the reads of one Node by the reconciler.
func asksForNodes(r fake.Request) bool {
	return r.UserAgent == userAgent && r.Verb == "get" && r.GVK.Kind == "Node"
}

func TestDeletionWithAStaleIndex(t *testing.T) {
	t.Parallel()
	w, nodes, pool := missedWorld(t, 0)
	w.guarded("pool-0")
	require.NoError(t, w.client.Delete(t.Context(), pool))
	message := ""
	w.eventually("the deletion waits for the Node", func() string {
		message = w.conditionIs(pool, contract.ConditionDeleting, contract.ReasonDrainingNode)
		if message != "The recorded Nodes are not known to be gone: pool-0" {
			return message
		}
		return ""
	})
	require.Nil(t, w.get(fake.InfraMachinePool(contract.V1Beta2, "pool")).GetDeletionTimestamp())
	nodes.misses.Store(nil)
	w.eventually("the Node is drained", func() string {
		var node corev1.Node
		require.NoError(t, w.client.Get(t.Context(), client.ObjectKey{Name: "pool-0"}, &node))
		return map[bool]string{false: "it is not cordoned"}[node.Spec.Unschedulable]
	})
}

func TestANodeOfAPoolThatIsGoneIsAskedForOnce(t *testing.T) {
	t.Parallel()
	w, nodes, pool := missedWorld(t, 0)
	nodes.misses.Store(nil)
	require.NoError(t, w.client.Delete(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "pool-0"}}))
	w.eventually("the Node is recorded no more", func() string {
		recorded, _, _ := unstructured.NestedSlice(w.get(pool).Object, "status", "nodeRefs")
		return map[bool]string{false: "it still is"}[len(recorded) == 1]
	})
	w.settles()
	require.NoError(t, w.client.Delete(t.Context(), pool))
	w.goes(pool)
	require.Equal(t, 2, w.store.CountRequests(asksForNodes), "for each Node once")
	require.Empty(t, w.nodes())
}

func TestRecordWithAStaleIndex(t *testing.T) {
	t.Parallel()
	w, nodes, pool := missedWorld(t, 0)
	w.change(fake.InfraMachinePool(contract.V1Beta2, "pool"), func(u *unstructured.Unstructured) {
		u.SetLabels(map[string]string{"wake": "up"})
	})
	w.eventually("the Node is asked for", func() string {
		return map[bool]string{true: "it is not"}[w.store.CountRequests(asksForNodes) == 0]
	})
	w.settles()
	recorded, _, _ := unstructured.NestedSlice(w.get(pool).Object, "status", "nodeRefs")
	require.Len(t, recorded, 2)
	nodes.misses.Store(nil)
	w.change(pool, func(u *unstructured.Unstructured) { u.SetLabels(map[string]string{"wake": "up"}) })
	w.reports(pool, "Running", 2, 2)
}

func TestANodeOfAPoolThatCannotBeAskedForIsWaitedForWithinTheLimit(t *testing.T) {
	t.Parallel()
	w, _, pool := missedWorld(t, time.Hour)
	w.store.Inject(fake.Fault{Times: -1, Err: apierrors.NewServiceUnavailable("not now"), Match: asksForNodes})
	require.NoError(t, w.client.Delete(t.Context(), pool))
	w.eventually("the deletion says what the server answers", func() string {
		message := w.conditionIs(pool, contract.ConditionDeleting, contract.ReasonDrainingNode)
		want := "The recorded Nodes are not known to be gone: pool-0: make sure that Node pool-0 is gone: not now"
		return map[bool]string{false: message}[message == want]
	})
	require.Nil(t, w.get(fake.InfraMachinePool(contract.V1Beta2, "pool")).GetDeletionTimestamp())
	w.change(pool, set(int64(1), "spec", "template", "spec", "deletion", "nodeDrainTimeoutSeconds"))
	w.goes(fake.InfraMachinePool(contract.V1Beta2, "pool"))
}

func TestANodeOfAPoolThatCannotBeAskedForIsWaitedForNoLongerThanNodesThatCannotBeRead(t *testing.T) {
	t.Parallel()
	w, nodes, pool := missedWorld(t, time.Second)
	w.store.Inject(fake.Fault{Times: -1, Err: apierrors.NewServiceUnavailable("not now"), Match: func(r fake.Request) bool {
		return asksForNodes(r) && r.Name == "pool-0"
	}})
	require.NoError(t, w.client.Delete(t.Context(), pool))
	w.goes(fake.InfraMachinePool(contract.V1Beta2, "pool"))
	missed := "The recorded Nodes are not known to be gone: pool-0: make sure that Node pool-0 is gone: not now"
	w.recorded(machinepool.EventDrainFailed, "Warning "+missed+": the deletion goes on without their drain")
	w.eventually("the Node that is not known to be gone is named", func() string {
		c := conditionOf(w.get(pool), contract.ConditionDeleting)
		return map[bool]string{false: c.Message}[c.Reason == contract.ReasonDeletingNode && c.Message == missed]
	})
	nodes.misses.Store(nil)
	w.goes(pool)
	require.Empty(t, w.nodes())
}
