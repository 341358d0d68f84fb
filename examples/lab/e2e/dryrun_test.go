//go:build e2e

package e2e_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/examples/lab/cluster"
	"github.com/machinist-dev/machinist/examples/lab/rights"
)

// A manager that acts leads two Machines to Nodes with pods, and ends. Then one of them is deleted, and another one is made.
func TestE2EADryRunStoresNothing(t *testing.T) {
	w := newBareWorld(t, shared(t))
	w.startProviders(worldOptions{})
	acting := w.startManager(nil)
	leaving, staying := w.apply(document("dry-leaves", contract.V1Beta2)), w.apply(document("dry-stays", contract.V1Beta2))
	w.ready(leaving[2])
	w.ready(staying[2])
	pods := w.runWorkload("dry", []string{"dry-leaves", "dry-stays"})
	acting.stop()
	require.NoError(t, w.client.Delete(t.Context(), leaving[2]))
	fresh := w.apply(document("dry-new", contract.V1Beta2))
	before := map[string]string{}
	for _, obj := range []client.Object{leaving[2], staying[2], fresh[2], fresh[0], leaving[0]} {
		before[obj.GetName()+obj.GetObjectKind().GroupVersionKind().Kind] = w.get(obj).GetResourceVersion()
	}
	mark, err := w.plane.Audit().Mark()
	require.NoError(t, err)

	flags := []string{"--dry-run", "--leader-elect", "--leader-election-namespace=default"}
	asked := asksFor(t, managerBinary(t), flags...)
	require.Empty(t, asked.Namespaces, "it takes no Lease")
	user, err := rights.Grant(t.Context(), w.plane, "dry-run", asked)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, user.Close(context.WithoutCancel(t.Context()))) })
	dry := w.startManagerAs(user, managerBinary(t), nil, flags...)
	var made cluster.AuditEvents
	w.eventually("the dry run to try what comes first", func() string {
		all, err := w.plane.Audit().Since(mark)
		require.NoError(t, err)
		made = all.From(managerAgent).Where(func(e cluster.AuditEvent) bool { return e.DryRun })
		for _, name := range []string{"dry-leaves", "dry-new"} {
			if len(made.To("cluster.x-k8s.io", "machines").Where(func(e cluster.AuditEvent) bool { return e.Name == name })) == 0 {
				return "no dry run for Machine " + name
			}
		}
		return ""
	})
	dry.stop()
	all, err := w.plane.Audit().Since(mark)
	require.NoError(t, err)
	for _, e := range all.From(managerAgent) {
		require.False(t, e.IsWrite(), "%+v", e)
	}
	for _, obj := range []client.Object{leaving[2], staying[2], fresh[2], fresh[0], leaving[0]} {
		require.Equal(t, before[obj.GetName()+obj.GetObjectKind().GroupVersionKind().Kind], w.get(obj).GetResourceVersion(), obj.GetName())
	}
	var left corev1.PodList
	require.NoError(t, w.client.List(t.Context(), &left, client.InNamespace("default"), client.MatchingLabels{"app": "dry"}))
	require.Len(t, left.Items, replicas)
	for i := range left.Items {
		require.Nil(t, left.Items[i].DeletionTimestamp, left.Items[i].Name)
	}
	t.Logf("%d writes were dry runs, and none was stored", len(made))

	// The manager that acts goes on as if nothing had been.
	acting.start()
	w.gone(leaving[2])
	w.ready(fresh[2])
	for _, obj := range []client.Object{staying[2], fresh[2], pods.deployment, pods.budget} {
		require.NoError(t, w.client.Delete(t.Context(), obj))
	}
	w.gone(staying[2], fresh[2])
}
