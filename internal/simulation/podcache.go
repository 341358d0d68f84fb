package simulation

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/drain/runner"
)

// podCache has the Pods of draining Nodes as one process knows them. As with runner.NewScopedPodSource, the first look at a Node begins a
// list, which is a consistent read; later events come in their order, each when the choices say so.
type podCache struct {
	nodes map[string]*followedNode
}

var _ runner.PodSource = (*podCache)(nil)

type followedNode struct {
	listed  bool
	again   time.Time // before which a list that has failed is not repeated
	pods    map[types.NamespacedName]*corev1.Pod
	pending []podChange
}

type podChange struct {
	pod     *corev1.Pod
	removed bool
}

// Pods implements runner.PodSource.
func (c *podCache) Pods(node string) ([]*corev1.Pod, bool, error) {
	f := c.nodes[node]
	if f == nil {
		f = &followedNode{pods: map[types.NamespacedName]*corev1.Pod{}}
		c.nodes[node] = f
	}
	all := make([]*corev1.Pod, 0, len(f.pods))
	for _, pod := range f.pods {
		all = append(all, pod)
	}
	return byName(all), f.listed, nil
}

// Release implements runner.PodSource.
func (c *podCache) Release(node string) { delete(c.nodes, node) }

// Run implements runner.PodSource. It is not called: the World wakes reconcilers itself.
func (c *podCache) Run(context.Context, func(string)) error { return nil }

func (c *podCache) hear(pod *corev1.Pod, removed bool) {
	if f := c.nodes[pod.Spec.NodeName]; f != nil && f.listed {
		f.pending = append(f.pending, podChange{pod, removed})
	}
}

// list takes the Pods as the API server has them.
func (f *followedNode) list(pods []*corev1.Pod) {
	f.listed, f.pending = true, nil
	clear(f.pods)
	for _, pod := range pods {
		f.pods[client.ObjectKeyFromObject(pod)] = pod
	}
}

// deliver takes the oldest event.
func (f *followedNode) deliver() podChange {
	e := f.pending[0]
	f.pending = f.pending[1:]
	key := client.ObjectKeyFromObject(e.pod)
	if f.pods[key] = e.pod; e.removed {
		delete(f.pods, key)
	}
	return e
}

// budgetCache has the budget as one process knows it: a client.Reader for lists of budgets.
type budgetCache struct {
	client.Reader

	budget *policyv1.PodDisruptionBudget // nil for none
}

// List implements client.Reader.
func (c *budgetCache) List(_ context.Context, into client.ObjectList, _ ...client.ListOption) error {
	if list, is := into.(*policyv1.PodDisruptionBudgetList); is && c.budget != nil {
		list.Items = append(list.Items, *c.budget)
	}
	return nil
}
