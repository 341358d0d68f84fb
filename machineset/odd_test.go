package machineset_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/fake"
	"github.com/machinist-dev/machinist/internal/external"
	"github.com/machinist-dev/machinist/machineset"
)

// forgetful is a Maker that leaves out what a seed says.
type forgetful struct{ contract.MachineMaker }

func (f forgetful) NewMachine(set contract.Object, seed contract.MachineSeed) (contract.Object, error) {
	seed.Annotations = nil
	return f.MachineMaker.NewMachine(set, seed)
}

func TestAMakerThatLeavesTheSeedOutIsAnErrorAndNoPanic(t *testing.T) {
	t.Parallel()
	w := newWorld(t, fake0())
	w.kinds.Maker = forgetful{w.kinds.Maker}
	set := w.set("workers", 1)
	w.create(set)
	w.fails(w.reconciler(func(ctrl.Manager, *machineset.Ports) {}), set, "without the annotations of its seed")
	require.Empty(t, w.machines())
}

func TestATemplateThatGoesBeforeItIsOwnedIsNoError(t *testing.T) {
	t.Parallel()
	w := newWorld(t, fake0())
	cluster := fake.Cluster("demo")
	w.create(cluster)
	set := w.set("workers", 0)
	w.create(set)
	tried := 0
	r := w.reconciler(func(_ ctrl.Manager, ports *machineset.Ports) {
		ports.ClusterOf = func(context.Context, types.NamespacedName) (external.ClusterView, error) {
			view := external.ClusterView{Presence: external.Present, GVK: fake.ClusterGVK()}
			view.State.Key, view.State.UID = client.ObjectKeyFromObject(cluster), cluster.GetUID()
			return view, nil
		}
		ports.ClusterEvents = (&external.Clusters{}).Source
		ports.Client = interceptor.NewClient(w.client, interceptor.Funcs{
			Patch: func(ctx context.Context, c client.WithWatch, obj client.Object, p client.Patch, o ...client.PatchOption) error {
				if obj.GetObjectKind().GroupVersionKind() != templateOf(infraGVK()) {
					return c.Patch(ctx, obj, p, o...)
				}
				tried++
				return apierrors.NewNotFound(schema.GroupResource{Resource: "templates"}, obj.GetName())
			},
		})
	})
	w.eventually("try to own the template", func() string {
		_, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(set)})
		require.NoError(t, err)
		if tried == 0 {
			return "it has yet to be read"
		}
		return ""
	})
}
