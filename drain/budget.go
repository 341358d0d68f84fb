package drain

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
)

// violation is the prefix of the API server's response when a budget refuses an eviction; Cluster API prints it in lower case.
const violation = "cannot evict pod as it would violate the pod's disruption budget."

type budget struct {
	name types.NamespacedName
	obj  *policyv1.PodDisruptionBudget
}

// ledger maps each Pod that must leave to the budgets that select it, sorted by name. It is immutable.
type ledger map[*corev1.Pod][]*budget

func newLedger(ds []Decision, budgets []*policyv1.PodDisruptionBudget) ledger {
	in := map[string][]*corev1.Pod{} // by Namespace
	for i := range ds {
		if pod := ds[i].Pod; ds[i].Intended.leaves() {
			in[pod.Namespace] = append(in[pod.Namespace], pod)
		}
	}
	l := ledger{}
	for _, pdb := range budgets {
		b := &budget{name: types.NamespacedName{Namespace: pdb.Namespace, Name: pdb.Name}, obj: pdb}
		selector, err := metav1.LabelSelectorAsSelector(pdb.Spec.Selector)
		if err != nil {
			continue // the API server lets an invalid selector match nothing
		}
		for _, pod := range in[pdb.Namespace] {
			if selector.Matches(labels.Set(pod.Labels)) && !slices.Contains(l[pod], b) { // the Pod may have been passed twice
				l[pod] = append(l[pod], b)
			}
		}
	}
	for _, of := range l {
		slices.SortStableFunc(of, func(a, b *budget) int { return compareKeys(a.name, b.name) })
	}
	return l
}

// judge decides about a Pod that leaves, like the eviction endpoint (drain-noderef 3.1): some phases ignore budgets, two budgets are an
// error, unready Pods follow unhealthyPodEvictionPolicy (KEP-3017), and all other Pods count. only is the budget that counts the Pod, or
// nil. refusal is why budgets refuse the Pod even if they allow disruptions; it is empty if they do not refuse it.
func (l ledger) judge(pod *corev1.Pod) (only *budget, refusal Reason) {
	budgets := l[pod]
	switch {
	case len(budgets) == 0 || outsideBudgets(pod):
		return nil, ""
	case len(budgets) > 1:
		return nil, ReasonMultipleBudgets
	}
	switch only = budgets[0]; {
	case !ready(pod) && unreadyMayGo(only.obj):
		return nil, ""
	case stale(only.obj):
		return only, ReasonBudgetStale
	case neverAllows(only.obj):
		return only, ReasonBudgetNeverAllows
	}
	return only, ""
}

// gate applies the budgets to a Pod that leaves. spent counts, per budget, the evictions that its status does not show yet.
func (l ledger) gate(d *Decision, spent map[types.NamespacedName]int32) {
	d.Budgets = appendNames(d.Budgets, l[d.Pod])
	switch b, refusal := l.judge(d.Pod); {
	case refusal == ReasonMultipleBudgets:
		d.hold(Deny, refusal, multipleBudgetsMessage(l[d.Pod]))
	case refusal == ReasonBudgetStale:
		d.hold(Wait, refusal,
			fmt.Sprintf("%s The disruption budget %s is still being processed by the server.", violation, b.name.Name))
	case refusal == ReasonBudgetNeverAllows:
		d.hold(Deny, refusal, neverAllowsMessage(b))
	case b == nil:
	case b.obj.Status.DisruptionsAllowed <= spent[b.name]:
		d.hold(Wait, ReasonBudgetExhausted, exhaustedMessage(b.obj))
	default:
		spent[b.name]++
		d.TakesToken = true
	}
}

func appendNames(names []types.NamespacedName, budgets []*budget) []types.NamespacedName {
	for _, b := range budgets {
		names = append(names, b.name)
	}
	return names
}

// outsideBudgets reports whether the API server ignores budgets for a Pod.
func outsideBudgets(pod *corev1.Pod) bool {
	return finished(pod) || pod.Status.Phase == corev1.PodPending || pod.DeletionTimestamp != nil
}

func ready(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

func unreadyMayGo(pdb *policyv1.PodDisruptionBudget) bool {
	if ptr.Deref(pdb.Spec.UnhealthyPodEvictionPolicy, "") == policyv1.AlwaysAllow {
		return true
	}
	return pdb.Status.CurrentHealthy >= pdb.Status.DesiredHealthy && pdb.Status.DesiredHealthy > 0
}

func stale(pdb *policyv1.PodDisruptionBudget) bool {
	return pdb.Status.ObservedGeneration < pdb.Generation
}

// neverAllows reports whether the budget cannot allow an eviction with its current number of Pods. The counts of a budget whose sync failed
// are ignored.
func neverAllows(pdb *policyv1.PodDisruptionBudget) bool {
	st := &pdb.Status
	if st.DisruptionsAllowed > 0 || st.ExpectedPods == 0 || st.ExpectedPods > st.DesiredHealthy || syncFailed(pdb) {
		return false
	}
	if unavailable := pdb.Spec.MaxUnavailable; unavailable != nil {
		count, err := intstr.GetScaledValueFromIntOrPercent(unavailable, int(st.ExpectedPods), true)
		return err == nil && count == 0
	}
	return pdb.Spec.MinAvailable != nil
}

func syncFailed(pdb *policyv1.PodDisruptionBudget) bool {
	c := meta.FindStatusCondition(pdb.Status.Conditions, policyv1.DisruptionAllowedCondition)
	return c != nil && c.Status == metav1.ConditionFalse && c.Reason == policyv1.SyncFailedReason
}

func exhaustedMessage(pdb *policyv1.PodDisruptionBudget) string {
	if st := &pdb.Status; st.CurrentHealthy <= st.DesiredHealthy && !syncFailed(pdb) {
		return fmt.Sprintf("%s The disruption budget %s needs %d healthy pods and has %d currently",
			violation, pdb.Name, st.DesiredHealthy, st.CurrentHealthy)
	}
	return fmt.Sprintf("%s The disruption budget %s does not allow evicting pods currently", violation, pdb.Name)
}

func neverAllowsMessage(b *budget) string {
	limit := "minAvailable"
	var value *intstr.IntOrString
	if value = b.obj.Spec.MinAvailable; b.obj.Spec.MaxUnavailable != nil {
		limit, value = "maxUnavailable", b.obj.Spec.MaxUnavailable
	}
	return fmt.Sprintf("%s The disruption budget %s with %s %s can never allow one while it covers %d pods; %s",
		violation, b.name.Name, limit, value.String(), b.obj.Status.ExpectedPods, openBudget)
}

// openBudget is the remedy for a budget that never allows an eviction.
const openBudget = "raise maxUnavailable, lower minAvailable or add replicas"

func multipleBudgetsMessage(budgets []*budget) string {
	names := make([]string, 0, len(budgets))
	for _, b := range budgets {
		names = append(names, b.name.Name)
	}
	return fmt.Sprintf("more than one disruption budget selects the Pod (%s), which the eviction API does not support; "+
		"let only one of them select it", strings.Join(names, ", "))
}
