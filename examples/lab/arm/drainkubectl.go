package arm

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/machinist-dev/machinist/drain"
	"github.com/machinist-dev/machinist/drain/kubectl"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// kubectlArm is kubectl's drain helper with the settings of the kubectl command: 5 s between attempts, 500 pods per list. The
// command drains one Node after the other; here each has its own call, as in an operator with enough workers.
type kubectlArm struct{ client kubernetes.Interface }

func startKubectl(config *rest.Config) (Drainer, error) {
	clientset, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("start kubectl's arm: %w", err)
	}
	return &kubectlArm{client: clientset}, nil
}

// Drain implements Drainer.
func (k *kubectlArm) Drain(ctx context.Context, nodes []string) error {
	results := make(chan error, len(nodes))
	for _, node := range nodes {
		go func() { results <- k.drainOne(ctx, node) }()
	}
	return inTime(ctx, func() error {
		var errs []error
		for range nodes {
			errs = append(errs, <-results)
		}
		return errors.Join(errs...)
	})
}

// drainOne does what the command does with one Node: read it, cordon it, list its pods, evict them.
func (k *kubectlArm) drainOne(ctx context.Context, name string) error {
	helper, err := kubectl.NewHelper(ctx, k.client, kubectl.HelperOptions{
		Options: kubectl.Options{KubectlOptions: drain.KubectlOptions{Force: true, IgnoreAllDaemonSets: true, DeleteEmptyDirData: true}},
		Timeout: 24 * time.Hour,
	})
	if err != nil {
		return err
	}
	nodes := k.client.CoreV1().Nodes()
	node, err := nodes.Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	if !node.Spec.Unschedulable {
		cordon := []byte(`{"spec":{"unschedulable":true}}`)
		if _, err := nodes.Patch(ctx, name, types.StrategicMergePatchType, cordon, metav1.PatchOptions{}); err != nil {
			return fmt.Errorf("cordon %s: %w", name, err)
		}
	}
	pods, errs := helper.GetPodsForDeletion(name)
	if len(errs) > 0 {
		return errors.Join(errs...)
	}
	return helper.DeleteOrEvictPods(pods.Pods())
}

// Close implements Drainer.
func (k *kubectlArm) Close() {}

// inTime calls f and gives up on it when ctx ends: kubectl's helper does not look at its context while it sleeps.
func inTime(ctx context.Context, f func() error) error {
	done := make(chan error, 1)
	go func() { done <- f() }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return errors.Join(context.Cause(ctx), ctx.Err())
	}
}
