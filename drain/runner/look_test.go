package runner_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/drain"
	"github.com/machinist-dev/machinist/drain/runner"
	"github.com/machinist-dev/machinist/fake"
)

// shop is a store with two Pods on each of so many Nodes, a Pod without a Node, and a budget in another Namespace than that of the Pods.
func shop(t *testing.T, nodes int) (*fake.Store, []string) {
	t.Helper()
	store := fake.NewStore(fake.Options{})
	all := []client.Object{bound("", "unbound"), &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "web"},
		Spec:       policyv1.PodDisruptionBudgetSpec{MaxUnavailable: new(intstr.FromInt32(0)), Selector: &metav1.LabelSelector{}},
	}}
	var names []string
	for n := range nodes {
		names = append(names, fmt.Sprintf("n%d", nodes-n))
		all = append(all, bound(names[n], fmt.Sprintf("a%d", n)), bound(names[n], fmt.Sprintf("b%d", n)))
	}
	for _, obj := range all {
		require.NoError(t, store.Client().Create(t.Context(), obj))
	}
	store.ResetRequests()
	return store, names
}

func TestLook(t *testing.T) {
	for _, c := range []struct{ nodes, lists int }{{0, 1}, {2, 3}, {9, 10}} {
		store, names := shop(t, c.nodes)
		pods, facts, err := runner.Look(t.Context(), store.Client(), names...)
		require.NoError(t, err)
		require.Len(t, pods, c.nodes)
		for i, of := range pods {
			require.Equal(t, names[i], of.Node)
			require.Len(t, of.Pods, 2)
			require.Equal(t, []string{fmt.Sprintf("a%d", i), fmt.Sprintf("b%d", i)}, []string{of.Pods[0].Name, of.Pods[1].Name})
		}
		require.Len(t, facts.Budgets, 1)
		require.Equal(t, c.lists, store.CountRequests(func(fake.Request) bool { return true }), "%d nodes", c.nodes)
		require.Len(t, drain.Planner{}.Plan(pods, facts).Decisions, 2*c.nodes)
	}
	store, _ := shop(t, 1)
	pods, facts, err := runner.Look(t.Context(), store.Client(), "n7")
	require.NoError(t, err)
	require.Equal(t, []drain.NodePods{{Node: "n7", Pods: []*corev1.Pod{}}}, pods)
	require.True(t, drain.Planner{}.Plan(pods, facts).Done(), "nothing is on the Node")
}

// A plan from a part of the Pods would say that a drain is done.
func TestLookFails(t *testing.T) {
	refused := errors.New("out of order")
	for kind, want := range map[string]string{"Pod": "list pods of node n1: ", "PodDisruptionBudget": "list poddisruptionbudgets: "} {
		store, names := shop(t, 1)
		store.FailNext(func(r fake.Request) bool { return r.GVK.Kind == kind }, refused)
		pods, _, err := runner.Look(t.Context(), store.Client(), names...)
		require.ErrorIs(t, err, refused)
		require.ErrorContains(t, err, want)
		require.Nil(t, pods)
	}
}

func TestPolicyRules(t *testing.T) {
	rule := func(group string, resources []string, verbs ...string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{APIGroups: []string{group}, Resources: resources, Verbs: verbs}
	}
	require.Equal(t, []rbacv1.PolicyRule{
		rule("", []string{"nodes"}, "patch"), rule("", []string{"persistentvolumes"}, "list", "watch"),
		rule("", []string{"pods"}, "delete", "list", "watch"), rule("", []string{"pods/eviction"}, "create"),
		rule("policy", []string{"poddisruptionbudgets"}, "list", "watch"),
		rule("storage.k8s.io", []string{"volumeattachments"}, "list", "watch"),
	}, runner.PolicyRules())
}
