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

	"github.com/machinist-dev/machinist/fake"
	"github.com/machinist-dev/machinist/internal/engine"
	"github.com/machinist-dev/machinist/internal/external"
)

func TestATemplateThatGoesBeforeItIsOwnedIsNoError(t *testing.T) {
	t.Parallel()
	w := newWorld(t, fake0())
	cluster := fake.Cluster("demo")
	w.create(cluster)
	set := w.set("workers", 0)
	w.create(set)
	tried := 0
	r := w.reconciler(func(_ ctrl.Manager, ports *engine.Ports) {
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
