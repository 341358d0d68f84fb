package runner_test

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// budgetsOf returns the stored budgets that select a pod, sorted.
func (s *sim) budgetsOf(pod *corev1.Pod) []*simBudget {
	var found []*simBudget
	for _, key := range inOrder(s.budgets) {
		if b := s.budgets[key]; selects(b.obj, pod) {
			found = append(found, b)
		}
	}
	return found
}

// selects knows only matchLabels: all that the simulation's budgets have.
func selects(pdb *policyv1.PodDisruptionBudget, pod *corev1.Pod) bool {
	if pdb.Namespace != pod.Namespace {
		return false
	}
	for key, value := range pdb.Spec.Selector.MatchLabels {
		if pod.Labels[key] != value {
			return false
		}
	}
	return true
}

// writeBudget changes a copy of a budget and stores it. A changed spec is a new generation.
func (s *sim) writeBudget(b *simBudget, spec bool, change func(*policyv1.PodDisruptionBudget)) {
	obj := b.obj.DeepCopy()
	change(obj)
	obj.ResourceVersion = s.nextVersion()
	if spec {
		obj.Generation++
		b.dirty = true
	}
	b.obj = obj
	s.budgetChanged(obj, false)
	if spec {
		s.planCount(b)
	}
}

func (s *sim) budgetChanged(obj *policyv1.PodDisruptionBudget, gone bool) {
	if s.proc != nil && s.proc.budgets != nil {
		s.proc.budgets.changedAt(obj, gone)
	}
}

func (s *sim) createBudget(obj *policyv1.PodDisruptionBudget) {
	obj.Generation, obj.ResourceVersion, obj.UID = 1, s.nextVersion(), s.nextUID()
	b := &simBudget{obj: obj, dirty: true}
	s.budgets[nameOf(obj)] = b
	s.budgetChanged(obj, false)
	s.planCount(b)
}

func (s *sim) deleteBudget(b *simBudget) {
	delete(s.budgets, nameOf(b.obj))
	s.budgetChanged(b.obj, true)
}

func nameOf(obj metav1.Object) types.NamespacedName {
	return types.NamespacedName{Namespace: obj.GetNamespace(), Name: obj.GetName()}
}

// planCount lets the disruption controller look at a budget soon, or not so soon when it is slow.
func (s *sim) planCount(b *simBudget) {
	if b.counting {
		return
	}
	b.counting = true
	delay := 20*time.Millisecond + s.upTo(700*time.Millisecond)
	if s.trouble.has(troubleSlowCounts) && !s.calm && s.chance(4) {
		delay = s.upTo(25 * time.Second)
	}
	s.after(delay, func() {
		b.counting = false
		if s.budgets[nameOf(b.obj)] == b {
			s.countBudget(b)
		}
	})
}

// countBudget does what the disruption controller does: who is disrupted, who is healthy, how many more may go.
func (s *sim) countBudget(b *simBudget) {
	st := b.obj.Status.DeepCopy()
	expected := int32(0)
	for _, app := range s.apps {
		if selects(b.obj, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: app.ns, Labels: app.labels()}}) {
			expected += int32(app.replicas)
		}
	}
	for name, since := range st.DisruptedPods {
		p := s.pods[types.NamespacedName{Namespace: b.obj.Namespace, Name: name}]
		expires := since.Add(2 * time.Minute)
		switch {
		case p == nil || p.obj.DeletionTimestamp != nil || !time.Now().Before(expires):
			delete(st.DisruptedPods, name)
		default:
			s.after(time.Until(expires), func() { s.planCount(b) })
		}
	}
	healthy := s.healthy(b, st.DisruptedPods)
	st.ExpectedPods, st.CurrentHealthy, st.DesiredHealthy = expected, healthy, desired(b.obj, expected)
	st.DisruptionsAllowed, st.ObservedGeneration = max(0, healthy-st.DesiredHealthy), b.obj.Generation
	st.Conditions = nil
	if s.trouble.has(troubleSlowCounts) && !s.calm && s.chance(12) {
		st.DisruptionsAllowed = 0
		meta.SetStatusCondition(&st.Conditions, metav1.Condition{
			Type: policyv1.DisruptionAllowedCondition, Status: metav1.ConditionFalse, Reason: policyv1.SyncFailedReason, Message: "no scale",
		})
		s.after(s.upTo(20*time.Second), func() { s.planCount(b) })
	}
	b.dirty = false
	if meta.FindStatusCondition(st.Conditions, policyv1.DisruptionAllowedCondition) == nil && equalCounts(st, &b.obj.Status) {
		return
	}
	s.writeBudget(b, false, func(obj *policyv1.PodDisruptionBudget) { obj.Status = *st })
	s.note("count %s: allowed %d, healthy %d of %d, disrupted %d, version %s", nameOf(b.obj), st.DisruptionsAllowed, healthy, expected,
		len(st.DisruptedPods), b.obj.ResourceVersion)
}

// healthy counts the pods of a budget that are ready and stay.
func (s *sim) healthy(b *simBudget, leaving map[string]metav1.Time) int32 {
	n := int32(0)
	for _, p := range s.pods {
		if _, leaves := leaving[p.obj.Name]; !leaves && selects(b.obj, p.obj) && p.obj.DeletionTimestamp == nil && readyPod(p.obj) {
			n++
		}
	}
	return n
}

func equalCounts(a, b *policyv1.PodDisruptionBudgetStatus) bool {
	return a.DisruptionsAllowed == b.DisruptionsAllowed && a.CurrentHealthy == b.CurrentHealthy && a.DesiredHealthy == b.DesiredHealthy &&
		a.ExpectedPods == b.ExpectedPods && a.ObservedGeneration == b.ObservedGeneration && len(a.DisruptedPods) == len(b.DisruptedPods) &&
		len(a.Conditions) == len(b.Conditions)
}

func desired(pdb *policyv1.PodDisruptionBudget, expected int32) int32 {
	if limit := pdb.Spec.MaxUnavailable; limit != nil {
		n, _ := intstr.GetScaledValueFromIntOrPercent(limit, int(expected), true)
		return max(0, expected-int32(n))
	}
	n, _ := intstr.GetScaledValueFromIntOrPercent(pdb.Spec.MinAvailable, int(expected), true)
	return int32(n)
}
