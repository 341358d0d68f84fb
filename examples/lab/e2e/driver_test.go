//go:build e2e

package e2e_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/contract/conformance"
	"github.com/machinist-dev/machinist/examples/manager/kwokdriver"
	"github.com/machinist-dev/machinist/fake"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/machinist-dev/machinist/examples/lab/cluster"
	"github.com/machinist-dev/machinist/examples/lab/measure"
)

// kwokMachines is how many Machines run on the driver at once.
const kwokMachines = 50

// TestE2EMachinesRunOnNodesThatADriverMakes runs Machines on Nodes of kwok, with a driver that has the habits of a cloud: as a step of
// Machines, and as an infrastructure provider under Cluster API's CRDs.
func TestE2EMachinesRunOnNodesThatADriverMakes(t *testing.T) {
	habits := []string{
		"--driver=kwok", "--driver-qps=50", "--driver-latency=20ms", "--driver-boot-time=2s", "--driver-hidden-time=500ms",
		"--driver-deletion-time=2s", "--driver-refuse-qps=60", "--driver-lose-every=25",
	}
	for _, as := range []string{"step", "inframachine"} {
		t.Run(as, func(t *testing.T) {
			w := newBareWorld(t, shared(t))
			for document := range strings.SplitSeq(kwokdriver.CRDs(), "\n---\n") {
				crd := &unstructured.Unstructured{}
				require.NoError(t, yaml.Unmarshal([]byte(document), &crd.Object))
				require.NoError(t, cluster.InstallCRDs(t.Context(), w.plane.Config(), crd))
			}
			w.startManager(append(habits, "--driver-as="+as))
			w.runsOnKwok(as)
		})
	}
}

// runsOnKwok creates Machines, waits until they are Ready, and deletes them: one Node for each, and none is left.
func (w *world) runsOnKwok(as string) {
	w.t.Helper()
	secret := &corev1.Secret{Data: map[string][]byte{"value": []byte("boot")}}
	secret.Namespace, secret.Name = "default", "boot-"+as
	require.NoError(w.t, w.client.Create(w.t.Context(), secret))
	gvk := kwokdriver.GVK()
	machines := make([]*unstructured.Unstructured, kwokMachines)
	require.NoError(w.t, measure.InParallel(w.t.Context(), kwokMachines, func(i int) error {
		name := fmt.Sprintf("kwok-%s-%d", as, i)
		infra := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"cpu": "2"}}}
		infra.SetGroupVersionKind(gvk)
		infra.SetNamespace("default")
		infra.SetName(name)
		machines[i] = fake.Machine(name,
			fake.WithField(map[string]any{"dataSecretName": secret.Name}, "spec", "bootstrap"),
			fake.WithField(map[string]any{"apiGroup": gvk.Group, "kind": gvk.Kind, "name": name}, "spec", "infrastructureRef"))
		if as == "step" {
			return w.client.Create(w.t.Context(), machines[i])
		}
		return errors.Join(w.client.Create(w.t.Context(), infra), w.client.Create(w.t.Context(), machines[i]))
	}))
	for _, m := range machines {
		w.ready(m)
		if as == "step" {
			continue
		}
		infra := &unstructured.Unstructured{}
		infra.SetGroupVersionKind(gvk)
		require.NoError(w.t, w.client.Get(w.t.Context(), client.ObjectKeyFromObject(m), infra))
		require.Empty(w.t, conformance.CheckObject(infra, conformance.InfraMachine, contract.V1Beta2).Findings)
	}
	require.Len(w.t, w.kwokNodes(), kwokMachines, "no lost answer made a second Node")
	require.NoError(w.t, measure.InParallel(w.t.Context(), kwokMachines, func(i int) error {
		return w.client.Delete(w.t.Context(), machines[i])
	}))
	for _, m := range machines {
		w.gone(m)
	}
	require.Empty(w.t, w.kwokNodes())
}

// kwokNodes are those that the driver has made.
func (w *world) kwokNodes() []corev1.Node {
	w.t.Helper()
	var nodes corev1.NodeList
	require.NoError(w.t, w.client.List(w.t.Context(), &nodes, client.HasLabels{kwokdriver.TokenLabel}))
	return nodes.Items
}
