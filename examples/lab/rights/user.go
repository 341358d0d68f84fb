package rights

import (
	"context"
	"errors"
	"fmt"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/machinist-dev/machinist/examples/lab/cluster"
)

// granting is how long the API server may take to notice new roles; it needs milliseconds.
const (
	granting    = 30 * time.Second
	grantingGap = 20 * time.Millisecond
)

// User is a user with exactly the declared rights.
type User struct {
	name   string
	asked  Asked
	audit  *cluster.Audit
	mark   cluster.AuditMark
	config *rest.Config
	admin  kubernetes.Interface
}

// Grant makes a user of a control plane with exactly the rights of asked: a ClusterRole, a Role in each namespace, and their bindings,
// all of the user's name, which must be free. It returns when the API server knows of them. Close takes them away again; they
// also go with the control plane.
func Grant(ctx context.Context, plane *cluster.ControlPlane, name string, asked Asked) (*User, error) {
	fail := func(err error) (*User, error) { return nil, fmt.Errorf("grant rights to %s: %w", name, err) }
	config, err := plane.ConfigFor(name)
	if err != nil {
		return fail(err)
	}
	admin, err := kubernetes.NewForConfig(plane.Config())
	if err != nil {
		return fail(err)
	}
	u := &User{name: name, asked: asked, audit: plane.Audit(), config: config, admin: admin}
	if err := u.create(ctx); err != nil {
		return fail(err)
	}
	if u.mark, err = u.audit.Mark(); err != nil {
		return fail(err)
	}
	return u, nil
}

// Config returns a client configuration of the user, without client-side limits. Every call returns a new copy.
func (u *User) Config() *rest.Config { return rest.CopyConfig(u.config) }

// Report judges what the user has sent since Grant. Requests that are under way are not in it: end the program first.
func (u *User) Report() (Report, error) {
	events, err := u.audit.Since(u.mark)
	if err != nil {
		return Report{}, fmt.Errorf("report on the rights of %s: %w", u.name, err)
	}
	return Judge(u.asked, events.Where(func(e cluster.AuditEvent) bool { return e.User == u.name })), nil
}

// Close takes all rights away.
func (u *User) Close(ctx context.Context) error {
	api := u.admin.RbacV1()
	errs := []error{
		api.ClusterRoleBindings().Delete(ctx, u.name, metav1.DeleteOptions{}),
		api.ClusterRoles().Delete(ctx, u.name, metav1.DeleteOptions{}),
	}
	for namespace := range u.asked.Namespaces {
		errs = append(errs, api.RoleBindings(namespace).Delete(ctx, u.name, metav1.DeleteOptions{}),
			api.Roles(namespace).Delete(ctx, u.name, metav1.DeleteOptions{}))
	}
	return errors.Join(errs...)
}

func (u *User) create(ctx context.Context) error {
	api, meta := u.admin.RbacV1(), metav1.ObjectMeta{Name: u.name}
	subjects := []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: u.name}}
	ref := func(kind string) rbacv1.RoleRef {
		return rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: kind, Name: u.name}
	}
	_, err := api.ClusterRoles().Create(ctx, &rbacv1.ClusterRole{ObjectMeta: meta, Rules: u.asked.Cluster}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	binding := &rbacv1.ClusterRoleBinding{ObjectMeta: meta, RoleRef: ref("ClusterRole"), Subjects: subjects}
	if _, err := api.ClusterRoleBindings().Create(ctx, binding, metav1.CreateOptions{}); err != nil {
		return err
	}
	for namespace, rules := range u.asked.Namespaces {
		if _, err := api.Roles(namespace).Create(ctx, &rbacv1.Role{ObjectMeta: meta, Rules: rules}, metav1.CreateOptions{}); err != nil {
			return err
		}
		binding := &rbacv1.RoleBinding{ObjectMeta: meta, RoleRef: ref("Role"), Subjects: subjects}
		if _, err := api.RoleBindings(namespace).Create(ctx, binding, metav1.CreateOptions{}); err != nil {
			return err
		}
	}
	return u.awaited(ctx)
}

// awaited asks for every right until the API server grants it.
func (u *User) awaited(ctx context.Context) error {
	for _, r := range u.asked.rights() {
		review := &authorizationv1.SubjectAccessReview{Spec: r.review(u.name)}
		err := wait.PollUntilContextTimeout(ctx, grantingGap, granting, true, func(ctx context.Context) (bool, error) {
			answer, err := u.admin.AuthorizationV1().SubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
			return err == nil && answer.Status.Allowed, err
		})
		if err != nil {
			return fmt.Errorf("the API server does not know of the right to %s: %w", r, err)
		}
	}
	return nil
}

func (r right) review(user string) authorizationv1.SubjectAccessReviewSpec {
	if r.url != "" {
		return authorizationv1.SubjectAccessReviewSpec{
			User: user, NonResourceAttributes: &authorizationv1.NonResourceAttributes{Path: r.url, Verb: r.verb},
		}
	}
	return authorizationv1.SubjectAccessReviewSpec{User: user, ResourceAttributes: &authorizationv1.ResourceAttributes{
		Verb: r.verb, Group: r.group, Resource: r.plain(), Subresource: r.sub(), Name: r.name, Namespace: r.namespace,
	}}
}
