package apitest

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func evictionCases() []Case {
	return []Case{
		{"an eviction without a budget deletes the pod gracefully and says why", "the ordinary case", evictFree},
		{"evicting what is gone is NotFound of the pod", "done", evictMissing},
		{"an eviction with another UID is a Conflict", "the successor of the same name must live", evictForeign},
		{"a spent budget answers 429 with a cause that names budget and counts", "who blocks and why", evictSpent},
		{"two budgets answer 500 without a reason", "permanent until edited", evictTwo},
		{"a pending pod is evicted whatever its budget says", "it serves no traffic", evictPending},
		{"a pod that is not ready follows the budget's policy", "crash loops must not block", evictUnhealthy},
		{"an allowed eviction is counted at once", "two evictions must not share one allowance", evictCounted},
		{"a budget opens when the replacement is ready elsewhere", "how drains end", evictReplaced},
		{"a dry run evicts nothing and costs nothing", "previews", evictDry},
	}
}

func (e Env) evict(ctx context.Context, pod *corev1.Pod, change ...func(*metav1.DeleteOptions)) error {
	o := &metav1.DeleteOptions{}
	for _, c := range change {
		c(o)
	}
	target := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: pod.Name, Namespace: pod.Namespace}}
	return e.Client.SubResource("eviction").Create(ctx, target, &policyv1.Eviction{
		ObjectMeta: metav1.ObjectMeta{Name: pod.Name, Namespace: pod.Namespace}, DeleteOptions: o,
	})
}

func spent(text string) refusal {
	return refusal{code: 429, reason: metav1.StatusReasonTooManyRequests,
		text: "Cannot evict pod as it would violate the pod's disruption budget.", cause: policyv1.DisruptionBudgetCause}.saying(text)
}

// budgeted makes a node with ready pods and a budget that has observed them.
func (e Env) budgeted(ctx context.Context, pods, minAvailable int) ([]*corev1.Pod, *policyv1.PodDisruptionBudget) {
	labels := map[string]string{"app": "web"}
	node := e.node(ctx, "n", false)
	var out []*corev1.Pod
	for i := range pods {
		out = append(out, e.readyPod(ctx, string(rune('a'+i)), node.Name, labels))
	}
	budget := e.budget("budget", labels, intstr.FromInt(minAvailable))
	e.must(e.Client.Create(ctx, budget))
	e.must(e.observed(ctx, budget, int32(pods)))
	return out, budget
}

func evictFree(ctx context.Context, e Env) {
	node := e.node(ctx, "n", false)
	pod := e.readyPod(ctx, "free", node.Name, nil)
	e.must(e.patch(ctx, pod, types.MergePatchType, `{"metadata":{"finalizers":["example.com/a"]}}`))
	e.must(e.evict(ctx, pod, func(o *metav1.DeleteOptions) { o.Preconditions = &metav1.Preconditions{UID: &pod.UID} }))
	e.must(e.read(ctx, pod))
	reason := ""
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.DisruptionTarget && c.Status == corev1.ConditionTrue {
			reason = c.Reason
		}
	}
	e.must(holds(pod.DeletionTimestamp != nil, "there is no deletion timestamp"),
		equal("DisruptionTarget", reason, "EvictionByEvictionAPI"))
	e.must(e.evict(ctx, pod)) // again, while it terminates
	e.must(e.patch(ctx, pod, types.MergePatchType, `{"metadata":{"finalizers":null}}`))
	e.must(e.gone(ctx, pod))
}

func evictMissing(ctx context.Context, e Env) {
	e.must(refusal{code: 404, reason: metav1.StatusReasonNotFound, kind: "pods",
		text: `pods "missing" not found`}.check(e.evict(ctx, e.pod("missing", nil))))
}

func evictForeign(ctx context.Context, e Env) {
	node := e.node(ctx, "n", false)
	pod := e.readyPod(ctx, "kept", node.Name, nil)
	err := e.evict(ctx, pod, func(o *metav1.DeleteOptions) {
		o.Preconditions = &metav1.Preconditions{UID: ptr.To[types.UID]("22222222-2222-4222-8222-222222222222")}
	})
	e.must(
		refusal{code: 409, reason: metav1.StatusReasonConflict, text: "the UID in the precondition"}.check(err), e.read(ctx, pod),
		holds(pod.DeletionTimestamp == nil, "the pod is being deleted"),
	)
}

func evictSpent(ctx context.Context, e Env) {
	pods, _ := e.budgeted(ctx, 1, 1)
	err := e.evict(ctx, pods[0])
	e.must(spent("The disruption budget budget needs 1 healthy pods and has 1 currently").check(err), e.read(ctx, pods[0]),
		holds(pods[0].DeletionTimestamp == nil, "the pod is being deleted"))
}

func evictTwo(ctx context.Context, e Env) {
	pods, _ := e.budgeted(ctx, 1, 0)
	other := e.budget("other", map[string]string{"app": "web"}, intstr.FromInt(0))
	e.must(e.Client.Create(ctx, other))
	e.must(eventually(ctx, "the second budget to be seen", func(ctx context.Context) (bool, error) {
		return e.evict(ctx, pods[0], func(o *metav1.DeleteOptions) { o.DryRun = []string{metav1.DryRunAll} }) != nil, nil
	}))
	e.must(refusal{code: 500,
		text: "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."}.check(e.evict(ctx, pods[0])))
}

func evictPending(ctx context.Context, e Env) {
	labels := map[string]string{"app": "web"}
	pod := e.pod("pending", labels)
	pod.Spec.NodeSelector = map[string]string{"conformance": "nowhere"}
	budget := e.budget("budget", labels, intstr.FromInt(1))
	e.must(e.Client.Create(ctx, budget))
	e.must(e.createPod(ctx, pod))
	e.must(e.observed(ctx, budget, 0))
	e.must(e.evict(ctx, pod))
	e.must(e.gone(ctx, pod))
}

func evictUnhealthy(ctx context.Context, e Env) {
	pods, budget := e.budgeted(ctx, 1, 1)
	pod := pods[0]
	e.must(e.Client.Status().Patch(ctx, pod, client.RawPatch(types.StrategicMergePatchType,
		[]byte(`{"status":{"conditions":[{"type":"Ready","status":"False"}]}}`))))
	e.must(e.observed(ctx, budget, 0))
	e.must(spent("needs 1 healthy pods and has 0 currently").check(e.evict(ctx, pod)))
	e.must(e.patch(ctx, budget, types.MergePatchType, `{"spec":{"unhealthyPodEvictionPolicy":"AlwaysAllow"}}`))
	e.must(e.observed(ctx, budget, 0))
	e.must(eventually(ctx, "the eviction of the unhealthy pod", func(ctx context.Context) (bool, error) {
		err := e.evict(ctx, pod)
		return err == nil, err
	}))
	e.must(e.gone(ctx, pod))
}

func evictCounted(ctx context.Context, e Env) {
	pods, budget := e.budgeted(ctx, 2, 1)
	e.must(equal("disruptions allowed", budget.Status.DisruptionsAllowed, 1))
	e.must(e.evict(ctx, pods[0]))
	// The text depends on whether the budget was computed again in between.
	e.must(spent("The disruption budget budget ").check(e.evict(ctx, pods[1])))
	e.must(e.gone(ctx, pods[0]))
	e.must(e.observed(ctx, budget, 1))
	e.must(equal("disruptions allowed", budget.Status.DisruptionsAllowed, 0))
}

func evictReplaced(ctx context.Context, e Env) {
	node := e.node(ctx, "old", true)
	d := e.deployment("web", 2)
	budget := e.budget("budget", map[string]string{"app": "web"}, intstr.FromInt(1))
	var pods corev1.PodList
	e.must(e.Client.Create(ctx, d))
	e.must(e.Client.Create(ctx, budget))
	e.must(e.observed(ctx, budget, 2))
	e.must(e.patch(ctx, node, types.MergePatchType, `{"spec":{"unschedulable":true}}`))
	err := e.Client.List(ctx, &pods, client.InNamespace(e.Namespace), client.MatchingFields{"spec.nodeName": node.Name})
	e.must(err, equal("pods on the old node", len(pods.Items), 2))
	e.must(e.evict(ctx, &pods.Items[0]))
	e.must(e.gone(ctx, &pods.Items[0]))
	e.must(e.observed(ctx, budget, 1))
	e.must(spent("needs 1 healthy pods and has 1 currently").check(e.evict(ctx, &pods.Items[1])))
	e.node(ctx, "new", true)
	e.must(e.observed(ctx, budget, 2))
	e.must(e.evict(ctx, &pods.Items[1]))
	e.must(e.gone(ctx, &pods.Items[1]))
}

func evictDry(ctx context.Context, e Env) {
	pods, budget := e.budgeted(ctx, 1, 0)
	err := e.evict(ctx, pods[0], func(o *metav1.DeleteOptions) { o.DryRun = []string{metav1.DryRunAll} })
	e.must(err, e.read(ctx, pods[0]), e.read(ctx, budget),
		holds(pods[0].DeletionTimestamp == nil, "the pod is being deleted"), equal("disrupted pods", len(budget.Status.DisruptedPods), 0))
}
