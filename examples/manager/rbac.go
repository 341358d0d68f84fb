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
	"k8s.io/apimachinery/pkg/runtime/schema"
	authorization "k8s.io/client-go/kubernetes/typed/authorization/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/yaml"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/examples/manager/api"
	"github.com/machinist-dev/machinist/machine"
	"github.com/machinist-dev/machinist/machinepool"
	"github.com/machinist-dev/machinist/noderef/cluster"
)

// wiring returns the reconciler's configuration by the flags. It assumes that all kinds are served.
func (o settings) wiring() machine.Wiring {
	w := machine.Wiring{
		Kind: o.Kinds.Group.Machine(), Resource: machineResource,
		References: o.references(), DrainRules: true, Drains: true, Events: true,
		Deployments:             []schema.GroupResource{o.ours(deploymentResource)},
		OwnerReferencesEnforced: o.Printing.OwnersEnforced,
	}
	if o.followsClusters() {
		w.Clusters, w.ControlPlanes = true, o.Printing.ControlPlaneResources
	}
	return w
}

// refersTo reports whether Machines use objects of a provider's group that they refer to. With a driver as a step the steps for
// infrastructure objects are gone, and for kinds that are not Cluster API's those for bootstrap configurations too. Rule: the groups of
// infrastructure providers begin with infrastructure, as that of Cluster API's.
func (o settings) refersTo(group string) bool {
	switch {
	case o.Kinds.Group.IsForeign(): // their Machines refer to none
		return false
	case !o.Driver.IsStep():
		return true
	}
	return o.Kinds.Group.IsClusterAPI() && !strings.HasPrefix(group, "infrastructure.")
}

// references are the kinds of objects that Machines and templates refer to.
func (o settings) references() []schema.GroupResource {
	return slices.DeleteFunc(slices.Clone(o.Printing.ProviderResources), func(r schema.GroupResource) bool { return !o.refersTo(r.Group) })
}

// poolWiring is the configuration for pools. In the clusters of the Nodes, pools need no more rights than Machines.
func (o settings) poolWiring() machinepool.Wiring {
	return machinepool.Wiring{
		Kinds: poolKinds(o), References: o.Printing.ProviderResources,
		Clusters: o.followsClusters(), Drains: true, Events: true, OwnerReferencesEnforced: o.Printing.OwnersEnforced,
	}
}

func (o settings) ours(resource string) schema.GroupResource {
	return o.Kinds.Group.GroupVersion().WithResource(resource).GroupResource()
}

// nodeClusterRole has the rights of the kubeconfigs' users in the workload clusters.
func nodeClusterRole(o settings) *rbacv1.ClusterRole {
	return newClusterRole(userAgent+"-nodes", machine.NodePolicyRules(o.wiring()), cluster.ConnectionPolicyRules())
}

func newClusterRole(name string, rules ...[]rbacv1.PolicyRule) *rbacv1.ClusterRole {
	return &rbacv1.ClusterRole{
		TypeMeta:   metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: "ClusterRole"},
		ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: contract.MergePolicyRules(rules...),
	}
}

// leaderRole has the rights for leader election: on one Lease, in its namespace. RBAC cannot restrict a create by name.
func leaderRole(o settings) *rbacv1.Role {
	return &rbacv1.Role{
		TypeMeta:   metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: "Role"},
		ObjectMeta: metav1.ObjectMeta{Namespace: o.LeaderElection.Namespace, Name: userAgent + "-leader-election"},
		Rules: contract.MergePolicyRules([]rbacv1.PolicyRule{
			{APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"}, Verbs: []string{"create"}},
			{APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"}, Verbs: []string{"get", "update"},
				ResourceNames: []string{o.LeaderElection.Lease()}},
			{APIGroups: []string{""}, Resources: []string{"events"}, Verbs: []string{"create"}},
		}),
	}
}

// printRBAC prints the rights for the other flags, as YAML documents to apply.
func printRBAC(out io.Writer, o settings) error {
	documents := []any{clusterRole(o)}
	for _, role := range namespaceRoles(o) {
		documents = append(documents, role)
	}
	if role := credentialsRole(o); role != nil {
		documents = append(documents, role)
	}
	if o.LeaderElection.Enabled {
		documents = append(documents, leaderRole(o))
	}
	if o.Printing.NodeRBAC {
		documents = []any{nodeClusterRole(o)}
	}
	for i, document := range documents {
		data, err := yaml.Marshal(document)
		if err != nil {
			return fmt.Errorf("print RBAC: %w", err)
		}
		if i > 0 {
			data = append([]byte("---\n"), data...)
		}
		if _, err := out.Write(data); err != nil {
			return err
		}
	}
	return nil
}

// reviewers limits how many rights are checked at once.
const reviewers = 8

// shownRights limits how many resources an error names.
const shownRights = 8

// checkRights asks the API server for every right that --print-rbac prints, so that a manager without them ends with a
// clear error instead of retrying forever. It takes lookTimeout at most. If a right cannot be checked, or is for all
// resources of a group, it is not required, because rights on some of them are enough. served reports which resources of
// Cluster API, of machinist.dev and of other systems exist.
func checkRights(ctx context.Context, cfg *rest.Config, o settings, served func(schema.GroupResource) bool) error {
	client, err := authorization.NewForConfig(cfg)
	if err != nil {
		return fmt.Errorf("the configuration for %s cannot be used: %w", cfg.Host, err)
	}
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	o.Serving.MetricsSecure = false // without the rights to review who reads metrics it reconciles, and each request for metrics logs the lack
	asked := reviewsOf(clusterRole(o).Rules, "", served)
	for _, role := range namespaceRoles(o) {
		asked = append(asked, reviewsOf(role.Rules, role.Namespace, served)...)
	}
	if role := credentialsRole(o); role != nil {
		asked = append(asked, reviewsOf(role.Rules, role.Namespace, served)...)
	}
	if o.LeaderElection.Enabled && o.LeaderElection.Namespace != "" {
		asked = append(asked, reviewsOf(leaderRole(o).Rules, o.LeaderElection.Namespace, served)...)
	}
	denied := make([]bool, len(asked))
	workqueue.ParallelizeUntil(ctx, reviewers, len(asked), func(i int) {
		review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &asked[i]}}
		answer, err := client.SelfSubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
		denied[i] = err == nil && !answer.Status.Allowed && (answer.Status.Denied || answer.Status.EvaluationError == "")
	})
	return missingRights(asked, denied)
}

// reviewsOf returns the access reviews for rules, grouped by resource.
func reviewsOf(rules []rbacv1.PolicyRule, namespace string, served func(schema.GroupResource) bool) []authorizationv1.ResourceAttributes {
	var asked []authorizationv1.ResourceAttributes
	for _, rule := range rules {
		for _, place := range rule.Resources {
			resource, sub, _ := strings.Cut(place, "/")
			kind := schema.GroupResource{Group: rule.APIGroups[0], Resource: resource}
			own := slices.Contains(api.Groups(), api.Group(kind.Group))
			if resource == rbacv1.ResourceAll || own && !served(kind) {
				continue
			}
			for _, name := range orAny(rule.ResourceNames) {
				for _, verb := range rule.Verbs {
					asked = append(asked, authorizationv1.ResourceAttributes{
						Namespace: namespace, Verb: verb, Group: rule.APIGroups[0], Resource: resource, Subresource: sub, Name: name,
					})
				}
			}
		}
	}
	return asked
}

// orAny returns the names of a rule, or the empty name, which means every object.
func orAny(names []string) []string {
	if len(names) == 0 {
		return []string{""}
	}
	return names
}

// missingRights names the denied rights, by resource.
func missingRights(asked []authorizationv1.ResourceAttributes, denied []bool) error {
	var places []string
	verbs := map[string][]string{}
	for i, a := range asked {
		if !denied[i] {
			continue
		}
		place := strings.TrimSuffix(schema.GroupResource{Group: a.Group,
			Resource: strings.TrimSuffix(a.Resource+"/"+a.Subresource, "/")}.String(), ".")
		if a.Namespace != "" {
			place += " in namespace " + a.Namespace
		}
		if verbs[place] == nil {
			places = append(places, place)
		}
		verbs[place] = append(verbs[place], a.Verb)
	}
	if len(places) == 0 {
		return nil
	}
	shown := make([]string, 0, shownRights)
	for _, place := range places[:min(len(places), shownRights)] {
		shown = append(shown, strings.Join(verbs[place], ", ")+" "+place)
	}
	more := ""
	if hidden := len(places) - len(shown); hidden > 0 {
		more = fmt.Sprintf("; and those on %d more resources", hidden)
	}
	return fmt.Errorf("rights are missing: %s%s: grant what the manager prints with --print-rbac and its other flags",
		strings.Join(shown, "; "), more)
}
