package machine_test

import (
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/fake"
	"github.com/machinist-dev/machinist/machine"
	"github.com/machinist-dev/machinist/noderef/cluster"
)

// behindIndex is an index of Nodes that has yet to hear of what is there.
type behindIndex struct {
	*cluster.NodeIndex

	behind atomic.Bool
}

func (b *behindIndex) ByProviderID(id string) []*corev1.Node {
	if b.behind.Load() {
		return nil
	}
	return b.NodeIndex.ByProviderID(id)
}

func (b *behindIndex) ByName(name string) *corev1.Node {
	if b.behind.Load() {
		return nil
	}
	return b.NodeIndex.ByName(name)
}

// missedWorld has a ready Machine whose Node the index does not have any more.
func missedWorld(t *testing.T, options ...fake.Option) (*world, *behindIndex, *unstructured.Unstructured) {
	t.Helper()
	nodes := &behindIndex{}
	w := newWorld(t, worldOptions{machine: atOnce, ports: func(_ ctrl.Manager, p *machine.Ports) {
		nodes.NodeIndex, _ = p.Workload.Nodes.(*cluster.NodeIndex)
		p.Workload.Nodes = nodes
	}})
	m := w.machineWith("m1", append(options, fake.WithAnnotations(map[string]string{contract.PreTerminateHook + "/look": ""}))...)
	w.conditionIs(m, contract.ConditionReady, contract.ReasonReady)
	nodes.behind.Store(true)
	return w, nodes, m
}

// askedForNodes counts the requests for one Node.
func (w *world) askedForNodes() (n int) {
	for _, r := range w.store.Requests() {
		if r.UserAgent == userAgent && r.Verb == "get" && r.GVK.Kind == "Node" {
			n++
		}
	}
	return n
}

func TestANodeThatTheIndexHasYetToHearOfIsDrainedAllTheSame(t *testing.T) {
	t.Parallel()
	w, nodes, m := missedWorld(t)
	require.NoError(t, w.client.Delete(t.Context(), m))
	w.conditionSays(m, contract.ConditionDeleting, contract.ReasonDrainingNode, "Node m1 exists, and its event has not come yet")
	nodes.behind.Store(false)
	w.conditionIs(m, contract.ConditionDeleting, machine.ReasonWaitingForPreTerminateHook)
	require.True(t, w.node("m1").Spec.Unschedulable, "it was drained")
	w.annotate(m, map[string]any{contract.PreTerminateHook + "/look": nil})
	w.goes(m)
	require.Nil(t, w.node("m1"))
}

func TestANodeThatIsGoneIsAskedForOnce(t *testing.T) {
	t.Parallel()
	w, nodes, m := missedWorld(t)
	nodes.behind.Store(false)
	require.NoError(t, w.client.Delete(t.Context(), w.node("m1")))
	w.conditionIs(m, contract.ConditionNodeReady, machine.ReasonNodeDeleted)
	require.Zero(t, w.askedForNodes(), "while the Machine lives, nothing is destroyed")
	require.NoError(t, w.client.Delete(t.Context(), m))
	w.conditionIs(m, contract.ConditionDeleting, machine.ReasonWaitingForPreTerminateHook)
	w.annotate(m, map[string]any{contract.PreTerminateHook + "/look": nil})
	w.goes(m)
	require.Equal(t, 1, w.askedForNodes())
}

func TestANodeThatIsThereIsNotAskedFor(t *testing.T) {
	t.Parallel()
	w, nodes, m := missedWorld(t)
	nodes.behind.Store(false)
	require.NoError(t, w.client.Delete(t.Context(), m))
	w.annotate(m, map[string]any{contract.PreTerminateHook + "/look": nil})
	w.goes(m)
	require.Nil(t, w.node("m1"))
	require.Zero(t, w.askedForNodes())
}

func TestANodeThatCannotBeReadIsWaitedForWithinTheLimits(t *testing.T) {
	t.Parallel()
	w, _, m := missedWorld(t)
	w.store.Inject(fake.Fault{Times: -1, Err: apierrors.NewServiceUnavailable("not now"), Match: func(r fake.Request) bool {
		return r.UserAgent == userAgent && r.GVK.Kind == "Node" && r.Verb == "get"
	}})
	require.NoError(t, w.client.Delete(t.Context(), m))
	w.conditionSays(m, contract.ConditionDeleting, contract.ReasonDrainingNode, "make sure that Node m1 is gone", "not now")
	require.Nil(t, w.get(fake.InfraMachine(contract.V1Beta2, "m1")).GetDeletionTimestamp())
	w.change(m, fake.WithField(int64(1), "spec", "deletion", "nodeDrainTimeoutSeconds"))
	w.change(m, fake.WithField(int64(1), "spec", "deletion", "nodeVolumeDetachTimeoutSeconds"))
	w.conditionIs(m, contract.ConditionDeleting, machine.ReasonWaitingForPreTerminateHook)
	require.False(t, w.node("m1").Spec.Unschedulable)
}
