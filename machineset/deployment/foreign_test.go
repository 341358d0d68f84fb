package deployment_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/fake"
	"github.com/machinist-dev/machinist/machineset/deployment"
)

// system is a system whose deployments are rolled out: what a Machine of it is made of, and what is changed in that.
type system struct {
	kinds  contract.Kinds
	spec   map[string]any
	change []string
	// scheme knows the Go types of the kinds; nil means that they are unstructured.
	scheme *runtime.Scheme
}

func systems(t *testing.T) map[string]system {
	t.Helper()
	v1beta1, err := contract.ClusterAPI(contract.V1Beta1)
	require.NoError(t, err)
	typed, scheme := fleets()
	return map[string]system{
		"Go types": {kinds: typed, spec: map[string]any{"size": "small"}, change: []string{"size"}, scheme: scheme},
		"Cluster API v1beta1": {v1beta1, map[string]any{
			"clusterName": "demo", "version": "v1.36.3", "bootstrap": map[string]any{"dataSecretName": "data"},
		}, []string{"version"}, nil},
		"Kubermatic": {contract.Kubermatic(), map[string]any{
			"providerSpec": map[string]any{"value": map[string]any{"cloudProvider": "aws"}}, "versions": map[string]any{"kubelet": "1.36.3"},
		}, []string{"versions", "kubelet"}, nil},
		"Gardener": {contract.Gardener(), map[string]any{
			"class": map[string]any{"kind": "MachineClass", "name": "small"},
		}, []string{"class", "name"}, nil},
	}
}

func TestDeploymentsOfEverySystemRollOutGoBackAndGo(t *testing.T) {
	t.Parallel()
	for name, s := range systems(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorldWith(t, s.kinds, fake.Options{Scheme: s.scheme}, fake.AllLoops())
			w.live().run()
			d := w.deploymentOf(s, 2)
			before, _, _ := unstructured.NestedString(s.spec, s.change...)
			w.made(s, before)
			w.change(d, fake.WithField("other", append([]string{"spec", "template", "spec"}, s.change...)...))
			w.made(s, "other")
			commands := deployment.Commands{Client: w.client, Kinds: s.kinds}
			_, err := commands.Undo(t.Context(), client.ObjectKeyFromObject(d), 0)
			require.NoError(t, err)
			w.made(s, before)
			require.Len(t, w.setsNow(), 2)
			require.NoError(t, w.client.Delete(t.Context(), d))
			w.eventually("all to go", func() string {
				if w.get(d) != nil || len(w.setsNow()) > 0 || len(w.list(s.kinds.Machine.GVK)) > 0 {
					return "something is left"
				}
				return ""
			})
		})
	}
}

// deploymentOf creates a deployment of a system.
func (w *world) deploymentOf(s system, replicas int64) *unstructured.Unstructured {
	w.t.Helper()
	d := object(s.kinds.Deployment.GVK, "workers")
	labels := map[string]any{"pool": "workers"}
	d.Object["spec"] = map[string]any{
		"replicas": replicas, "selector": map[string]any{"matchLabels": labels},
		"template": map[string]any{"metadata": map[string]any{"labels": labels}, "spec": s.spec},
	}
	if _, has := s.spec["clusterName"]; has {
		require.NoError(w.t, unstructured.SetNestedField(d.Object, "demo", "spec", "clusterName"))
	}
	require.NoError(w.t, w.client.Create(w.t.Context(), d))
	return d
}

// made waits until there are two Machines, both made of what was changed last.
func (w *world) made(s system, want string) {
	w.t.Helper()
	w.eventually("two Machines of "+want, func() string {
		got := map[string]int{}
		for _, m := range w.list(s.kinds.Machine.GVK) {
			text, _, _ := unstructured.NestedString(m.Object, append([]string{"spec"}, s.change...)...)
			got[text]++
		}
		if len(got) != 1 || got[want] != 2 {
			return fmt.Sprint(got, w.describeSets())
		}
		return ""
	})
}
