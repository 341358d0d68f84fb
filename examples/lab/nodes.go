package main

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/machinist-dev/machinist/examples/lab/cluster"
	"github.com/machinist-dev/machinist/examples/lab/hollow"
	"github.com/machinist-dev/machinist/machine/provider"
	"github.com/machinist-dev/machinist/machine/userdata"
)

const (
	nodePoll  = 200 * time.Millisecond
	nodeLimit = 2 * time.Minute
)

// startKubelets starts n kubelets from the first-boot data of Machines that have no reconciler.
func startKubelets(ctx context.Context, plane *cluster.ControlPlane, n int) error {
	if n == 0 {
		return nil
	}
	if err := cluster.AllowBootstrap(ctx, plane.Config()); err != nil {
		return err
	}
	driver := hollow.New(plane)
	for i := range n {
		name := fmt.Sprintf("hollow-%d", i)
		doc, err := hollow.FirstBoot(ctx, plane, userdata.Config{Node: userdata.Node{Name: name, OmitUninitialized: true}})
		if err != nil {
			return err
		}
		if _, err := driver.Create(ctx, provider.Request{Token: name, Name: name, UserData: doc.Bytes()}); err != nil {
			return err
		}
	}
	return nil
}

// createNodes creates n Nodes as kubelets would, and waits until kwok has made them Ready and the node lifecycle controller has removed
// their taints, and until the Nodes of others are Ready, too.
func createNodes(ctx context.Context, config *rest.Config, n, others int) error {
	if n+others == 0 {
		return nil
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	nodes := client.CoreV1().Nodes()
	for i := range n {
		name := fmt.Sprintf("node-%d", i)
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{
			Name: name, Labels: map[string]string{corev1.LabelHostname: name},
		}}
		if _, err := nodes.Create(ctx, node, metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("create the Node %s: %w", name, err)
		}
	}
	usable := 0
	err = wait.PollUntilContextTimeout(ctx, nodePoll, nodeLimit, true, func(ctx context.Context) (bool, error) {
		list, err := nodes.List(ctx, metav1.ListOptions{})
		if err != nil {
			return false, err
		}
		usable = 0
		for i := range list.Items {
			if isUsable(&list.Items[i]) {
				usable++
			}
		}
		return usable >= n+others, nil
	})
	if err != nil {
		return fmt.Errorf("wait for %d Nodes, of which %d are Ready: %w", n+others, usable, err)
	}
	return nil
}

func isUsable(node *corev1.Node) bool {
	for _, condition := range node.Status.Conditions {
		if condition.Type == corev1.NodeReady {
			return condition.Status == corev1.ConditionTrue && len(node.Spec.Taints) == 0
		}
	}
	return false
}
