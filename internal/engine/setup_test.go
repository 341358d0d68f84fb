package engine_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/internal/engine"
)

func TestRules(t *testing.T) {
	t.Run("a Tracker reads its kinds and their definitions", func(t *testing.T) {
		require.Empty(t, engine.ReadRules(), "it reads nothing")
		read := func(group, resource string) rbacv1.PolicyRule {
			return rbacv1.PolicyRule{APIGroups: []string{group}, Resources: []string{resource}, Verbs: []string{"list", "watch"}}
		}
		require.Empty(t, cmp.Diff(
			[]rbacv1.PolicyRule{read("apiextensions.k8s.io", "customresourcedefinitions"), read("example.com", "servers"), read("example.org", "*")},
			contract.MergePolicyRules(engine.ReadRules(schema.GroupResource{Group: "example.org", Resource: "*"},
				schema.GroupResource{Group: "example.com", Resource: "servers"}))))
	})
	t.Run("the status is patched only if it is a subresource", func(t *testing.T) {
		gr := schema.GroupResource{Group: "cluster.x-k8s.io", Resource: "machines"}
		require.Equal(t, []string{"machines", "machines/status"}, engine.PatchRules(gr, true)[0].Resources)
		require.Equal(t, []string{"machines"}, engine.PatchRules(gr, false)[0].Resources)
		require.Equal(t, []string{"patch"}, engine.PatchRules(gr, true)[0].Verbs)
	})
}
