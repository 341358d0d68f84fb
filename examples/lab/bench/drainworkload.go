package bench

import (
	"context"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/machinist-dev/machinist/examples/lab/arm"
	"github.com/machinist-dev/machinist/examples/lab/measure"
)

const never = 1000 * time.Hour

// createNodes creates Nodes, as kubelets would by joining, and waits until kwok has made them Ready and the node lifecycle controller
// has removed their taints.
func (s *scene) createNodes(ctx context.Context, names []string) error {
	nodes := s.client.CoreV1().Nodes()
	err := measure.InParallel(ctx, len(names), func(i int) error {
		labels := s.labels()
		labels[corev1.LabelHostname] = names[i]
		_, err := nodes.Create(ctx, &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: names[i], Labels: labels},
			Spec:       corev1.NodeSpec{ProviderID: arm.ProviderID(names[i])},
		}, metav1.CreateOptions{})
		return err
	})
	if err != nil {
		return fmt.Errorf("create Nodes: %w", err)
	}
	return s.eventually(ctx, func() (string, bool) {
		list, err := nodes.List(ctx, s.selector())
		if err != nil {
			return err.Error(), false
		}
		usable := map[string]bool{}
		for i := range list.Items {
			usable[list.Items[i].Name] = isUsable(&list.Items[i])
		}
		for _, name := range names {
			if !usable[name] {
				return "the Node " + name + " is not Ready", false
			}
		}
		return "", true
	})
}

func isUsable(node *corev1.Node) bool {
	for _, condition := range node.Status.Conditions {
		if condition.Type == corev1.NodeReady {
			return condition.Status == corev1.ConditionTrue && len(node.Spec.Taints) == 0
		}
	}
	return false
}

func podSpec() corev1.PodSpec {
	return corev1.PodSpec{
		Containers:                   []corev1.Container{{Name: "c", Image: "example.com/app"}},
		AutomountServiceAccountToken: new(false),
	}
}

// createPods creates the scenario's pods or their owner, and does not wait.
func (s *scene) createPods(ctx context.Context) error {
	template := corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: s.labels(), Annotations: delayAnnotations(s.termination, s.readyAfter)},
		Spec:       podSpec(),
	}
	template.Spec.NodeSelector = s.labels()
	replicas := new(int32(s.pods))
	selector := &metav1.LabelSelector{MatchLabels: s.labels()}
	var err error
	switch s.owner {
	case replicaSet:
		_, err = s.client.AppsV1().ReplicaSets(namespace).Create(ctx, &appsv1.ReplicaSet{
			ObjectMeta: s.meta(s.name),
			Spec:       appsv1.ReplicaSetSpec{Replicas: replicas, Selector: selector, Template: template},
		}, metav1.CreateOptions{})
	case statefulSet:
		_, err = s.client.AppsV1().StatefulSets(namespace).Create(ctx, &appsv1.StatefulSet{
			ObjectMeta: s.meta(s.name),
			Spec: appsv1.StatefulSetSpec{
				Replicas: replicas, Selector: selector, Template: template, PodManagementPolicy: appsv1.ParallelPodManagement,
			},
		}, metav1.CreateOptions{})
	default:
		nodes := s.drained()
		err = measure.InParallel(ctx, s.nodes*s.pods, func(i int) error {
			return s.createPod(ctx, fmt.Sprintf("%s-%d", s.name, i), nodes[i%len(nodes)], s.readyAfter)
		})
	}
	if err != nil {
		return fmt.Errorf("create pods: %w", err)
	}
	return nil
}

func (s *scene) createPod(ctx context.Context, name, node string, readyAfter time.Duration) error {
	pod := &corev1.Pod{ObjectMeta: s.meta(name), Spec: podSpec()}
	pod.Annotations = delayAnnotations(s.termination, readyAfter)
	pod.Spec.NodeName = node
	_, err := s.client.CoreV1().Pods(namespace).Create(ctx, pod, metav1.CreateOptions{})
	return err
}

// createBudget creates the scenario's budget and waits until the controller manager has counted its pods.
func (s *scene) createBudget(ctx context.Context) error {
	pdb := &policyv1.PodDisruptionBudget{
		ObjectMeta: s.meta(s.name),
		Spec:       policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{MatchLabels: s.labels()}},
	}
	switch s.budget {
	case oneAtATime:
		pdb.Spec.MaxUnavailable = new(intstr.FromInt32(1))
	case closedBudget:
		// One pod more than the budget demands, or it could never open and would not be worth waiting for.
		if err := s.createPod(ctx, s.name+"-unready", s.spare(), never); err != nil {
			return fmt.Errorf("create the pod that never gets ready: %w", err)
		}
		pdb.Spec.MinAvailable = new(intstr.FromInt(s.nodes * s.pods))
	default:
		return nil
	}
	budgets := s.client.PolicyV1().PodDisruptionBudgets(namespace)
	if _, err := budgets.Create(ctx, pdb, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("create the budget: %w", err)
	}
	return s.eventually(ctx, func() (string, bool) {
		got, err := budgets.Get(ctx, s.name, metav1.GetOptions{})
		if err != nil {
			return err.Error(), false
		}
		return s.budgetCounted(got)
	})
}
