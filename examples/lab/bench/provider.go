package bench

import (
	"context"
	"fmt"

	"github.com/go-logr/logr"
	"github.com/machinist-dev/machinist/fake"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/machinist-dev/machinist/examples/lab/arm"
)

const (
	clusterName = "bench"
	// poolLabel is on all Machines and Nodes of a run; its value is the run's name.
	poolLabel = "pool"
	// providerWorkers is how many objects the provider reconciles at a time.
	providerWorkers = 20
)

// nodeOf is the Node of an InfraMachine, in a zone.
func nodeOf(infra *unstructured.Unstructured, providerID string) *corev1.Node {
	node := fake.Node(infra.GetName(), providerID)
	node.Labels[corev1.LabelTopologyZone] = zoneOf(node.Name)
	if pool := infra.GetLabels()[poolLabel]; pool != "" {
		node.Labels[poolLabel] = pool
	}
	return node
}

// install creates the objects that both arms need in a namespace, which exists.
func (l *lab) install(ctx context.Context, namespace string, infrastructure bool) error {
	objects := arm.Objects{Client: l.client, Plane: l.plane, Cluster: clusterName, Namespace: namespace, Infrastructure: infrastructure}
	return objects.Install(ctx)
}

// startProvider runs the contract provider in this process until ctx ends: it answers at once, and then a Node joins. more adds to it; nil
// for nothing. What it has cached is l.cached.
func (l *lab) startProvider(ctx context.Context, more func(ctrl.Manager) error) error {
	mgr, err := ctrl.NewManager(l.config("bench-provider"), ctrl.Options{
		Logger: logr.Discard(), Metrics: server.Options{BindAddress: "0"},
		Client: client.Options{Cache: &client.CacheOptions{Unstructured: true}},
		Controller: config.Controller{
			SkipNameValidation: new(true), MaxConcurrentReconciles: providerWorkers,
			UsePriorityQueue: new(false), // it can hang when it is shut down: kubernetes-sigs/controller-runtime#3538
		},
	})
	if err != nil {
		return fmt.Errorf("start the provider: %w", err)
	}
	if more == nil {
		more = func(mgr ctrl.Manager) error {
			if err := (&fake.Infrastructure{Node: nodeOf}).SetupWithManager(mgr); err != nil {
				return err
			}
			return (&fake.Bootstrap{}).SetupWithManager(mgr)
		}
	}
	if err := more(mgr); err != nil {
		return fmt.Errorf("start the provider: %w", err)
	}
	go func() { _ = mgr.Start(ctx) }() // what goes wrong shows in what is waited for
	if !mgr.GetCache().WaitForCacheSync(ctx) {
		return context.Cause(ctx)
	}
	l.cached = mgr.GetClient()
	return nil
}

// members are the Machines of a run, from the cache of the provider: it makes no request.
func (l *lab) members(ctx context.Context, name string) ([]unstructured.Unstructured, error) {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(fake.MachineGVK().GroupVersion().WithKind("MachineList"))
	err := l.cached.List(ctx, list, client.InNamespace(metav1.NamespaceDefault), client.MatchingLabels{poolLabel: name},
		client.UnsafeDisableDeepCopy)
	return list.Items, err
}
