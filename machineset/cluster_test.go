package machineset_test

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/fake"
	"github.com/machinist-dev/machinist/internal/engine"
	"github.com/machinist-dev/machinist/internal/external"
	"github.com/machinist-dev/machinist/machineset"
)

// passesWith makes some passes over a set whose Cluster is as it is given.
func (w *world) passesWith(set *unstructured.Unstructured, view external.ClusterView) {
	w.t.Helper()
	r := w.reconciler(func(_ ctrl.Manager, ports *engine.Ports) {
		ports.ClusterOf = func(context.Context, types.NamespacedName) (external.ClusterView, error) { return view, nil }
		ports.ClusterEvents = (&external.Clusters{}).Source
	})
	for range 3 {
		_, err := r.Reconcile(w.t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(set)})
		require.NoError(w.t, err)
	}
}

func TestAClusterOwnsASetThatNoOtherOwnerLeads(t *testing.T) {
	t.Parallel()
	view := external.ClusterView{Presence: external.Present, GVK: fake.ClusterGVK()}
	view.State.Key, view.State.UID = types.NamespacedName{Namespace: "default", Name: "demo"}, "demo-uid"
	apiVersion := fake.ClusterGVK().GroupVersion().String()
	owner := func(apiVersion, kind, name string, uid types.UID) metav1.OwnerReference {
		return metav1.OwnerReference{APIVersion: apiVersion, Kind: kind, Name: name, UID: uid}
	}
	mine := owner(apiVersion, "Cluster", "demo", "demo-uid")
	older := owner(fake.ClusterGVK().Group+"/v1alpha4", "Cluster", "demo", "demo-uid")
	other := owner(apiVersion, "Cluster", "other", "other-uid")
	namesake := owner("example.com/v1", "Cluster", "other", "namesake-uid")
	leads := owner(apiVersion, "MachineDeployment", "workers", "deployment-uid")
	leads.Controller = new(true)
	for name, tc := range map[string]struct {
		have, want []metav1.OwnerReference
		labels     map[string]string
	}{
		"no owner":                       {want: []metav1.OwnerReference{mine}},
		"the Cluster":                    {have: []metav1.OwnerReference{mine}, want: []metav1.OwnerReference{mine}},
		"the Cluster in another version": {have: []metav1.OwnerReference{older}, want: []metav1.OwnerReference{older}},
		"the Cluster before a restore": {have: []metav1.OwnerReference{owner(apiVersion, "Cluster", "demo", "dead")},
			want: []metav1.OwnerReference{mine}},
		"another Cluster":               {have: []metav1.OwnerReference{other}, want: []metav1.OwnerReference{other}},
		"a Cluster of another group":    {have: []metav1.OwnerReference{namesake}, want: []metav1.OwnerReference{namesake, mine}},
		"a controller":                  {have: []metav1.OwnerReference{leads}, want: []metav1.OwnerReference{leads}},
		"a deployment that is to adopt": {labels: map[string]string{contract.DeploymentNameLabel: "workers"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorldWith(t, fake.Options{}, fake.Loops{})
			w.Create(fake.Cluster("demo"))
			set := w.set("workers", 0)
			set.SetOwnerReferences(tc.have)
			set.SetLabels(tc.labels)
			w.Create(set)
			w.passesWith(set, view)
			require.Contains(t, w.Get(set).GetFinalizers(), machineset.Finalizer)
			if diff := cmp.Diff(tc.want, w.Get(set).GetOwnerReferences()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// Of a set that was led before, the Cluster may just have let go: the cache may show it for a while.
func TestASetThatIsLedIsOwnedOnlyByAClusterThatStays(t *testing.T) {
	t.Parallel()
	for name, stays := range map[string]bool{"it stays": true, "it is gone": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorldWith(t, fake.Options{}, fake.Loops{})
			cluster := fake.Cluster("demo")
			w.Create(cluster)
			view := external.ClusterView{Presence: external.Present, GVK: fake.ClusterGVK()}
			view.State.Key, view.State.UID = client.ObjectKeyFromObject(cluster), cluster.GetUID()
			if !stays {
				require.NoError(t, w.Client.Delete(t.Context(), cluster))
			}
			set := w.set("workers", 0)
			set.SetFinalizers([]string{machineset.Finalizer})
			w.Create(set)
			w.passesWith(set, view)
			owned := len(w.Get(set).GetOwnerReferences()) > 0
			require.Equal(t, stays, owned)
		})
	}
}

func TestATemplateThatGoesBeforeItIsOwnedIsNoError(t *testing.T) {
	t.Parallel()
	w := newWorld(t, fake.Options{})
	cluster := fake.Cluster("demo")
	w.Create(cluster)
	set := w.set("workers", 0)
	w.Create(set)
	tried := 0
	r := w.reconciler(func(_ ctrl.Manager, ports *engine.Ports) {
		ports.ClusterOf = func(context.Context, types.NamespacedName) (external.ClusterView, error) {
			view := external.ClusterView{Presence: external.Present, GVK: fake.ClusterGVK()}
			view.State.Key, view.State.UID = client.ObjectKeyFromObject(cluster), cluster.GetUID()
			return view, nil
		}
		ports.ClusterEvents = (&external.Clusters{}).Source
		ports.Client = interceptor.NewClient(w.Client, interceptor.Funcs{
			Patch: func(ctx context.Context, c client.WithWatch, obj client.Object, p client.Patch, o ...client.PatchOption) error {
				if obj.GetObjectKind().GroupVersionKind() != templateOf(infraGVK()) {
					return c.Patch(ctx, obj, p, o...)
				}
				tried++
				return apierrors.NewNotFound(schema.GroupResource{Resource: "templates"}, obj.GetName())
			},
		})
	})
	w.until("try to own the template", func() bool {
		_, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(set)})
		require.NoError(t, err)
		return tried != 0
	})
}
