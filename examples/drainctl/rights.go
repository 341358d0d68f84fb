package main

import (
	"context"
	"fmt"
	"io"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/machinist-dev/machinist/contract"
)

func rule(group, resource string, verbs ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{APIGroups: []string{group}, Resources: []string{resource}, Verbs: verbs}
}

// acts are the rights that run needs besides those of plan.
func (o *options) acts() []rbacv1.PolicyRule {
	acts := []rbacv1.PolicyRule{
		rule("", "nodes", "get", "patch"), rule("", "pods", "list", "watch"), rule("", "pods/eviction", "create"),
		rule("policy", "poddisruptionbudgets", "list", "watch"),
	}
	if o.disableEviction || o.deleteAfter > 0 {
		acts = append(acts, rule("", "pods", "delete"))
	}
	return contract.MergePolicyRules(acts)
}

// rights are those of the command; those of run are enough for all.
func (o *options) rights() []rbacv1.PolicyRule {
	nodes := rule("", "nodes", "get", "list")
	reads := []rbacv1.PolicyRule{nodes, rule("", "pods", "list"), rule("policy", "poddisruptionbudgets", "list")}
	switch o.command {
	case commandPlan:
		return contract.MergePolicyRules(reads)
	case commandUncordon:
		return contract.MergePolicyRules([]rbacv1.PolicyRule{nodes, rule("", "nodes", "patch")})
	}
	return contract.MergePolicyRules(reads, o.acts())
}

func printRBAC(out io.Writer, o options) error {
	data, err := yaml.Marshal(&rbacv1.ClusterRole{
		TypeMeta:   metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: "ClusterRole"},
		ObjectMeta: metav1.ObjectMeta{Name: userAgent},
		Rules:      o.rights(),
	})
	if err != nil {
		return fmt.Errorf("print ClusterRole: %w", err)
	}
	_, err = out.Write(data)
	return err
}

// checkRights asks the API server before the first cordon whether it would let the drain through: without the right to evict, a
// Node would be cordoned in vain. A server that does not answer this is tried.
func (s *session) checkRights(ctx context.Context) error {
	var missing []string
	for _, r := range s.acts() {
		for _, name := range r.Resources {
			resource, sub, _ := strings.Cut(name, "/")
			for _, verb := range r.Verbs {
				review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
					ResourceAttributes: &authorizationv1.ResourceAttributes{Group: r.APIGroups[0], Resource: resource, Subresource: sub, Verb: verb},
				}}
				answer, err := s.client.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
				if err != nil {
					return ctx.Err()
				}
				if !answer.Status.Allowed {
					missing = append(missing, verb+" "+strings.TrimSuffix(name+"."+r.APIGroups[0], "."))
				}
			}
		}
	}
	if len(missing) > 0 {
		return fmt.Errorf("rights are missing: %s; nothing was changed; drainctl --print-rbac prints all that are needed",
			strings.Join(missing, "; "))
	}
	return nil
}
