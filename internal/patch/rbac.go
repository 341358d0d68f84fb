package patch

import (
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/machinist-dev/machinist/contract"
)

// PolicyRules returns the rights that a [Writer] needs for objects of one kind: patch, and patch on the status if it is
// a subresource.
func PolicyRules(resource schema.GroupResource, statusSubresource bool) []rbacv1.PolicyRule {
	rule := rbacv1.PolicyRule{APIGroups: []string{resource.Group}, Resources: []string{resource.Resource}, Verbs: []string{"patch"}}
	if statusSubresource {
		rule.Resources = append(rule.Resources, resource.Resource+"/status")
	}
	return contract.MergePolicyRules([]rbacv1.PolicyRule{rule})
}
