package machine_test

import (
	"context"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/fake"
	"github.com/machinist-dev/machinist/machine"
)

// deletions is a client that keeps by which UIDs objects are deleted.
type deletions struct {
	client.Client

	mu sync.Mutex
	by map[string]types.UID
}

func (d *deletions) Delete(ctx context.Context, obj client.Object, o ...client.DeleteOption) error {
	gvk, err := d.GroupVersionKindFor(obj)
	if err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.by[gvk.Kind] = ""
	if only := (&client.DeleteOptions{}).ApplyOptions(o).Preconditions; only != nil && only.UID != nil {
		d.by[gvk.Kind] = *only.UID
	}
	return d.Client.Delete(ctx, obj, o...)
}

func TestDeletionUIDs(t *testing.T) {
	t.Parallel()
	t.Run("a Machine deletes the objects that it has read, and none that has their names since", func(t *testing.T) {
		t.Parallel()
		d := &deletions{by: map[string]types.UID{}}
		w := newWorld(t, worldOptions{ports: func(_ ctrl.Manager, p *machine.Ports) {
			d.Client = p.Client
			p.Client, p.Workload.Client = d, d
		}})
		m := w.machineWith("m")
		w.conditionIs(m, contract.ConditionReady, contract.ReasonReady)
		want := map[string]types.UID{"Node": w.node(nodeNameOf(w.get(m))).GetUID()}
		for _, u := range []*unstructured.Unstructured{fake.InfraMachine(contract.V1Beta2, "m"), fake.BootstrapConfig(contract.V1Beta2, "m")} {
			want[u.GetKind()] = w.get(u).GetUID()
		}
		require.NoError(t, w.client.Delete(t.Context(), m))
		w.goes(m)
		d.mu.Lock()
		defer d.mu.Unlock()
		require.Equal(t, want, d.by)
	})
}
