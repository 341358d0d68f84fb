package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

// right is what a command may do with a resource everywhere.
type right struct {
	group, resource string // resource may have a subresource, as in pods/eviction
	verbs           []string
}

func (r right) String() string {
	return strings.TrimSuffix(strings.Join(r.verbs, ", ")+" "+r.resource+"."+r.group, ".")
}

// reads are the rights of plan, and the first ones of run.
func reads() []right {
	return []right{
		{"", "nodes", []string{"get", "list"}},
		{"", "pods", []string{"list"}},
		{"policy", "poddisruptionbudgets", []string{"list"}},
		{"apps", "daemonsets", []string{"list"}},
	}
}

// acts are the rights that run needs besides. The plan has not tried them out.
func (o *options) acts() []right {
	rights := []right{
		{"", "nodes", []string{"patch"}},
		{"", "pods/eviction", []string{"create"}},
		{"", "pods", []string{"watch"}},
		{"policy", "poddisruptionbudgets", []string{"watch"}},
	}
	if o.disableEviction || o.deleteAfter > 0 {
		rights = append(rights, right{"", "pods", []string{"delete"}})
	}
	if o.waitVolumes {
		rights = append(rights, right{"storage.k8s.io", "volumeattachments", []string{"list", "watch"}},
			right{"", "persistentvolumes", []string{"list", "watch"}})
	}
	return rights
}

// rights are those of the command; those of run are enough for all.
func (o *options) rights() []right {
	switch o.command {
	case commandPlan:
		return reads()
	case commandUncordon:
		return []right{{"", "nodes", []string{"get", "list", "patch"}}}
	default:
		return append(reads(), o.acts()...)
	}
}

// clusterRole has a rule per resource, with its verbs in the order in which they are needed.
func (o *options) clusterRole() *rbacv1.ClusterRole {
	role := &rbacv1.ClusterRole{
		TypeMeta:   metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: "ClusterRole"},
		ObjectMeta: metav1.ObjectMeta{Name: userAgent},
	}
	for _, r := range o.rights() {
		at := slices.IndexFunc(role.Rules, func(p rbacv1.PolicyRule) bool {
			return p.APIGroups[0] == r.group && p.Resources[0] == r.resource
		})
		if at < 0 {
			role.Rules = append(role.Rules,
				rbacv1.PolicyRule{APIGroups: []string{r.group}, Resources: []string{r.resource}, Verbs: slices.Clone(r.verbs)})
			continue
		}
		role.Rules[at].Verbs = append(role.Rules[at].Verbs, r.verbs...)
	}
	return role
}

func printRBAC(out io.Writer, o options) error {
	data, err := yaml.Marshal(o.clusterRole())
	if err != nil {
		return fmt.Errorf("print ClusterRole: %w", err)
	}
	_, err = out.Write(data)
	return err
}

// checkRights asks the API server before the first cordon whether it would let the drain through: without the right to evict, a
// Node would be cordoned in vain. A server that does not say is tried.
func (s *session) checkRights(ctx context.Context) error {
	var missing []string
	for _, r := range s.acts() {
		for _, verb := range r.verbs {
			resource, sub, _ := strings.Cut(r.resource, "/")
			review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
				ResourceAttributes: &authorizationv1.ResourceAttributes{Group: r.group, Resource: resource, Subresource: sub, Verb: verb},
			}}
			answer, err := s.client.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
			if err != nil {
				return ctx.Err()
			}
			if !answer.Status.Allowed {
				missing = append(missing, right{r.group, r.resource, []string{verb}}.String())
			}
		}
	}
	if len(missing) > 0 {
		return fmt.Errorf("rights are missing: %s; nothing was changed; drainctl --print-rbac prints all that are needed",
			strings.Join(missing, "; "))
	}
	return nil
}
