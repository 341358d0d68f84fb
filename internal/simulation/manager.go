package simulation

import (
	"context"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	ctrlmanager "sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/machinist-dev/machinist/machine"
)

// manager is what the reconcilers of a process are added to. It starts the event sources of each controller, never its workers: the World
// passes events to them and reconciles what they put into their queue. What no event and no RequeueAfter wakes is not reconciled.
type manager struct {
	ctrl.Manager // only what is below is used

	process  *process
	client   client.Client
	workload machine.Workload
	added    []startable
	named    string // the controller whose sources are being started
}

// startable is what a controller of controller-runtime has to start its sources alone.
type startable interface {
	reconcile.Reconciler
	Warmup(ctx context.Context) error
}

// GetCache implements cluster.Cluster.
func (m *manager) GetCache() cache.Cache { return m.process.view }

// GetClient implements cluster.Cluster.
func (m *manager) GetClient() client.Client { return m.client }

// GetAPIReader implements cluster.Cluster.
func (m *manager) GetAPIReader() client.Reader { return m.client }

// GetFieldIndexer implements cluster.Cluster.
func (m *manager) GetFieldIndexer() client.FieldIndexer { return m.process.view }

// GetScheme implements cluster.Cluster.
func (*manager) GetScheme() *runtime.Scheme { return clientgoscheme.Scheme }

// GetLogger implements manager.Manager.
func (*manager) GetLogger() logr.Logger { return logr.Discard() }

// GetControllerOptions implements manager.Manager.
func (*manager) GetControllerOptions() config.Controller {
	return config.Controller{SkipNameValidation: new(true), EnableWarmup: new(true), RecoverPanic: new(false), Logger: logr.Discard()}
}

// Add implements manager.Manager.
func (m *manager) Add(r ctrlmanager.Runnable) error {
	c, is := r.(startable)
	if !is {
		return fmt.Errorf("a simulated manager runs controllers only, not %T", r)
	}
	m.added = append(m.added, c)
	return nil
}

// options have the sources of each controller fill the queue of the process.
func (m *manager) options() controller.Options {
	return controller.Options{NewQueue: func(
		name string, _ workqueue.TypedRateLimiter[reconcile.Request],
	) workqueue.TypedRateLimitingInterface[reconcile.Request] {
		m.named = name
		return wakes{process: m.process, controller: name}
	}}
}

// listen starts the sources of all controllers.
func (m *manager) listen(ctx context.Context) error {
	for _, c := range m.added {
		if err := c.Warmup(ctx); err != nil {
			return fmt.Errorf("start the sources of a controller after %s: %w", m.named, err)
		}
		m.process.controllers[m.named] = c
	}
	m.process.introduce()
	return nil
}

// wakes is the queue of a controller.
type wakes struct {
	workqueue.TypedRateLimitingInterface[reconcile.Request] // only what is below is used

	process    *process
	controller string
}

// Add implements workqueue.TypedInterface.
func (w wakes) Add(r reconcile.Request) { w.AddAfter(r, 0) }

// AddRateLimited implements workqueue.TypedRateLimitingInterface.
func (w wakes) AddRateLimited(r reconcile.Request) { w.AddAfter(r, 0) }

// AddAfter implements workqueue.TypedDelayingInterface.
func (w wakes) AddAfter(r reconcile.Request, after time.Duration) {
	w.process.wake(w.controller, r.NamespacedName, after)
}

// ShutDown implements workqueue.TypedInterface.
func (wakes) ShutDown() {}
