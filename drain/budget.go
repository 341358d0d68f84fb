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
)

// violation begins the answer of the API server when a budget refuses an eviction; Cluster API prints it in lower case.
const violation = "cannot evict pod as it would violate the pod's disruption budget."

type budget struct {
	name types.NamespacedName
	obj  *policyv1.PodDisruptionBudget
	at   int // its place in the ledger
	pods []*corev1.Pod
}

// ledger contains the budgets that select Pods of a plan, sorted by name. It is immutable.
type ledger struct {
	budgets []*budget
	of      map[*corev1.Pod][]*budget
}

func newLedger(ds []Decision, budgets []*policyv1.PodDisruptionBudget) ledger {
	if len(budgets) == 0 {
		return ledger{}
	}
	in, worn := map[string][]*corev1.Pod{}, map[label]bool{} // the Pods that the rules let go, by namespace, and their labels
	for i := range ds {
		if pod := ds[i].Pod; ds[i].Intended == Evict || ds[i].Intended == Delete {
			in[pod.Namespace] = append(in[pod.Namespace], pod)
			for key, value := range pod.Labels {
				worn[label{key, value}] = true
			}
		}
	}
	l := ledger{of: make(map[*corev1.Pod][]*budget, len(ds))}
	for _, pdb := range budgets {
		if pods := selected(pdb, in[pdb.Namespace], worn); len(pods) > 0 {
			name := types.NamespacedName{Namespace: pdb.Namespace, Name: pdb.Name}
			l.budgets = append(l.budgets, &budget{name: name, obj: pdb, pods: pods})
		}
	}
	slices.SortStableFunc(l.budgets, func(a, b *budget) int { return compareKeys(a.name, b.name) })
	for at, b := range l.budgets {
		b.at = at
		for _, pod := range b.pods {
			if of := l.of[pod]; !slices.Contains(of, b) { // the Pod may have been passed twice
				l.of[pod] = append(of, b)
			}
		}
	}
	return l
}

// judge decides about a Pod that leaves, like the eviction endpoint (drain-noderef 3.1): some phases ignore budgets, two budgets are an
// error, unready Pods follow unhealthyPodEvictionPolicy (KEP-3017), and all other Pods count. only is the budget that counts the Pod, or
// nil; refusal says why budgets refuse the Pod whatever they still allow, and is empty if they do not.
func (l ledger) judge(pod *corev1.Pod) (only *budget, refusal Reason) {
	budgets := l.of[pod]
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

// counter counts what budgets still allow while a plan is made.
type counter struct {
	ledger
	left []int32  // by place in the ledger
	full []string // what is said about the Pods that a budget holds, once there is one
}

func (l ledger) counter(spent map[types.NamespacedName]int32) counter {
	c := counter{ledger: l, left: make([]int32, len(l.budgets)), full: make([]string, len(l.budgets))}
	for _, b := range l.budgets {
		if !stale(b.obj) {
			c.left[b.at] = max(0, b.obj.Status.DisruptionsAllowed-spent[b.name])
		}
	}
	return c
}

// gate applies the budgets to a Pod that leaves.
func (c counter) gate(d *Decision) {
	d.Budgets = appendNames(d.Budgets, c.of[d.Pod])
	switch b, refusal := c.judge(d.Pod); {
	case refusal == ReasonMultipleBudgets:
		d.hold(Deny, refusal, multipleBudgetsMessage(c.of[d.Pod]))
	case refusal == ReasonBudgetStale:
		d.hold(Wait, refusal,
			fmt.Sprintf("%s The disruption budget %s is still being processed by the server.", violation, b.name.Name))
	case refusal == ReasonBudgetNeverAllows:
		d.hold(Deny, refusal, neverAllowsMessage(b))
	case b == nil:
	case c.left[b.at] == 0:
		if c.full[b.at] == "" {
			c.full[b.at] = exhaustedMessage(b.obj)
		}
		d.hold(Wait, ReasonBudgetExhausted, c.full[b.at])
	default:
		c.left[b.at]--
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
	for i := range pod.Status.Conditions {
		if pod.Status.Conditions[i].Type == corev1.PodReady {
			return pod.Status.Conditions[i].Status == corev1.ConditionTrue
		}
	}
	return false
}

func unreadyMayGo(pdb *policyv1.PodDisruptionBudget) bool {
	if policy := pdb.Spec.UnhealthyPodEvictionPolicy; policy != nil && *policy == policyv1.AlwaysAllow {
		return true
	}
	return pdb.Status.CurrentHealthy >= pdb.Status.DesiredHealthy && pdb.Status.DesiredHealthy > 0
}

func stale(pdb *policyv1.PodDisruptionBudget) bool {
	return pdb.Status.ObservedGeneration < pdb.Generation
}

// neverAllows reports that the budget cannot allow an eviction with its current number of Pods. The counts of a budget whose sync failed
// are not used.
func neverAllows(pdb *policyv1.PodDisruptionBudget) bool {
	st := &pdb.Status
	if st.DisruptionsAllowed > 0 || st.ExpectedPods == 0 || st.ExpectedPods > st.DesiredHealthy || syncFailed(pdb) {
		return false
	}
	if unavailable := pdb.Spec.MaxUnavailable; unavailable != nil {
		return isNone(*unavailable)
	}
	return pdb.Spec.MinAvailable != nil
}

func isNone(v intstr.IntOrString) bool {
	if v.Type == intstr.String {
		return strings.TrimLeft(strings.TrimSuffix(v.StrVal, "%"), "0") == ""
	}
	return v.IntVal == 0
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
		violation, b.name.Name, limit, value.String(), b.obj.Status.ExpectedPods, openBudget(b.obj))
}

// openBudget returns how a person can open a budget that never allows an eviction.
func openBudget(pdb *policyv1.PodDisruptionBudget) string {
	switch least := pdb.Spec.MinAvailable; {
	case pdb.Spec.MaxUnavailable != nil || least == nil:
		return "set maxUnavailable to 1 or more"
	case least.Type == intstr.Int:
		return fmt.Sprintf("lower minAvailable or run more than %d replicas", least.IntVal)
	case strings.TrimLeft(least.StrVal, "0") == "100%":
		return "set minAvailable below 100%"
	default:
		return "lower minAvailable or add replicas"
	}
}

func multipleBudgetsMessage(budgets []*budget) string {
	names := make([]string, 0, len(budgets))
	for _, b := range budgets {
		names = append(names, b.name.Name)
	}
	return fmt.Sprintf("more than one disruption budget selects the Pod (%s), which the eviction API does not support; "+
		"let only one of them select it", strings.Join(names, ", "))
}

// selected returns those of some Pods of its Namespace that a budget selects. The API server lets an invalid selector match nothing, and so
// does one with an invalid label, which no Pod has. In a Namespace with thousands of budgets, few of them select Pods of one Node: those
// that ask for a label that no Pod has are left out first, and a selector is parsed only for Pods that have its labels.
func selected(pdb *policyv1.PodDisruptionBudget, pods []*corev1.Pod, worn map[label]bool) (found []*corev1.Pod) {
	from := pdb.Spec.Selector
	if from == nil {
		return nil
	}
	for key, value := range from.MatchLabels {
		if !worn[label{key, value}] {
			return nil
		}
	}
	for _, pod := range pods {
		if hasLabels(pod, from.MatchLabels) {
			found = append(found, pod)
		}
	}
	if len(found) == 0 || len(from.MatchExpressions) == 0 {
		return found
	}
	selector, err := metav1.LabelSelectorAsSelector(from)
	if err != nil {
		return nil
	}
	return slices.DeleteFunc(found, func(pod *corev1.Pod) bool { return !selector.Matches(labels.Set(pod.Labels)) })
}

type label struct{ key, value string }

func hasLabels(pod *corev1.Pod, wanted map[string]string) bool {
	for key, value := range wanted {
		if got, found := pod.Labels[key]; !found || got != value {
			return false
		}
	}
	return true
}
