package external

import (
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/machinist-dev/machinist/contract"
)

// PolicyRules returns the rights that a [Tracker] needs for objects of these resources, and to read their
// CustomResourceDefinitions: list and watch. "*" as a resource means all resources of its group. Without any resource
// it returns no rules. [ConfirmAbsent] needs get on the resource.
func PolicyRules(resources ...schema.GroupResource) []rbacv1.PolicyRule {
	if len(resources) == 0 {
		return nil
	}
	read := []string{"list", "watch"}
	rules := []rbacv1.PolicyRule{{APIGroups: []string{CRDGVK().Group}, Resources: []string{"customresourcedefinitions"}, Verbs: read}}
	for _, r := range resources {
		rules = append(rules, rbacv1.PolicyRule{APIGroups: []string{r.Group}, Resources: []string{r.Resource}, Verbs: read})
	}
	return contract.MergePolicyRules(rules)
}

// ClusterPolicyRules returns the rights that [Clusters] needs: list and watch, and get to confirm that a Cluster which
// is not in the cache does not exist.
func ClusterPolicyRules() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{{
		APIGroups: []string{"cluster.x-k8s.io"}, Resources: []string{"clusters"}, Verbs: []string{"get", "list", "watch"},
	}}
}
