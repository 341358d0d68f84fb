//go:build e2e

package e2e_test

import (
	"fmt"
	"slices"
	"time"

	"github.com/machinist-dev/machinist/drain"
	"github.com/machinist-dev/machinist/drain/kubectl"
	"github.com/machinist-dev/machinist/drain/runner"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/examples/lab/rights"
)

// rightsOfADrain drains a Node without a manager, with all that a Runner may have: one pod is evicted, and one that two
// budgets select is deleted.
func (w *world) rightsOfADrain() {
	volumes := func(rule rbacv1.PolicyRule) bool {
		return slices.Contains(rule.Resources, "persistentvolumes") || slices.Contains(rule.Resources, "volumeattachments")
	}
	rules := append(slices.DeleteFunc(runner.PolicyRules(), volumes),
		rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"nodes"}, Verbs: []string{"get"}}) // by Drain
	user, err := rights.Grant(w.t.Context(), w.plane, "rights-of-a-drain", rights.Asked{Cluster: rules})
	require.NoError(w.t, err)
	w.busyNode("drained")
	for _, name := range []string{"first", "second"} {
		require.NoError(w.t, w.client.Create(w.t.Context(), &policyv1.PodDisruptionBudget{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
			Spec: policyv1.PodDisruptionBudgetSpec{
				MinAvailable: new(intstr.FromInt32(0)), Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "guarded",
					"on": "drained"}},
			},
		}))
	}
	_, err = runner.Drain(w.t.Context(), user.Config(), runner.DrainOptions{
		Timeout: time.Minute, Policy: &drain.Policy{DeleteAfter: 5 * time.Second},
	}, "drained")
	require.NoError(w.t, err)
	w.exactly(user, nil)
}

// rightsOfKubectl drains a Node by kubectl's helper.
func (w *world) rightsOfKubectl() {
	const name = "rights-of-kubectl"
	user, err := rights.Grant(w.t.Context(), w.plane, name, rights.Asked{Cluster: kubectl.PolicyRules()})
	require.NoError(w.t, err)
	w.busyNode(name)
	clients, err := kubernetes.NewForConfig(user.Config())
	require.NoError(w.t, err)
	helper, err := kubectl.NewHelper(w.t.Context(), clients, kubectl.HelperOptions{
		Options: kubectl.Options{KubectlOptions: drain.KubectlOptions{Force: true, IgnoreAllDaemonSets: true}}, Timeout: time.Minute,
	})
	require.NoError(w.t, err)
	pods, errs := helper.GetPodsForDeletion(name)
	require.Empty(w.t, errs)
	require.NoError(w.t, helper.DeleteOrEvictPods(pods.Pods()))
	w.exactly(user, nil)
}

// busyNode makes a Node with two pods that can go, and one of a DaemonSet.
func (w *world) busyNode(name string) {
	w.t.Helper()
	labels := map[string]string{"daemons-of": name}
	container := []corev1.Container{{Name: "c", Image: "example.com/app"}}
	daemons := &appsv1.DaemonSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec: appsv1.DaemonSetSpec{Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: labels},
			Spec:       corev1.PodSpec{NodeName: name, Containers: container, NodeSelector: map[string]string{corev1.LabelHostname: name}},
		}},
	}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelHostname: name}}}
	require.NoError(w.t, w.client.Create(w.t.Context(), node))
	require.NoError(w.t, w.client.Create(w.t.Context(), daemons))
	for _, app := range []string{"free", "guarded"} {
		require.NoError(w.t, w.client.Create(w.t.Context(), &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: app + "-" + name, Labels: map[string]string{"app": app, "on": name}},
			Spec:       corev1.PodSpec{NodeName: name, Containers: container},
		}))
	}
	w.eventually("pods on "+name, func() string {
		var pods corev1.PodList
		require.NoError(w.t, w.client.List(w.t.Context(), &pods, client.InNamespace("default"), client.MatchingFields{"spec.nodeName": name}))
		running := 0
		for i := range pods.Items {
			if isAvailable(&pods.Items[i]) {
				running++
			}
		}
		if running != 3 {
			return fmt.Sprintf("%d of 3 run, there are %d", running, len(pods.Items))
		}
		return ""
	})
}
