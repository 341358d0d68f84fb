package drain

import (
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
)

const testNode = "node-a"

type podOption func(*corev1.Pod)

func newPod(name string, opts ...podOption) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: name, UID: types.UID("uid-" + name), Labels: map[string]string{"app": "web"},
		},
		Spec: corev1.PodSpec{NodeName: testNode},
		Status: corev1.PodStatus{
			Phase:      corev1.PodRunning,
			Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}},
		},
	}
	for _, opt := range opts {
		opt(pod)
	}
	return pod
}

func onNode(node string) podOption { return func(p *corev1.Pod) { p.Spec.NodeName = node } }
func inPhase(phase corev1.PodPhase) podOption {
	return func(p *corev1.Pod) { p.Status.Phase = phase }
}
func unready(p *corev1.Pod)     { p.Status.Conditions = nil }
func terminating(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{} }
func mirror(p *corev1.Pod)      { p.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "x"} }
func ownedBy(apiVersion, kind string) podOption {
	return func(p *corev1.Pod) {
		controller := true
		p.OwnerReferences = []metav1.OwnerReference{
			{APIVersion: apiVersion, Kind: kind, Name: "owner", UID: "owner", Controller: &controller},
		}
	}
}

type budgetOption func(*policyv1.PodDisruptionBudget)

// newBudget selects app=web with maxUnavailable 1 over 3 healthy pods.
func newBudget(name string, allowed int32, opts ...budgetOption) *policyv1.PodDisruptionBudget {
	one := intstr.FromInt32(1)
	pdb := &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, Generation: 1},
		Spec: policyv1.PodDisruptionBudgetSpec{
			MaxUnavailable: &one,
			Selector:       &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}},
		},
		Status: policyv1.PodDisruptionBudgetStatus{
			ObservedGeneration: 1, DisruptionsAllowed: allowed,
			ExpectedPods: 3, DesiredHealthy: 2, CurrentHealthy: 2 + allowed,
		},
	}
	for _, opt := range opts {
		opt(pdb)
	}
	return pdb
}

func limits(minAvailable, maxUnavailable string) budgetOption {
	parse := func(s string) *intstr.IntOrString {
		if s == "" {
			return nil
		}
		v := intstr.Parse(s)
		return &v
	}
	return func(b *policyv1.PodDisruptionBudget) {
		b.Spec.MinAvailable, b.Spec.MaxUnavailable = parse(minAvailable), parse(maxUnavailable)
	}
}

func healthy(expected, desired, current int32) budgetOption {
	return func(b *policyv1.PodDisruptionBudget) {
		b.Status.ExpectedPods, b.Status.DesiredHealthy, b.Status.CurrentHealthy = expected, desired, current
	}
}

func selecting(s *metav1.LabelSelector) budgetOption {
	return func(b *policyv1.PodDisruptionBudget) { b.Spec.Selector = s }
}

func unobserved(b *policyv1.PodDisruptionBudget) { b.Generation = 2 }

func unhealthyPolicy(p policyv1.UnhealthyPodEvictionPolicyType) budgetOption {
	return func(b *policyv1.PodDisruptionBudget) { b.Spec.UnhealthyPodEvictionPolicy = &p }
}

func syncFailure(b *policyv1.PodDisruptionBudget) {
	b.Status.Conditions = []metav1.Condition{{
		Type: policyv1.DisruptionAllowedCondition, Status: metav1.ConditionFalse,
		Reason: policyv1.SyncFailedReason, Message: "no scale subresource",
	}}
}
