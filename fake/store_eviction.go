package fake

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

const (
	violation      = "Cannot evict pod as it would violate the pod's disruption budget."
	severalBudgets = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
	mostDisrupted  = 2000
)

// evict answers POST pods/eviction like kube-apiserver 1.36. A Failure status with a nil error is a response that the API server sends with
// code 201.
func (s *Store) evict(key types.NamespacedName, body []byte, dryRun bool) (*metav1.Status, error) {
	eviction := policyv1.Eviction{}
	if err := json.Unmarshal(body, &eviction); err != nil {
		return nil, apierrors.NewBadRequest("not an Eviction object: " + err.Error())
	}
	if eviction.Name != key.Name {
		return nil, apierrors.NewBadRequest("name in URL does not match name in Eviction object")
	}
	pods := s.registry.kinds[podKind]
	if err := s.admitNamespace(pods.groupResource(), key.Namespace, key.Name); err != nil {
		return nil, err
	}
	rec := pods.get(key)
	if rec == nil {
		return nil, apierrors.NewNotFound(pods.groupResource(), key.Name)
	}
	options := metav1.DeleteOptions{}
	if eviction.DeleteOptions != nil {
		options = *eviction.DeleteOptions
	}
	if dryRun {
		options.DryRun = []string{metav1.DryRunAll}
	}
	status, budget, err := s.checkBudgets(rec)
	if status != nil || err != nil {
		return status, err
	}
	if budget != nil && len(options.DryRun) == 0 {
		if err := s.decrement(budget, key.Name); err != nil {
			return nil, err
		}
	}
	if err := s.disruptAndDelete(rec, options); err != nil {
		return nil, err
	}
	return &metav1.Status{Status: metav1.StatusSuccess, Code: http.StatusCreated}, nil
}

// checkBudgets returns the budget that must allow the eviction of a pod, nil if there is none, or the refusal.
func (s *Store) checkBudgets(rec *record) (*metav1.Status, *record, error) {
	pod := as[*corev1.Pod](rec)
	switch pod.Status.Phase {
	case corev1.PodPending, corev1.PodSucceeded, corev1.PodFailed:
		return nil, nil, nil
	}
	if pod.DeletionTimestamp != nil {
		return nil, nil, nil
	}
	budgets := s.budgetsOf(pod)
	switch len(budgets) {
	case 0:
		return nil, nil, nil
	case 1:
	default:
		return &metav1.Status{Status: metav1.StatusFailure, Code: http.StatusInternalServerError, Message: severalBudgets}, nil, nil
	}
	budget := as[*policyv1.PodDisruptionBudget](budgets[0])
	if !podReady(pod) {
		policy := budget.Spec.UnhealthyPodEvictionPolicy
		healthy := budget.Status.CurrentHealthy >= budget.Status.DesiredHealthy && budget.Status.DesiredHealthy > 0
		if policy != nil && *policy == policyv1.AlwaysAllow || healthy {
			return nil, nil, nil
		}
	}
	return nil, budgets[0], refusal(budget)
}

func (s *Store) budgetsOf(pod *corev1.Pod) []*record {
	var out []*record
	for _, rec := range s.registry.kinds[budgetKind].all(pod.Namespace) {
		if selects(as[*policyv1.PodDisruptionBudget](rec), pod.Labels) {
			out = append(out, rec)
		}
	}
	return out
}

func selects(budget *policyv1.PodDisruptionBudget, pod labels.Set) bool {
	selector, err := metav1.LabelSelectorAsSelector(budget.Spec.Selector)
	return err == nil && selector.Matches(pod)
}

func refusal(b *policyv1.PodDisruptionBudget) error {
	gr := schema.GroupResource{Group: policyv1.GroupName, Resource: "poddisruptionbudget"} // singular, as in the API server
	switch {
	case b.Status.ObservedGeneration < b.Generation:
		return tooManyRequests(10, fmt.Sprintf("The disruption budget %s is still being processed by the server.", b.Name))
	case b.Status.DisruptionsAllowed < 0:
		return apierrors.NewForbidden(gr, b.Name, fmt.Errorf("pdb disruptions allowed is negative"))
	case len(b.Status.DisruptedPods) > mostDisrupted:
		return apierrors.NewForbidden(gr, b.Name, fmt.Errorf("DisruptedPods map too big - too many evictions not confirmed by PDB controller"))
	case b.Status.DisruptionsAllowed > 0:
		return nil
	}
	condition := meta.FindStatusCondition(b.Status.Conditions, policyv1.DisruptionAllowedCondition)
	because := condition != nil && condition.Status == metav1.ConditionFalse && condition.Message != ""
	switch {
	case because && condition.Reason == policyv1.SyncFailedReason:
		return tooManyRequests(0, fmt.Sprintf("The disruption budget %s does not allow evicting pods currently because it failed sync: %s",
			b.Name, condition.Message))
	case b.Status.CurrentHealthy <= b.Status.DesiredHealthy:
		return tooManyRequests(0, fmt.Sprintf("The disruption budget %s needs %d healthy pods and has %d currently", b.Name,
			b.Status.DesiredHealthy, b.Status.CurrentHealthy))
	case because:
		return tooManyRequests(0, fmt.Sprintf("The disruption budget %s does not allow evicting pods currently (%s): %s", b.Name,
			condition.Reason, condition.Message))
	}
	return tooManyRequests(0, fmt.Sprintf("The disruption budget %s does not allow evicting pods currently", b.Name))
}

func tooManyRequests(seconds int, cause string) error {
	err := apierrors.NewTooManyRequests(violation, seconds)
	err.ErrStatus.Details.Causes = append(err.ErrStatus.Details.Causes,
		metav1.StatusCause{Type: policyv1.DisruptionBudgetCause, Message: cause})
	return err
}

// decrement takes one disruption from a budget and records the pod, so that the budget loop does not count it as healthy.
func (s *Store) decrement(rec *record, pod string) error {
	budget := as[*policyv1.PodDisruptionBudget](rec).DeepCopy()
	budget.Status.DisruptionsAllowed--
	if budget.Status.DisruptionsAllowed == 0 {
		setAllowedCondition(budget, s.now())
	}
	if budget.Status.DisruptedPods == nil {
		budget.Status.DisruptedPods = map[string]metav1.Time{}
	}
	budget.Status.DisruptedPods[pod] = s.now()
	return s.writeStatus(rec, budget)
}

func (s *Store) disruptAndDelete(rec *record, options metav1.DeleteOptions) error {
	if p := options.Preconditions; p != nil && p.UID != nil && *p.UID == "" { // an eviction, unlike a delete, may leave it empty
		options.Preconditions = &metav1.Preconditions{ResourceVersion: p.ResourceVersion}
	}
	if err := checkPreconditions(rec, options.Preconditions); err != nil {
		return err
	}
	if len(options.DryRun) == 0 {
		pod := as[*corev1.Pod](rec).DeepCopy()
		setPodCondition(pod, corev1.PodCondition{
			Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue,
			Reason: "EvictionByEvictionAPI", Message: "Eviction API: evicting",
		}, s.now())
		if err := s.writeStatus(rec, pod); err != nil {
			return err
		}
	}
	if options.Preconditions != nil {
		options.Preconditions = &metav1.Preconditions{UID: options.Preconditions.UID} // the status write changed the version
	}
	_, _, err := s.delete(rec.kind, rec.key, options)
	return err
}

// writeStatus stores the status of a typed object made from rec.
func (s *Store) writeStatus(rec *record, typed runtime.Object) error {
	apply := func(*record) (map[string]any, error) { return contentOf(typed) }
	_, err := s.update(change{kind: rec.kind, key: rec.key, status: true, apply: apply})
	return err
}

// bind answers POST pods/binding.
func (s *Store) bind(key types.NamespacedName, body []byte, dryRun bool) (*metav1.Status, error) {
	binding := corev1.Binding{}
	if err := json.Unmarshal(body, &binding); err != nil {
		return nil, apierrors.NewBadRequest("not a Binding object: " + err.Error())
	}
	pods := s.registry.kinds[podKind]
	rec := pods.get(key)
	if rec == nil {
		return nil, apierrors.NewNotFound(pods.groupResource(), key.Name)
	}
	pod := as[*corev1.Pod](rec).DeepCopy()
	var reason error
	switch {
	case binding.UID != "" && binding.UID != pod.UID:
		//nolint:staticcheck // the server's text
		reason = fmt.Errorf("Precondition failed: UID in precondition: %v, UID in object meta: %v", binding.UID, pod.UID)
	case pod.DeletionTimestamp != nil:
		reason = fmt.Errorf("pod %s is being deleted, cannot be assigned to a host", pod.Name)
	case pod.Spec.NodeName != "":
		reason = fmt.Errorf("pod %v is already assigned to node %q", pod.Name, pod.Spec.NodeName)
	case len(pod.Spec.SchedulingGates) > 0:
		reason = fmt.Errorf("pod %v has non-empty .spec.schedulingGates", pod.Name)
	}
	if reason != nil {
		return nil, apierrors.NewConflict(schema.GroupResource{Resource: "pods/binding"}, key.Name, reason)
	}
	pod.Spec.NodeName = binding.Target.Name
	setPodCondition(pod, corev1.PodCondition{Type: corev1.PodScheduled, Status: corev1.ConditionTrue}, s.now())
	if !dryRun {
		content, err := contentOf(pod)
		if err != nil {
			return nil, err
		}
		if _, err := s.store(rec.kind, key, content); err != nil {
			return nil, err
		}
	}
	return &metav1.Status{Status: metav1.StatusSuccess, Code: http.StatusCreated}, nil
}

func podReady(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

func setPodCondition(pod *corev1.Pod, c corev1.PodCondition, now metav1.Time) {
	c.LastTransitionTime = now
	for i, old := range pod.Status.Conditions {
		if old.Type != c.Type {
			continue
		}
		if old.Status == c.Status {
			c.LastTransitionTime = old.LastTransitionTime
		}
		pod.Status.Conditions[i] = c
		return
	}
	pod.Status.Conditions = append(pod.Status.Conditions, c)
}

func setAllowedCondition(b *policyv1.PodDisruptionBudget, now metav1.Time) {
	c := metav1.Condition{
		Type: policyv1.DisruptionAllowedCondition, Status: metav1.ConditionFalse, Reason: policyv1.InsufficientPodsReason,
		ObservedGeneration: b.Status.ObservedGeneration, LastTransitionTime: now.Rfc3339Copy(),
	}
	if b.Status.DisruptionsAllowed > 0 {
		c.Status, c.Reason = metav1.ConditionTrue, policyv1.SufficientPodsReason
	}
	meta.SetStatusCondition(&b.Status.Conditions, c)
}

const disruptionTimeout = 2 * time.Minute
