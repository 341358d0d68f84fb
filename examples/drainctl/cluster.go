package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/drain"
	"github.com/machinist-dev/machinist/drain/runner"
)

const (
	userAgent = "machinist-drainctl"
	// lookTimeout is for how long the first request may take.
	lookTimeout = 15 * time.Second
)

// connect finds the cluster by the rules of kubectl, and otherwise by the Pod in which this process runs.
func connect(o options) (*rest.Config, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = o.kubeconfig
	overrides := &clientcmd.ConfigOverrides{CurrentContext: o.context}
	cfg, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, overrides).ClientConfig()
	switch {
	case err != nil && o.kubeconfig != "":
		return nil, fmt.Errorf("--kubeconfig %s cannot be used: %w", o.kubeconfig, err)
	case clientcmd.IsEmptyConfig(err): // its text is about an internal variable
		err = errors.New("they are missing or empty")
		fallthrough
	case err != nil:
		return nil, fmt.Errorf("no cluster in %s: %w; give --kubeconfig, set KUBECONFIG, or run in a pod",
			strings.Join(rules.GetLoadingPrecedence(), ", "), err)
	}
	cfg.UserAgent = userAgent
	cfg.QPS = -1 // the drain runner limits itself, and the API server says when it has enough
	cfg.WarningHandler = rest.NoWarnings{}
	return cfg, nil
}

// snapshot is what a plan is made from.
type snapshot struct {
	nodes   []*corev1.Node
	pods    []drain.NodePods // in the same order
	budgets []*policyv1.PodDisruptionBudget
}

// read makes a snapshot with list requests only. Lists are consistent reads.
func (s *session) read(ctx context.Context) (*snapshot, error) {
	nodes, err := s.readNodes(ctx)
	if err != nil {
		return nil, err
	}
	pods, facts, err := runner.Look(ctx, s.client, s.now(), namesOf(nodes)...)
	return &snapshot{nodes: nodes, pods: pods, budgets: facts.Budgets}, s.explain("list", "pods and poddisruptionbudgets", err)
}

func namesOf(nodes []*corev1.Node) []string {
	names := make([]string, 0, len(nodes))
	for _, node := range nodes {
		names = append(names, node.Name)
	}
	return names
}

func (s *session) readNodes(ctx context.Context) (nodes []*corev1.Node, err error) {
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	if s.selector != "" {
		selector, _ := labels.Parse(s.selector) // as validated
		var list corev1.NodeList                // sorted by name
		if err = s.client.List(ctx, &list, client.MatchingLabelsSelector{Selector: selector}); err == nil && len(list.Items) == 0 {
			return nil, fmt.Errorf("-l %s selects no Node; kubectl get nodes --show-labels lists them", s.selector)
		}
		for i := range list.Items {
			nodes = append(nodes, &list.Items[i])
		}
		return nodes, s.explain("list", "nodes", err)
	}
	for _, name := range s.nodes {
		node := &corev1.Node{}
		switch failed := s.client.Get(ctx, client.ObjectKey{Name: name}, node); {
		case apierrors.IsNotFound(failed):
			err = errors.Join(err, fmt.Errorf("there is no Node %q; kubectl get nodes lists them", name))
		case failed != nil:
			return nil, s.explain("get", "nodes", failed)
		default:
			nodes = append(nodes, node)
		}
	}
	return nodes, err
}

// explain adds what a person can do about a failed request.
func (s *session) explain(verb, resource string, err error) error {
	var answer apierrors.APIStatus
	switch {
	case err == nil || errors.Is(err, context.Canceled):
		return err
	case apierrors.IsForbidden(err):
		return fmt.Errorf("the right to %s %s is missing: %w; drainctl --print-rbac prints all that are needed", verb, resource, err)
	case apierrors.IsUnauthorized(err):
		return fmt.Errorf("the API server at %s refuses the credentials of the kubeconfig: %w", s.config.Host, err)
	case !errors.As(err, &answer):
		return fmt.Errorf("the API server at %s cannot be reached: %w; check the kubeconfig, and that the server runs", s.config.Host, err)
	}
	return fmt.Errorf("%s %s: %w", verb, resource, err)
}

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
	if err == nil {
		_, err = out.Write(data)
	}
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
				if s.client.Create(ctx, review) != nil {
					return ctx.Err()
				}
				if !review.Status.Allowed {
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
