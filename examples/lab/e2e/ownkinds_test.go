//go:build e2e

package e2e_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/machinist-dev/machinist/examples/manager/api"
	"github.com/stretchr/testify/require"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// TestE2EOurOwnCRDsAreInstalledAndServed has the manager install its CRDs, with the rights that it prints, and lead Machines of them
// without Cluster API's kinds, providers and Clusters.
func TestE2EOurOwnCRDsAreInstalledAndServed(t *testing.T) {
	w := newBareWorld(t, shared(t))
	flags := []string{
		"--api-group=machinist.dev", "--install-crds", "--machinesets", "--machinedeployments", "--machinehealthchecks", "--driver=kwok",
	}
	first := w.startManager(flags)
	w.servesOwnKinds()
	workers := w.apply(`
apiVersion: machinist.dev/v1beta2
kind: MachineDeployment
metadata: {name: own-workers, namespace: default}
spec:
  replicas: 2
  selector: {matchLabels: {pool: own}}
  template: {metadata: {labels: {pool: own}}, spec: {version: v1.36.3}}
---
apiVersion: machinist.dev/v1beta2
kind: MachineHealthCheck
metadata: {name: own-check, namespace: default}
spec: {selector: {matchLabels: {pool: own}}}
`)
	w.runningAs(api.Machinist, []string{"status", "phase"}, 2)
	scale := &unstructured.Unstructured{}
	scale.SetGroupVersionKind(autoscalingv1.SchemeGroupVersion.WithKind("Scale"))
	require.NoError(t, w.client.SubResource("scale").Get(t.Context(), workers[0], scale))
	require.Contains(t, fmt.Sprint(scale.Object["status"]), "pool=own", "the HorizontalPodAutoscaler needs it")
	require.NoError(t, unstructured.SetNestedField(scale.Object, int64(3), "spec", "replicas"))
	require.NoError(t, w.client.SubResource("scale").Update(t.Context(), workers[0], client.WithSubResourceBody(scale)))
	w.runningAs(api.Machinist, []string{"status", "phase"}, 3)

	first.stop()
	first.start() // its CRDs are there
	one := w.apply(`
apiVersion: machinist.dev/v1beta2
kind: Machine
metadata: {name: vm1, namespace: default}
spec: {version: v1.36.3}
`)[0]
	w.ready(one)
	shown := w.row(one)
	require.Equal(t, "vm1 True Running v1.36.3", strings.Join([]string{shown["Name"], shown["Ready"], shown["Phase"], shown["Version"]}, " "))
	require.Contains(t, shown["Node Name"], "vm1-")
	require.NoError(t, w.client.Delete(t.Context(), one))
	require.NoError(t, w.client.Delete(t.Context(), workers[1]))
	require.NoError(t, w.client.Delete(t.Context(), workers[0]))
	w.gone(one, workers[0], workers[1])
	require.Empty(t, w.kwokNodes())
	require.Empty(t, w.listed(api.Machinist.Machine().GVK))
}

// servesOwnKinds waits until the API server lists all kinds of machinist.dev with the short names that people type.
func (w *world) servesOwnKinds() {
	w.t.Helper()
	c, err := discovery.NewDiscoveryClientForConfig(w.plane.Config())
	require.NoError(w.t, err)
	w.eventually("the CRDs", func() string {
		list, err := c.ServerResourcesForGroupVersion(api.Machinist.GroupVersion().String())
		if err != nil {
			return err.Error()
		}
		var names []string
		for _, r := range list.APIResources {
			names = append(names, append([]string{r.Name}, r.ShortNames...)...)
		}
		for _, want := range []string{
			"machines", "ma", "machinesets", "ms", "machinesets/scale", "machinedeployments", "md", "machinedeployments/scale",
			"machinepools", "mp", "machinepools/scale", "machinehealthchecks", "mhc", "machinehealthchecks/status", "machineclasses", "mcc",
		} {
			if !slices.Contains(names, want) {
				return want + " is missing among " + strings.Join(names, ", ")
			}
		}
		return ""
	})
}

// row is what kubectl get prints of an object, by column.
func (w *world) row(obj *unstructured.Unstructured) map[string]string {
	w.t.Helper()
	config := rest.CopyConfig(w.plane.Config())
	version := obj.GroupVersionKind().GroupVersion()
	config.GroupVersion, config.APIPath, config.NegotiatedSerializer = &version, "/apis", scheme.Codecs.WithoutConversion()
	c, err := rest.RESTClientFor(config)
	require.NoError(w.t, err)
	raw, err := c.Get().Namespace("default").Resource("machines").Name(obj.GetName()).
		SetHeader("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io").Do(w.t.Context()).Raw()
	require.NoError(w.t, err)
	var table metav1.Table
	require.NoError(w.t, json.Unmarshal(raw, &table))
	require.Len(w.t, table.Rows, 1)
	cells := map[string]string{}
	for i, column := range table.ColumnDefinitions {
		cells[column.Name] = fmt.Sprint(table.Rows[0].Cells[i])
	}
	return cells
}
