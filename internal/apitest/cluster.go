package apitest

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func budgetCases() []Case {
	return []Case{
		{"a percentage counts what the controllers want, rounded up", "budgets of half a Deployment", budgetPercent},
		{"maxUnavailable allows that many disruptions", "the other form", budgetMaxUnavailable},
		{"a budget without pods allows nothing", "safe before its first pod", budgetEmpty},
	}
}

func (e Env) scaled(ctx context.Context, budget *policyv1.PodDisruptionBudget, want policyv1.PodDisruptionBudgetStatus) {
	e.node(ctx, "n", true)
	e.must(e.Client.Create(ctx, e.deployment("web", 3)))
	e.must(e.Client.Create(ctx, budget))
	e.must(e.observed(ctx, budget, want.CurrentHealthy))
	e.must(equal("expected", budget.Status.ExpectedPods, want.ExpectedPods),
		equal("desired", budget.Status.DesiredHealthy, want.DesiredHealthy),
		equal("allowed", budget.Status.DisruptionsAllowed, want.DisruptionsAllowed))
}

func budgetPercent(ctx context.Context, e Env) {
	budget := e.budget("budget", map[string]string{"app": "web"}, intstr.FromString("50%"))
	e.scaled(ctx, budget, policyv1.PodDisruptionBudgetStatus{ExpectedPods: 3, CurrentHealthy: 3, DesiredHealthy: 2, DisruptionsAllowed: 1})
}

func budgetMaxUnavailable(ctx context.Context, e Env) {
	budget := e.budget("budget", map[string]string{"app": "web"}, intstr.FromInt(0))
	budget.Spec.MinAvailable, budget.Spec.MaxUnavailable = nil, budget.Spec.MinAvailable
	budget.Spec.MaxUnavailable.IntVal = 2
	e.scaled(ctx, budget, policyv1.PodDisruptionBudgetStatus{ExpectedPods: 3, CurrentHealthy: 3, DesiredHealthy: 1, DisruptionsAllowed: 2})
}

func budgetEmpty(ctx context.Context, e Env) {
	budget := e.budget("budget", map[string]string{"app": "none"}, intstr.FromInt(0))
	e.must(e.Client.Create(ctx, budget))
	e.must(equal("generation", budget.Generation, 1))
	e.must(e.observed(ctx, budget, 0))
	e.must(equal("allowed", budget.Status.DisruptionsAllowed, 0))
}

func nodeCases() []Case {
	return []Case{
		{"a Node's provider ID is set once", "identity", nodeProviderID},
		{"a new Node is tainted until it is ready, and counts no generations", "no pod before it is ready", nodeTaint},
		{"pods are selected by the Node they are on", "one scoped list per drain", nodePods},
		{"a pod is bound once", "the scheduler's write", nodeBinding},
		{"the pods of a deleted Node are removed", "Node deletion lets pods end", nodeDeleted},
	}
}

func nodeProviderID(ctx context.Context, e Env) {
	node := e.node(ctx, "n", false)
	change := refusal{code: 422, reason: metav1.StatusReasonInvalid, text: "spec.providerID"}
	e.must(e.patch(ctx, node, types.MergePatchType, `{"spec":{"providerID":"test://one"}}`))
	e.must(change.check(e.patch(ctx, node.DeepCopy(), types.MergePatchType, `{"spec":{"providerID":"test://two"}}`)))
	e.must(change.check(e.patch(ctx, node.DeepCopy(), types.MergePatchType, `{"spec":{"providerID":null}}`)))
}

func nodeTaint(ctx context.Context, e Env) {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: e.Namespace + "-n"}}
	e.must(e.Client.Create(ctx, node, client.DryRunAll))
	e.must(holds(len(node.Spec.Taints) == 1 && node.Spec.Taints[0].Key == corev1.TaintNodeNotReady, "the taints are %v", node.Spec.Taints))
	e.must(equal("generation", node.Generation, 0))
}

func nodePods(ctx context.Context, e Env) {
	node := e.node(ctx, "n", false)
	e.readyPod(ctx, "here", node.Name, nil)
	elsewhere := e.pod("elsewhere", nil)
	elsewhere.Spec.NodeSelector = map[string]string{"conformance": "nowhere"}
	e.must(e.createPod(ctx, elsewhere))
	var pods corev1.PodList
	err := e.Client.List(ctx, &pods, client.MatchingFields{"spec.nodeName": node.Name})
	bad := e.Client.List(ctx, &corev1.PodList{}, client.MatchingFields{"spec.none": "x"})
	e.must(err, equal("pods", len(pods.Items), 1),
		refusal{code: 400, reason: metav1.StatusReasonBadRequest, text: "field label not supported"}.check(bad))
}

func nodeBinding(ctx context.Context, e Env) {
	node := e.node(ctx, "n", false)
	pod := e.pod("bound", nil)
	pod.Spec.SchedulerName = "none"
	bind := func() error {
		return e.Client.SubResource("binding").Create(ctx, pod.DeepCopy(), &corev1.Binding{
			ObjectMeta: metav1.ObjectMeta{Name: pod.Name, Namespace: pod.Namespace}, Target: corev1.ObjectReference{Kind: "Node", Name: node.Name},
		})
	}
	e.must(e.createPod(ctx, pod))
	e.must(bind())
	e.must(e.read(ctx, pod))
	e.must(equal("node", pod.Spec.NodeName, node.Name))
	e.must(refusal{code: 409, reason: metav1.StatusReasonConflict, text: "is already assigned to node"}.check(bind()))
}

func nodeDeleted(ctx context.Context, e Env) {
	node := e.node(ctx, "n", false)
	pod := e.readyPod(ctx, "left", node.Name, nil)
	// A drain leaves only pods that are being deleted. Others are removed too, but a real cluster needs longer for them.
	e.must(e.patch(ctx, pod, types.MergePatchType, `{"metadata":{"finalizers":["example.com/a"]}}`))
	e.must(e.Client.Delete(ctx, pod))
	e.must(e.Client.Delete(ctx, node))
	e.must(e.patch(ctx, pod, types.MergePatchType, `{"metadata":{"finalizers":null}}`))
	e.must(e.gone(ctx, node))
}

func namespaceCases() []Case {
	return []Case{{"a terminating namespace accepts no new object and is removed when it is empty",
		"evictions there are refused, deletes are not", namespaceTerminating}}
}

func namespaceTerminating(ctx context.Context, e Env) {
	other := Env{T: e.T, Client: e.Client, Namespace: e.Namespace + "-x"}
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: other.Namespace}}
	held := other.configMap("held")
	held.Finalizers = []string{"example.com/a"}
	refused := refusal{code: 403, reason: metav1.StatusReasonForbidden, cause: corev1.NamespaceTerminatingCause}
	e.must(e.Client.Create(ctx, ns))
	e.must(e.Client.Create(ctx, held))
	e.must(e.Client.Delete(ctx, ns))
	e.must(e.read(ctx, ns))
	e.must(equal("phase", ns.Status.Phase, corev1.NamespaceTerminating))
	e.must(refused.check(e.Client.Create(ctx, other.configMap("late"))))
	e.must(refused.check(other.evict(ctx, other.pod("any", nil))))
	e.must(eventually(ctx, "the content to be deleted with its namespace", func(ctx context.Context) (bool, error) {
		err := e.read(ctx, held)
		return held.DeletionTimestamp != nil, err
	}))
	e.must(e.patch(ctx, held, types.MergePatchType, `{"metadata":{"finalizers":null}}`))
	e.must(e.gone(ctx, ns))
}
