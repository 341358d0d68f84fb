package apitest

import (
	"context"
	"errors"

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

func (e Env) scaled(ctx context.Context, budget *policyv1.PodDisruptionBudget, want policyv1.PodDisruptionBudgetStatus) error {
	if _, err := e.node(ctx, "n", true); err != nil {
		return err
	}
	return first(
		func() error { return e.Client.Create(ctx, e.deployment("web", 3)) },
		func() error { return e.Client.Create(ctx, budget) },
		func() error { return e.observed(ctx, budget, want.CurrentHealthy) },
		func() error {
			return errors.Join(equal("expected", budget.Status.ExpectedPods, want.ExpectedPods),
				equal("desired", budget.Status.DesiredHealthy, want.DesiredHealthy),
				equal("allowed", budget.Status.DisruptionsAllowed, want.DisruptionsAllowed))
		},
	)
}

func budgetPercent(ctx context.Context, e Env) error {
	budget := e.budget("budget", map[string]string{"app": "web"}, intstr.FromString("50%"))
	return e.scaled(ctx, budget, policyv1.PodDisruptionBudgetStatus{ExpectedPods: 3, CurrentHealthy: 3, DesiredHealthy: 2,
		DisruptionsAllowed: 1})
}

func budgetMaxUnavailable(ctx context.Context, e Env) error {
	budget := e.budget("budget", map[string]string{"app": "web"}, intstr.FromInt(0))
	budget.Spec.MinAvailable, budget.Spec.MaxUnavailable = nil, budget.Spec.MinAvailable
	budget.Spec.MaxUnavailable.IntVal = 2
	return e.scaled(ctx, budget, policyv1.PodDisruptionBudgetStatus{ExpectedPods: 3, CurrentHealthy: 3, DesiredHealthy: 1,
		DisruptionsAllowed: 2})
}

func budgetEmpty(ctx context.Context, e Env) error {
	budget := e.budget("budget", map[string]string{"app": "none"}, intstr.FromInt(0))
	return first(
		func() error { return e.Client.Create(ctx, budget) },
		func() error { return equal("generation", budget.Generation, 1) },
		func() error { return e.observed(ctx, budget, 0) },
		func() error { return equal("allowed", budget.Status.DisruptionsAllowed, 0) },
	)
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

func nodeProviderID(ctx context.Context, e Env) error {
	node, err := e.node(ctx, "n", false)
	if err != nil {
		return err
	}
	change := refusal{code: 422, reason: metav1.StatusReasonInvalid, text: "spec.providerID"}
	return first(
		func() error { return e.patch(ctx, node, types.MergePatchType, `{"spec":{"providerID":"test://one"}}`) },
		func() error {
			return change.check(e.patch(ctx, node.DeepCopy(), types.MergePatchType, `{"spec":{"providerID":"test://two"}}`))
		},
		func() error {
			return change.check(e.patch(ctx, node.DeepCopy(), types.MergePatchType, `{"spec":{"providerID":null}}`))
		},
	)
}

func nodeTaint(ctx context.Context, e Env) error {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: e.Namespace + "-n"}}
	if err := e.Client.Create(ctx, node, client.DryRunAll); err != nil {
		return err
	}
	if len(node.Spec.Taints) != 1 || node.Spec.Taints[0].Key != corev1.TaintNodeNotReady {
		return holds(false, "the taints are %v", node.Spec.Taints)
	}
	return equal("generation", node.Generation, 0)
}

func nodePods(ctx context.Context, e Env) error {
	node, err := e.node(ctx, "n", false)
	if err != nil {
		return err
	}
	if _, err = e.readyPod(ctx, "here", node.Name, nil); err != nil {
		return err
	}
	elsewhere := e.pod("elsewhere", nil)
	elsewhere.Spec.NodeSelector = map[string]string{"conformance": "nowhere"}
	if err := e.createPod(ctx, elsewhere); err != nil {
		return err
	}
	var pods corev1.PodList
	err = e.Client.List(ctx, &pods, client.MatchingFields{"spec.nodeName": node.Name})
	bad := e.Client.List(ctx, &corev1.PodList{}, client.MatchingFields{"spec.none": "x"})
	return errors.Join(err, equal("pods", len(pods.Items), 1),
		refusal{code: 400, reason: metav1.StatusReasonBadRequest, text: "field label not supported"}.check(bad))
}

func nodeBinding(ctx context.Context, e Env) error {
	node, err := e.node(ctx, "n", false)
	if err != nil {
		return err
	}
	pod := e.pod("bound", nil)
	pod.Spec.SchedulerName = "none"
	bind := func() error {
		return e.Client.SubResource("binding").Create(ctx, pod.DeepCopy(), &corev1.Binding{
			ObjectMeta: metav1.ObjectMeta{Name: pod.Name, Namespace: pod.Namespace}, Target: corev1.ObjectReference{Kind: "Node", Name: node.Name},
		})
	}
	return first(
		func() error { return e.createPod(ctx, pod) },
		bind,
		func() error { return e.read(ctx, pod) },
		func() error { return equal("node", pod.Spec.NodeName, node.Name) },
		func() error {
			return refusal{code: 409, reason: metav1.StatusReasonConflict, text: "is already assigned to node"}.check(bind())
		},
	)
}

func nodeDeleted(ctx context.Context, e Env) error {
	node, err := e.node(ctx, "n", false)
	if err != nil {
		return err
	}
	pod, err := e.readyPod(ctx, "left", node.Name, nil)
	if err != nil {
		return err
	}
	// A drain leaves only pods that are being deleted. Others are removed too, but a real cluster needs longer for them.
	return first(
		func() error {
			return e.patch(ctx, pod, types.MergePatchType, `{"metadata":{"finalizers":["example.com/a"]}}`)
		},
		func() error { return e.Client.Delete(ctx, pod) },
		func() error { return e.Client.Delete(ctx, node) },
		func() error { return e.patch(ctx, pod, types.MergePatchType, `{"metadata":{"finalizers":null}}`) },
		func() error { return e.gone(ctx, node) },
	)
}

func namespaceCases() []Case {
	return []Case{{"a terminating namespace accepts no new object and is removed when it is empty",
		"evictions there are refused, deletes are not", namespaceTerminating}}
}

func namespaceTerminating(ctx context.Context, e Env) error {
	other := Env{Client: e.Client, Namespace: e.Namespace + "-x"}
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: other.Namespace}}
	held := other.configMap("held")
	held.Finalizers = []string{"example.com/a"}
	refused := refusal{code: 403, reason: metav1.StatusReasonForbidden, cause: corev1.NamespaceTerminatingCause}
	return first(
		func() error { return e.Client.Create(ctx, ns) },
		func() error { return e.Client.Create(ctx, held) },
		func() error { return e.Client.Delete(ctx, ns) },
		func() error { return e.read(ctx, ns) },
		func() error { return equal("phase", ns.Status.Phase, corev1.NamespaceTerminating) },
		func() error { return refused.check(e.Client.Create(ctx, other.configMap("late"))) },
		func() error { return refused.check(other.evict(ctx, other.pod("any", nil))) },
		func() error {
			return eventually(ctx, "the content to be deleted with its namespace", func(ctx context.Context) (bool, error) {
				err := e.read(ctx, held)
				return held.DeletionTimestamp != nil, err
			})
		},
		func() error { return e.patch(ctx, held, types.MergePatchType, `{"metadata":{"finalizers":null}}`) },
		func() error { return e.gone(ctx, ns) },
	)
}
