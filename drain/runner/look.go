package runner

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/pager"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/drain"
)

// listAllFrom is the number of Nodes from which on one list of all Pods is cheaper than a list for each Node: the API server looks at all
// Pods for each of those.
const listAllFrom = 10

// Look reads what a [drain.Planner] needs for a plan of a drain: the Pods of the named Nodes, in the order of the names, and the
// PodDisruptionBudgets of all Namespaces. It makes one list of the Pods of each Node, or of all Pods where there are ten Nodes and more,
// and one of the budgets, in pages of 500 objects. c needs the right to list both in the whole cluster. With a client that does not cache,
// the lists are consistent reads; a cache needs an index of the field spec.nodeName.
//
// now becomes [drain.Facts.Now]. The facts have no requests in flight, which only a running drain has. A Node that
// does not exist has no Pods. The error wraps that of the API server. Look changes nothing and is safe for concurrent use.
func Look(ctx context.Context, c client.Reader, now time.Time, nodes ...string) ([]drain.NodePods, drain.Facts, error) {
	pods, err := podsOf(ctx, c, nodes)
	if err != nil {
		return nil, drain.Facts{}, err
	}
	budgets, err := listPages[*policyv1.PodDisruptionBudget](ctx, c, &policyv1.PodDisruptionBudgetList{}, fields.Everything())
	if err != nil {
		return nil, drain.Facts{}, fmt.Errorf("list poddisruptionbudgets: %w", err)
	}
	found := make([]drain.NodePods, 0, len(nodes))
	for _, node := range nodes {
		found = append(found, drain.NodePods{Node: node, Pods: pods[node]})
	}
	return found, drain.Facts{Now: now, Budgets: budgets}, nil
}

// podsOf returns the Pods of Nodes by the names of the Nodes.
func podsOf(ctx context.Context, c client.Reader, nodes []string) (map[string][]*corev1.Pod, error) {
	of := make(map[string][]*corev1.Pod, len(nodes))
	if len(nodes) >= listAllFrom {
		for _, node := range nodes {
			of[node] = nil
		}
		all, err := listPages[*corev1.Pod](ctx, c, &corev1.PodList{}, fields.Everything())
		if err != nil {
			return nil, fmt.Errorf("list pods: %w", err)
		}
		for _, pod := range all {
			if _, wanted := of[pod.Spec.NodeName]; wanted {
				of[pod.Spec.NodeName] = append(of[pod.Spec.NodeName], pod)
			}
		}
		return of, nil
	}
	for _, node := range nodes {
		selector := fields.OneTermEqualSelector("spec.nodeName", node)
		pods, err := listPages[*corev1.Pod](ctx, c, &corev1.PodList{}, selector)
		if err != nil {
			return nil, fmt.Errorf("list pods of node %s: %w", node, err)
		}
		of[node] = pods
	}
	return of, nil
}

// listPages reads all pages of a list. page is an empty list of the kind.
func listPages[T runtime.Object](ctx context.Context, c client.Reader, page client.ObjectList, selector fields.Selector) ([]T, error) {
	list, _, err := pager.New(func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
		next := page.DeepCopyObject()
		into, ok := next.(client.ObjectList)
		if !ok {
			return nil, fmt.Errorf("%T is no list", next)
		}
		return into, c.List(ctx, into, &client.ListOptions{FieldSelector: selector, Limit: o.Limit, Continue: o.Continue})
	}).List(ctx, metav1.ListOptions{})
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
