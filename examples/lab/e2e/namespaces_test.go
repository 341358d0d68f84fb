//go:build e2e

package e2e_test

import (
	"context"
	"os"
	"strings"
	"testing"

	"github.com/machinist-dev/machinist/contract"
	workloads "github.com/machinist-dev/machinist/noderef/cluster"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/examples/lab/rights"
)

// Its Machines have Nodes in the clusters of kubeconfig Secrets: it reads those of its namespace, and is told when one appears.
func TestE2EAManagerOfANamespaceReadsKubeconfigsOnlyThere(t *testing.T) {
	w := newBareWorld(t, shared(t))
	w.startProviders(worldOptions{})
	require.NoError(t, w.client.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "abroad"}}))
	theirs := w.apply(strings.ReplaceAll(document("abroad", contract.V1Beta2), "namespace: default", "namespace: abroad"))
	flags := []string{"--leader-elect", "--leader-election-namespace=default", "--leader-election-id", leaseName(t), "--namespace=default",
		"--workload-clusters", "--machine-safety-freeze-all", "--machine-safety-orphan-vms-period=1s"}
	user, err := rights.Grant(t.Context(), w.plane, leaseName(t), asksFor(t, managerBinary(t), flags...))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, user.Close(context.WithoutCancel(t.Context()))) })
	w.startManagerAs(user, managerBinary(t), nil, flags...)
	ours := w.apply(strings.ReplaceAll(document("at-home", contract.V1Beta2), "clusterName: demo", "clusterName: home"))
	w.eventually("a status of at-home without a connection", func() string {
		c, found, err := contract.ConditionsAt("status", "conditions").Find(w.get(ours[2]).Object, contract.ConditionNodeReady)
		require.NoError(t, err)
		if !found || c.Status == metav1.ConditionTrue {
			return describe(w.get(ours[2]))
		}
		return ""
	})
	content, err := os.ReadFile(w.plane.Kubeconfig())
	require.NoError(t, err)
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: "home-kubeconfig", Labels: map[string]string{contract.ClusterNameLabel: "home"},
		},
		Data: map[string][]byte{workloads.KubeconfigKey: content},
	}
	require.NoError(t, w.client.Create(t.Context(), secret))
	w.ready(ours[2])
	report, err := user.Report()
	require.NoError(t, err)
	require.Empty(t, report.Denied)
	for _, obj := range []client.Object{ours[2], theirs[2], theirs[1], theirs[0]} {
		require.NoError(t, w.client.Delete(t.Context(), obj))
	}
	w.gone(ours[2], ours[1], ours[0])
	require.NoError(t, w.client.Delete(t.Context(), secret))
}

// A manager of one namespace makes and deletes a Machine with no more than the Role and the ClusterRole that it prints, and leaves one of
// another namespace alone.
func TestE2EAManagerOfANamespaceHasNoRightsOnMachinesElsewhere(t *testing.T) {
	w := newBareWorld(t, shared(t))
	w.startProviders(worldOptions{})
	require.NoError(t, w.client.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "elsewhere"}}))
	theirs := w.apply(strings.ReplaceAll(document("theirs", contract.V1Beta2), "namespace: default", "namespace: elsewhere"))
	before := w.get(theirs[2]).GetResourceVersion()

	flags := []string{"--leader-elect", "--leader-election-namespace=default", "--leader-election-id", leaseName(t), "--namespace=default"}
	asked := asksFor(t, managerBinary(t), flags...)
	for _, rule := range asked.Cluster {
		require.NotContains(t, rule.APIGroups, "cluster.x-k8s.io", "%v", rule)
	}
	user, err := rights.Grant(t.Context(), w.plane, leaseName(t), asked)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, user.Close(context.WithoutCancel(t.Context()))) })
	w.startManagerAs(user, managerBinary(t), nil, flags...)
	ours := w.apply(document("ours", contract.V1Beta2))
	w.ready(ours[2])
	run := w.runWorkload("web-ours", []string{"ours"})
	require.NoError(t, w.client.Delete(t.Context(), run.budget)) // there is no other Node
	require.NoError(t, w.client.Delete(t.Context(), ours[2]))
	w.gone(ours[2], ours[1], ours[0], &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "ours"}})

	report, err := user.Report()
	require.NoError(t, err)
	require.Empty(t, report.Denied)
	require.Equal(t, before, w.get(theirs[2]).GetResourceVersion(), "it is not touched")
	for _, obj := range []client.Object{run.deployment, theirs[2], theirs[1], theirs[0]} {
		require.NoError(t, w.client.Delete(t.Context(), obj))
	}
}
