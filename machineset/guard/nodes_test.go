package guard_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/fake"
	"github.com/machinist-dev/machinist/fake/testenv"
	"github.com/machinist-dev/machinist/machineset/guard"
	"github.com/machinist-dev/machinist/machineset/safety"
	"github.com/machinist-dev/machinist/noderef/cluster"
)

func poolKind() contract.MachinePoolKind {
	return contract.Unstructured(fake.MachinePoolGVK(), contract.MachinePoolV1Beta2())
}

func TestANodeWithoutAMachineIsMarkedAndNeverDeleted(t *testing.T) {
	t.Parallel()
	for name, kinds := range map[string]guard.Kinds{"Cluster API": clusterAPI(), "Gardener": gardener()} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, kinds)
			w.Create(fake.Node("lone", "cloud://zone/i-1"), fake.Node("owned", "cloud://zone/i-2"))
			pool := testenv.Object(poolKind().GVK, "pool")
			pool.Object["spec"] = map[string]any{"providerIDList": []any{"cloud://zone/i-3"}}
			w.Create(pool, fake.Node("listed", "cloud://zone/i-3"), fake.Node("recorded", ""))
			pool.Object["status"] = map[string]any{"nodeRefs": []any{map[string]any{"name": "recorded"}}}
			require.NoError(t, w.Client.Status().Update(t.Context(), pool))
			m := testenv.Object(kinds.Machine.GVK, "m")
			m.Object["spec"] = map[string]any{"providerID": "cloud://zone/i-2"}
			w.Create(m)
			var open error
			collector, err := guard.NewCollector(guard.CollectorOptions{
				Sources: []guard.Source{guard.MachinesOf(w.Client, kinds.Machine)}, OneCluster: true,
				OfNodes: []guard.Source{guard.PoolsOf(w.Client, poolKind())},
				Clock:   clocktesting.NewFakeClock(time.Now().Add(time.Hour)),
				NodesOf: func(types.NamespacedName) (cluster.Workload, error) {
					return cluster.Workload{Client: w.Client}, open
				},
			})
			require.NoError(t, err)
			pass := func() []string {
				r, err := collector.Pass(t.Context())
				require.NoError(t, err)
				return r.Nodes[""]
			}
			marks := func(name string) (all map[string]string) {
				var node corev1.Node
				require.NoError(t, w.Client.Get(t.Context(), client.ObjectKey{Name: name}, &node))
				return node.Annotations
			}
			require.Equal(t, []string{"lone"}, pass())
			require.Equal(t, "1", marks("lone")[safety.UnmanagedNodeAnnotation])
			require.NotContains(t, marks("owned"), safety.UnmanagedNodeAnnotation)
			w.Store.ResetRequests()
			require.Equal(t, []string{"lone"}, pass())
			require.Zero(t, w.Store.CountRequests(func(r fake.Request) bool { return r.IsWrite() }), "it is marked already")
			open = cluster.ErrNotConnected
			require.Empty(t, pass())
			open = nil
			w.Change(m, fake.WithField("cloud://other/i-1", "spec", "providerID")) // in another form
			require.Equal(t, []string{"owned"}, pass())
			require.NotContains(t, marks("lone"), safety.UnmanagedNodeAnnotation)
		})
	}
}

func TestANodeThatWasReplacedMeanwhileIsNotMarked(t *testing.T) {
	t.Parallel()
	w := newWorld(t, clusterAPI())
	w.Create(fake.Node("n", "cloud://1"), testenv.Object(w.kinds.Machine.GVK, "m"))
	replaced := replacing{w.Client, func() {
		require.NoError(t, w.Client.Delete(t.Context(), fake.Node("n", "")))
		w.Create(fake.Node("n", "cloud://2"))
	}}
	collector, err := guard.NewCollector(guard.CollectorOptions{
		Sources: []guard.Source{guard.MachinesOf(w.Client, w.kinds.Machine)},
		Clock:   clocktesting.NewFakeClock(time.Now().Add(time.Hour)),
		NodesOf: func(types.NamespacedName) (cluster.Workload, error) {
			return cluster.Workload{Client: w.Client, APIReader: replaced}, nil
		},
	})
	require.NoError(t, err)
	_, err = collector.Pass(t.Context())
	require.NoError(t, err)
	var node corev1.Node
	require.NoError(t, w.Client.Get(t.Context(), client.ObjectKey{Name: "n"}, &node))
	require.NotContains(t, node.Annotations, safety.UnmanagedNodeAnnotation)
}

// replacing is a reader behind which a Node is replaced after it was read.
type replacing struct {
	client.Reader

	replace func()
}

func (r replacing) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	err := r.Reader.List(ctx, list, options...)
	r.replace()
	return err
}
