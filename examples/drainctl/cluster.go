package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/pager"

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
		return nil, fmt.Errorf("--kubeconfig %s cannot be used: %w", o.kubeconfig, unusable(rules, err))
	case err != nil:
		return nil, fmt.Errorf("no cluster to talk to: %w; give --kubeconfig, set KUBECONFIG, or run in a pod", unusable(rules, err))
	}
	cfg.UserAgent = userAgent
	cfg.QPS = -1 // the drain runner limits itself, and the API server says when it has enough
	cfg.WarningHandler = rest.NoWarnings{}
	return cfg, nil
}

// unusable names the kubeconfig files that are missing or empty. The error of clientcmd names an internal variable.
func unusable(rules *clientcmd.ClientConfigLoadingRules, err error) error {
	var files []string
	for _, path := range rules.GetLoadingPrecedence() {
		if _, wrong := os.Stat(path); errors.Is(wrong, fs.ErrNotExist) {
			files = append(files, path+" does not exist")
		} else if clientcmd.IsEmptyConfig(err) {
			files = append(files, path+" names no cluster")
		}
	}
	switch {
	case len(files) == 0:
		return err
	case clientcmd.IsEmptyConfig(err):
		return errors.New(strings.Join(files, ", "))
	default:
		return fmt.Errorf("%w; %s", err, strings.Join(files, ", "))
	}
}

// snapshot is what a plan is made from.
type snapshot struct {
	nodes   []*corev1.Node // in the order in which they were named
	pods    map[string][]*corev1.Pod
	budgets []*policyv1.PodDisruptionBudget
	orphans map[types.NamespacedName]bool // DaemonSets that pods name and that do not exist
}

// read makes a snapshot with list requests only. Lists are consistent reads.
func (s *session) read(ctx context.Context) (*snapshot, error) {
	nodes, err := s.readNodes(ctx)
	if err != nil {
		return nil, err
	}
	snap := &snapshot{nodes: nodes, pods: map[string][]*corev1.Pod{}}
	names := make([]string, 0, len(nodes))
	for _, node := range nodes {
		names = append(names, node.Name)
	}
	pods, facts, err := runner.Look(ctx, s.reader, s.now(), names...)
	if err != nil {
		return nil, s.explain("list", cmp.Or(resourceOf(err), "pods and poddisruptionbudgets"), err)
	}
	for _, of := range pods {
		snap.pods[of.Node] = of.Pods
	}
	snap.budgets = facts.Budgets
	snap.orphans, err = s.readOrphans(ctx, snap.pods)
	return snap, err
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
	nodes, err := listAll[*corev1.Node](ctx, metav1.ListOptions{LabelSelector: s.selector},
		func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			return s.client.CoreV1().Nodes().List(ctx, o)
		})
	if err == nil && len(nodes) == 0 {
		return nil, fmt.Errorf("-l %s selects no Node; kubectl get nodes --show-labels lists them", s.selector)
	}
	slices.SortFunc(nodes, func(a, b *corev1.Node) int { return cmp.Compare(a.Name, b.Name) })
	return nodes, s.explain("list", "nodes", err)
}

// readOrphans reads the DaemonSets that control unfinished Pods. Without the right to read them, it trusts the owner references.
func (s *session) readOrphans(ctx context.Context, of map[string][]*corev1.Pod) (map[types.NamespacedName]bool, error) {
	orphans := map[types.NamespacedName]bool{}
	for _, pods := range of {
		for _, pod := range pods {
			if ref := metav1.GetControllerOfNoCopy(pod); ref != nil && ref.Kind == "DaemonSet" &&
				ref.APIVersion == appsv1.SchemeGroupVersion.String() {
				orphans[types.NamespacedName{Namespace: pod.Namespace, Name: ref.Name}] = true
			}
		}
	}
	if len(orphans) == 0 || s.rules == rulesCAPI {
		return nil, nil
	}
	sets, err := listAll[*appsv1.DaemonSet](ctx, metav1.ListOptions{},
		func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			return s.client.AppsV1().DaemonSets(metav1.NamespaceAll).List(ctx, o)
		})
	if apierrors.IsForbidden(err) {
		return nil, nil
	}
	for _, set := range sets {
		delete(orphans, types.NamespacedName{Namespace: set.Namespace, Name: set.Name})
	}
	return orphans, s.explain("list", "daemonsets", err)
}

// listAll reads all pages of a list.
func listAll[T runtime.Object](
	ctx context.Context, o metav1.ListOptions, page func(context.Context, metav1.ListOptions) (runtime.Object, error),
) ([]T, error) {
	list, _, err := pager.New(page).List(ctx, o)
	if err != nil {
		return nil, err
	}
	var all []T
	err = meta.EachListItem(list, func(obj runtime.Object) error {
		item, ok := obj.(T)
		if !ok {
			return fmt.Errorf("the list has an item of type %T", obj)
		}
		all = append(all, item)
		return nil
	})
	return all, err
}

// resourceOf is the resource that a request was refused for, where the API server says it.
func resourceOf(err error) string {
	var answer apierrors.APIStatus
	if !errors.As(err, &answer) || answer.Status().Details == nil {
		return ""
	}
	return answer.Status().Details.Kind
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
