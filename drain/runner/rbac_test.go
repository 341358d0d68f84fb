package runner_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/machinist-dev/machinist/drain/runner"
)

func TestRightsAreThoseOfARunnerOfACluster(t *testing.T) {
	t.Parallel()
	rule := func(group string, resources []string, verbs ...string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{APIGroups: []string{group}, Resources: resources, Verbs: verbs}
	}
	require.Empty(t, cmp.Diff([]rbacv1.PolicyRule{
		rule("", []string{"nodes"}, "patch"), rule("", []string{"persistentvolumes"}, "list", "watch"),
		rule("", []string{"pods"}, "delete", "list", "watch"), rule("", []string{"pods/eviction"}, "create"),
		rule("policy", []string{"poddisruptionbudgets"}, "list", "watch"),
		rule("storage.k8s.io", []string{"volumeattachments"}, "list", "watch"),
	}, runner.PolicyRules()))
}
