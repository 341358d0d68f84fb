package runner_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/machinist-dev/machinist/drain/runner"
)

func TestRightsFollowFromWhatARunnerIsMadeWith(t *testing.T) {
	t.Parallel()
	rule := func(group string, resources []string, verbs ...string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{APIGroups: []string{group}, Resources: resources, Verbs: verbs}
	}
	for name, c := range map[string]struct {
		wiring runner.Wiring
		want   []rbacv1.PolicyRule
	}{
		"evictions": {want: []rbacv1.PolicyRule{
			rule("", []string{"nodes"}, "patch"), rule("", []string{"pods"}, "list", "watch"), rule("", []string{"pods/eviction"}, "create"),
		}},
		"a program without a manager": {runner.Wiring{Budgets: true, Deleter: true}, []rbacv1.PolicyRule{
			rule("", []string{"nodes"}, "patch"), rule("", []string{"pods"}, "delete", "list", "watch"),
			rule("", []string{"pods/eviction"}, "create"), rule("policy", []string{"poddisruptionbudgets"}, "list", "watch"),
		}},
		"volumes": {runner.Wiring{Volumes: true}, []rbacv1.PolicyRule{
			rule("", []string{"nodes"}, "patch"), rule("", []string{"persistentvolumes", "pods"}, "list", "watch"),
			rule("", []string{"pods/eviction"}, "create"),
			rule("storage.k8s.io", []string{"volumeattachments"}, "list", "watch"),
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Empty(t, cmp.Diff(c.want, runner.PolicyRules(c.wiring)))
		})
	}
}
