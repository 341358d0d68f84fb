package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

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
	pods, facts, err := runner.Look(ctx, s.reader, s.now(), namesOf(nodes)...)
	if err != nil {
		return nil, s.explain("list", "pods and poddisruptionbudgets", err)
	}
	return &snapshot{nodes: nodes, pods: pods, budgets: facts.Budgets}, nil
}

func namesOf(nodes []*corev1.Node) []string {
	names := make([]string, 0, len(nodes))
	for _, node := range nodes {
		names = append(names, node.Name)
	}
	return names
}

func (s *session) readNodes(ctx context.Context) ([]*corev1.Node, error) {
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	if s.selector == "" {
		nodes := make([]*corev1.Node, 0, len(s.nodes))
		var errs []error
		for _, name := range s.nodes {
			node, err := s.client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
			switch {
			case apierrors.IsNotFound(err):
				errs = append(errs, fmt.Errorf("there is no Node %q; kubectl get nodes lists them", name))
			case err != nil:
				return nil, s.explain("get", "nodes", err)
			default:
				nodes = append(nodes, node)
			}
		}
		return nodes, errors.Join(errs...)
	}
	list, err := s.client.CoreV1().Nodes().List(ctx, metav1.ListOptions{LabelSelector: s.selector})
	if err != nil {
		return nil, s.explain("list", "nodes", err)
	}
	if len(list.Items) == 0 {
		return nil, fmt.Errorf("-l %s selects no Node; kubectl get nodes --show-labels lists them", s.selector)
	}
	nodes := make([]*corev1.Node, 0, len(list.Items)) // sorted by name
	for i := range list.Items {
		nodes = append(nodes, &list.Items[i])
	}
	return nodes, nil
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
	default:
		return fmt.Errorf("%s %s: %w", verb, resource, err)
	}
}
