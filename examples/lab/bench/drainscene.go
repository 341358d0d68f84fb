package bench

import (
	"context"
	"fmt"
	"time"

	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"

	"github.com/machinist-dev/machinist/examples/lab/measure"
)

const (
	namespace = metav1.NamespaceDefault
	// sceneLabel is on everything of a scene; its value is the scene's name.
	sceneLabel = "bench.machinist.dev/scene"
	scenePoll  = 50 * time.Millisecond
	sceneLimit = 5 * time.Minute

	cleanUpTries = 60
	cleanUpPause = time.Second
)

// scene is what one arm drains in one scenario and round: Nodes, pods, their owner and their budget, all of its own.
type scene struct {
	scenario

	name   string
	client kubernetes.Interface
	seen   *recorder
	opened time.Time // just before the budget was opened; zero if it was not
}

func newScene(s scenario, name string, round int, client kubernetes.Interface) *scene {
	return &scene{scenario: s, name: fmt.Sprintf("s%d-%s-%d", s.number, name, round), client: client}
}

// drained are the names of the Nodes to drain.
func (s *scene) drained() []string {
	names := make([]string, 0, s.nodes)
	for i := range s.nodes {
		names = append(names, fmt.Sprintf("%s-%d", s.name, i))
	}
	return names
}

func (s *scene) spare() string { return s.name + "-spare" }

// hasSpare reports whether there is a Node that stays.
func (s *scene) hasSpare() bool { return s.owner != noOwner || s.budget == closedBudget }

func (s *scene) labels() map[string]string { return map[string]string{sceneLabel: s.name} }

func (s *scene) meta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: s.labels()}
}

func (s *scene) selector() metav1.ListOptions {
	return metav1.ListOptions{LabelSelector: sceneLabel + "=" + s.name}
}

// setUp returns when all Nodes and pods are ready and the budget, if there is one, has counted them. The spare Node comes last, so that
// the scheduler finds only the Node that is to be drained.
func (s *scene) setUp(ctx context.Context) error {
	if err := s.createNodes(ctx, s.drained()); err != nil {
		return err
	}
	if err := s.createPods(ctx); err != nil {
		return err
	}
	err := s.eventually(ctx, func() (string, bool) {
		ready := s.seen.ready(s.drained())
		return fmt.Sprintf("%d of %d pods are ready", ready, s.nodes*s.pods), ready == s.nodes*s.pods
	})
	if err != nil {
		return err
	}
	if s.hasSpare() {
		if err := s.createNodes(ctx, []string{s.spare()}); err != nil {
			return err
		}
	}
	return s.createBudget(ctx)
}

// eventually polls until check is content, and fails with what it returned last.
func (s *scene) eventually(ctx context.Context, check func() (string, bool)) error {
	last := ""
	err := wait.PollUntilContextTimeout(ctx, scenePoll, sceneLimit, true, func(context.Context) (bool, error) {
		text, ok := check()
		last = text
		return ok, nil
	})
	if err != nil {
		return fmt.Errorf("%s: %w", last, err)
	}
	return nil
}

// openBudget lets everything go. The controller manager puts that into the budget's status, which is what counts.
func (s *scene) openBudget(ctx context.Context) error {
	s.opened = time.Now()
	_, err := s.client.PolicyV1().PodDisruptionBudgets(namespace).
		Patch(ctx, s.name, types.MergePatchType, []byte(`{"spec":{"minAvailable":0}}`), metav1.PatchOptions{})
	if err != nil {
		return fmt.Errorf("open the budget: %w", err)
	}
	return nil
}

// deletePods deletes the first n pods of the StatefulSet.
func (s *scene) deletePods(ctx context.Context, n int) error {
	for i := range n {
		err := s.client.CoreV1().Pods(namespace).Delete(ctx, fmt.Sprintf("%s-%d", s.name, i), metav1.DeleteOptions{})
		if err != nil {
			return fmt.Errorf("delete a pod beside the drain: %w", err)
		}
	}
	return nil
}

// cleanUp removes the scene and waits until its pods are gone, so that they do not keep the next one busy. It goes on after
// an error and when ctx has ended it does nothing: the control plane is about to go as a whole.
func (s *scene) cleanUp(ctx context.Context) {
	if ctx.Err() != nil {
		return
	}
	background := metav1.DeletePropagationBackground
	gone := metav1.DeleteOptions{PropagationPolicy: &background}
	now := int64(0)
	_ = s.client.AppsV1().ReplicaSets(namespace).DeleteCollection(ctx, gone, s.selector())
	_ = s.client.AppsV1().StatefulSets(namespace).DeleteCollection(ctx, gone, s.selector())
	_ = s.client.PolicyV1().PodDisruptionBudgets(namespace).DeleteCollection(ctx, gone, s.selector())
	for try := 0; s.seen.alive() > 0 && try < cleanUpTries; try++ { // a controller may create some more while it is being deleted
		_ = s.client.CoreV1().Pods(namespace).DeleteCollection(ctx, metav1.DeleteOptions{GracePeriodSeconds: &now}, s.selector())
		_ = measure.Sleep(ctx, cleanUpPause)
	}
	_ = s.client.CoreV1().Nodes().DeleteCollection(ctx, gone, s.selector())
}

// budgetCounted reports whether the budget's status is what the scenario starts from.
func (s *scene) budgetCounted(pdb *policyv1.PodDisruptionBudget) (string, bool) {
	st := &pdb.Status
	counted := st.ObservedGeneration == pdb.Generation && int(st.CurrentHealthy) == s.nodes*s.pods
	if s.budget == closedBudget {
		counted = counted && int(st.ExpectedPods) == s.nodes*s.pods+1 && st.DisruptionsAllowed == 0
	} else {
		counted = counted && st.DisruptionsAllowed == 1
	}
	return fmt.Sprintf("the budget counts %d healthy of %d, %d allowed", st.CurrentHealthy, st.ExpectedPods, st.DisruptionsAllowed), counted
}
