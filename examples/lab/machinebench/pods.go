package main

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"

	"github.com/machinist-dev/machinist/examples/lab/bench"
)

const (
	podsPoll  = time.Second
	podsLimit = 10 * time.Minute
)

// pods are the pods on the Nodes of a fleet while live heap is measured.
type pods struct {
	*fleet

	clientset kubernetes.Interface
	perNode   int
}

func (p *pods) selector() string { return fleetLabel + "=" + p.name }

// run creates the pods on their Nodes and waits until kwok has started all of them.
func (p *pods) run(ctx context.Context) error {
	err := bench.InParallel(ctx, p.machines*p.perNode, func(i int) error {
		node := p.machine(i / p.perNode)
		pod := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{
				Name: fmt.Sprintf("%s-%d", node, i%p.perNode), Namespace: namespace, Labels: map[string]string{fleetLabel: p.name},
			},
			Spec: corev1.PodSpec{
				NodeName: node, Containers: []corev1.Container{{Name: "c", Image: "example.com/app"}},
				AutomountServiceAccountToken: new(false),
			},
		}
		_, err := p.clientset.CoreV1().Pods(namespace).Create(ctx, pod, metav1.CreateOptions{})
		return err
	})
	if err != nil {
		return fmt.Errorf("create pods: %w", err)
	}
	return p.wait(ctx, "not Running", metav1.ListOptions{LabelSelector: p.selector(), FieldSelector: "status.phase!=Running", Limit: 1}, nil)
}

// end removes the pods. One request for all of them may time out, so it is repeated until none is left.
func (p *pods) end(ctx context.Context) error {
	now := int64(0)
	all := metav1.ListOptions{LabelSelector: p.selector(), Limit: 1}
	return p.wait(ctx, "not gone", all, func() {
		_ = p.clientset.CoreV1().Pods(namespace).DeleteCollection(ctx, metav1.DeleteOptions{GracePeriodSeconds: &now},
			metav1.ListOptions{LabelSelector: p.selector()})
	})
}

// wait polls until nothing is listed any more, and calls a function before each poll.
func (p *pods) wait(ctx context.Context, what string, remaining metav1.ListOptions, before func()) error {
	err := wait.PollUntilContextTimeout(ctx, podsPoll, podsLimit, true, func(ctx context.Context) (bool, error) {
		if before != nil {
			before()
		}
		list, err := p.clientset.CoreV1().Pods(namespace).List(ctx, remaining)
		return err == nil && len(list.Items) == 0, ctx.Err()
	})
	if err != nil {
		return fmt.Errorf("some pods are %s: %w", what, err)
	}
	return nil
}
