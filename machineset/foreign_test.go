package machineset_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/fake"
	"github.com/machinist-dev/machinist/machineset"
	"github.com/machinist-dev/machinist/machineset/scale"
)

// system is a system whose sets are kept: its kinds, what a set of it says beside replicas and a selector, and how one of its Machines is
// marked to go first.
type system struct {
	kinds            contract.Kinds
	scheme           *runtime.Scheme
	template         map[string]any
	mark, markedWith string
}

func systems(t *testing.T) map[string]system {
	t.Helper()
	v1beta1, err := contract.ClusterAPI(contract.V1Beta1)
	require.NoError(t, err)
	clusterAPI := map[string]any{"version": "v1.36.3", "bootstrap": map[string]any{"dataSecretName": "data"}}
	typed, scheme := racks()
	return map[string]system{
		"Cluster API v1beta1": {kinds: v1beta1,
			template: clusterAPI, mark: scale.DeleteAnnotation},
		"Cluster API v1beta2": {kinds: kindsOf(t),
			template: clusterAPI, mark: scale.DeleteAnnotation},
		"Kubermatic": {kinds: contract.Kubermatic(), mark: scale.DeleteAnnotation, markedWith: "yes", template: map[string]any{
			"providerSpec": map[string]any{"value": map[string]any{"cloudProvider": "aws"}}, "versions": map[string]any{"kubelet": "1.36.3"}}},
		"Kubermatic with an autoscaler of its group": {kinds: contract.Kubermatic(), mark: "cluster.k8s.io/delete-machine", markedWith: "now",
			template: map[string]any{"versions": map[string]any{"kubelet": "1.36.3"}}},
		"Gardener": {kinds: contract.Gardener(), mark: scale.PriorityAnnotation, markedWith: "1", template: map[string]any{
			"class": map[string]any{"kind": "MachineClass", "name": "small"}}},
		"Go types": {kinds: typed, scheme: scheme, mark: scale.DeleteAnnotation, template: map[string]any{"size": "small"}},
	}
}

func TestSetsOfEverySystemGrowShrinkByMarkAndGo(t *testing.T) {
	t.Parallel()
	for name, s := range systems(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := worldOf(t, s.kinds)
			mgr := w.Manager("lives", ctrl.Options{Scheme: s.scheme})
			require.NoError(t, fake.NewMachines(mgr.GetClient(), s.kinds.Machine).SetupWithManager(mgr))
			w.start(mgr)
			w.runWith(ctrl.Options{Scheme: s.scheme}, machineset.Options{})
			set := object(s.kinds.Set.GVK, "workers")
			labels := map[string]any{"pool": "workers"}
			set.Object["spec"] = map[string]any{"replicas": int64(2), "selector": map[string]any{"matchLabels": labels},
				"template": map[string]any{"metadata": map[string]any{"labels": labels}, "spec": s.template}}
			w.create(set)
			w.counts(set, 2)
			w.scale(set, 4)
			w.counts(set, 4)
			machines := w.machines()
			for i := range machines {
				for member, want := range s.template {
					require.Equal(t, want, machines[i].Object["spec"].(map[string]any)[member])
				}
			}
			marked := machines[2]
			w.change(&marked, func(u *unstructured.Unstructured) {
				u.SetAnnotations(withKey(u.GetAnnotations(), s.mark, s.markedWith))
			})
			w.scale(set, 3)
			w.counts(set, 3)
			require.Nil(t, w.get(&marked), "the marked one goes")
			require.NoError(t, w.client.Delete(t.Context(), set))
			w.eventually("all to go", func() string {
				if n := len(w.machines()); n > 0 || w.get(set) != nil {
					return fmt.Sprintf("%d Machines are left; %s", n, w.describe(set))
				}
				return ""
			})
		})
	}
}

// counts waits until a set has so many Machines and its status says so.
func (w *world) counts(set *unstructured.Unstructured, n int) {
	w.t.Helper()
	w.eventually(fmt.Sprintf("have %d Machines", n), func() string {
		replicas, _, _ := unstructured.NestedInt64(w.get(set).Object, "status", "replicas")
		ready, _, _ := unstructured.NestedInt64(w.get(set).Object, "status", "readyReplicas")
		if got := len(w.machines()); got != n || replicas != int64(n) || ready != int64(n) {
			return fmt.Sprintf("there are %d; %s", got, w.describe(set))
		}
		return ""
	})
}
