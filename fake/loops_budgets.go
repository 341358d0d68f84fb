package fake

import (
	"cmp"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

type budgets struct{ *Store }

func (b *budgets) keys(e event) []objectKey {
	rec := e.record()
	switch rec.kind.GroupKind {
	case budgetKind:
		return []objectKey{keyOf(rec)}
	case podKind, replicaSetKind, deploymentKind:
		var out []objectKey
		for _, budget := range b.registry.kinds[budgetKind].all(rec.key.Namespace) {
			out = append(out, keyOf(budget))
		}
		return out
	}
	return nil
}

func (b *budgets) sync(key objectKey) time.Duration {
	rec := b.lookup(key)
	if rec == nil {
		return 0
	}
	budget := as[*policyv1.PodDisruptionBudget](rec).DeepCopy()
	pods := b.selected(budget)
	expected, desired, err := b.demand(budget, pods)
	if err != nil {
		budget.Status.DisruptionsAllowed = 0
		meta.SetStatusCondition(&budget.Status.Conditions, metav1.Condition{
			Type: policyv1.DisruptionAllowedCondition, Status: metav1.ConditionFalse, Reason: policyv1.SyncFailedReason,
			Message: err.Error(), ObservedGeneration: budget.Status.ObservedGeneration,
		})
		b.setStatus(rec, budget)
		return 0
	}
	disrupted, recheck := stillDisrupted(budget, pods, b.clock.Now())
	healthy := int32(0)
	for _, pod := range pods {
		if _, going := disrupted[pod.Name]; pod.DeletionTimestamp == nil && !going && podReady(pod) {
			healthy++
		}
	}
	allowed := max(0, healthy-desired)
	if expected <= 0 {
		allowed = 0
	}
	budget.Status = policyv1.PodDisruptionBudgetStatus{
		CurrentHealthy: healthy, DesiredHealthy: desired, ExpectedPods: expected, DisruptionsAllowed: allowed,
		DisruptedPods: disrupted, ObservedGeneration: budget.Generation, Conditions: budget.Status.Conditions,
	}
	setAllowedCondition(budget, b.now())
	b.setStatus(rec, budget)
	return recheck
}

func (b *budgets) selected(budget *policyv1.PodDisruptionBudget) []*corev1.Pod {
	var pods []*corev1.Pod
	for _, rec := range b.registry.kinds[podKind].all(budget.Namespace) {
		if selects(budget, rec.meta().GetLabels()) {
			pods = append(pods, as[*corev1.Pod](rec))
		}
	}
	return pods
}

// demand returns how many pods a budget expects and how many must be healthy.
func (b *budgets) demand(budget *policyv1.PodDisruptionBudget, pods []*corev1.Pod) (expected, desired int32, err error) {
	wanted := cmp.Or(budget.Spec.MaxUnavailable, budget.Spec.MinAvailable)
	switch {
	case wanted == nil:
		return 0, 0, nil
	case budget.Spec.MaxUnavailable == nil && wanted.Type == intstr.Int:
		return int32(len(pods)), wanted.IntVal, nil
	}
	if expected, err = b.scaleOf(pods); err != nil {
		return 0, 0, err
	}
	n, err := intstr.GetScaledValueFromIntOrPercent(wanted, int(expected), true)
	if desired = int32(n); budget.Spec.MaxUnavailable != nil {
		desired = max(0, expected-desired)
	}
	return expected, desired, err
}

// stillDisrupted returns the evicted pods whose deletion was not observed, for two minutes each, and the time until the
// next one expires.
func stillDisrupted(budget *policyv1.PodDisruptionBudget, pods []*corev1.Pod, now time.Time) (map[string]metav1.Time, time.Duration) {
	var out map[string]metav1.Time
	recheck := time.Duration(0)
	for _, pod := range pods {
		since, found := budget.Status.DisruptedPods[pod.Name]
		left := since.Add(disruptionTimeout).Sub(now)
		if pod.DeletionTimestamp != nil || !found || left <= 0 {
			continue
		}
		if out == nil {
			out = map[string]metav1.Time{}
		}
		out[pod.Name] = since
		if recheck == 0 || left < recheck {
			recheck = left
		}
	}
	return out, recheck
}
