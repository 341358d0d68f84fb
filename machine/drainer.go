package machine

import (
	"context"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlcluster "sigs.k8s.io/controller-runtime/pkg/cluster"

	"github.com/machinist-dev/machinist/drain/runner"
)

// drainer is a drain runner with what only drains need to know: which volumes are attached, and what namespaces are labelled.
// That is listed when the first Node is drained, so that it is there when the pods have left. It has a cache of its own: a source
// of controller-runtime waits for every informer of its cache, and must not wait for these.
type drainer struct {
	*runner.Runner
	beside     cache.Cache
	volumes    *lazyVolumes
	namespaces *lazyNamespaces
}

// newDrainer returns a drain runner for the Nodes of a cluster, such as a manager, that is yet to be started.
func newDrainer(c ctrlcluster.Cluster) (*drainer, error) {
	clients, err := kubernetes.NewForConfigAndClient(c.GetConfig(), c.GetHTTPClient())
	if err != nil {
		return nil, err
	}
	evictor, err := runner.NewRESTEvictor(clients)
	if err != nil {
		return nil, err
	}
	live, err := client.NewWithWatch(c.GetConfig(), client.Options{
		HTTPClient: c.GetHTTPClient(), Scheme: c.GetScheme(), Mapper: c.GetRESTMapper(),
	})
	if err != nil {
		return nil, err
	}
	pods, err := runner.NewScopedPodSource(live, runner.ScopedOptions{})
	if err != nil {
		return nil, err
	}
	beside, err := cache.New(c.GetConfig(), cache.Options{
		HTTPClient: c.GetHTTPClient(), Scheme: scheme.Scheme, Mapper: c.GetRESTMapper(),
		ByObject: map[client.Object]cache.ByObject{
			&storagev1.VolumeAttachment{}: {Transform: runner.TrimVolumes},
			&corev1.PersistentVolume{}:    {Transform: runner.TrimVolumes},
			&corev1.Namespace{}:           {Transform: trimNamespace},
		},
	})
	if err != nil {
		return nil, fmt.Errorf("cache of volumes: %w", err)
	}
	d := &drainer{beside: beside, volumes: newLazyVolumes(beside), namespaces: newLazyNamespaces(beside)}
	d.Runner, err = runner.New(runner.Config{
		Nodes: c.GetClient(), Pods: pods, Evictor: evictor, Budgets: c.GetCache(), Informers: c.GetCache(), Volumes: d.volumes,
	})
	return d, err
}

// Step implements Drainer.
func (d *drainer) Step(ctx context.Context, req runner.Request) (runner.Result, error) {
	d.volumes.want()
	return d.Runner.Step(ctx, req)
}

// Start implements manager.Runnable.
func (d *drainer) Start(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	var beside sync.WaitGroup
	defer beside.Wait()
	defer cancel()
	beside.Go(func() { _ = d.beside.Start(ctx) }) // fails only when it was started before, and then the Runner was too
	beside.Go(func() { d.namespaces.run(ctx) })
	return d.Runner.Start(ctx)
}
