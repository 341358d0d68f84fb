package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

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
	if clientcmd.IsEmptyConfig(err) { // its text is about an internal variable
		err = errors.New("they are missing or empty")
	}
	if err != nil {
		return nil, fmt.Errorf("no cluster in %s: %w; give --kubeconfig, set KUBECONFIG, or run in a pod",
			strings.Join(rules.GetLoadingPrecedence(), ", "), err)
	}
	cfg.UserAgent = userAgent
	cfg.WarningHandler = rest.NoWarnings{}
	return cfg, nil
}

// snapshot is what a plan is made from.
type snapshot struct {
	nodes   []*corev1.Node
	names   []string
	pods    []drain.NodePods // in the same order
	budgets []*policyv1.PodDisruptionBudget
}

// read makes a snapshot with list requests only. Lists are consistent reads.
func (s *session) read(ctx context.Context) (*snapshot, error) {
	nodes, err := s.readNodes(ctx)
	if err != nil {
		return nil, err
	}
	snap := &snapshot{nodes: nodes}
	for _, node := range nodes {
		snap.names = append(snap.names, node.Name)
	}
	var facts drain.Facts
	snap.pods, facts, err = runner.Look(ctx, s.client, snap.names...)
	snap.budgets = facts.Budgets
	return snap, s.explain("list", "pods and poddisruptionbudgets", err)
}

func (s *session) readNodes(ctx context.Context) (nodes []*corev1.Node, err error) {
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	selector, _ := labels.Parse(s.selector) // as validated; empty selects all
	var list corev1.NodeList                // sorted by name
	if err := s.client.List(ctx, &list, client.MatchingLabelsSelector{Selector: selector}); err != nil {
		return nil, s.explain("list", "nodes", err)
	}
	missing := slices.Clone(s.nodes)
	for i := range list.Items {
		if at := slices.Index(missing, list.Items[i].Name); at >= 0 || s.selector != "" {
			nodes, missing = append(nodes, &list.Items[i]), slices.Delete(missing, max(at, 0), at+1)
		}
	}
	for _, name := range missing {
		err = errors.Join(err, fmt.Errorf("there is no Node %q; kubectl get nodes lists them", name))
	}
	if s.selector != "" && len(nodes) == 0 {
		err = fmt.Errorf("-l %s selects no Node; kubectl get nodes --show-labels lists them", s.selector)
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
		return fmt.Errorf("the right to %s %s is missing: %w", verb, resource, err)
	case !errors.As(err, &answer):
		return fmt.Errorf("the API server at %s cannot be reached: %w; check the kubeconfig, and that the server runs", s.config.Host, err)
	}
	return fmt.Errorf("%s %s: %w", verb, resource, err)
}
