package runner

import (
	"context"
	"fmt"
	"time"

	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

// sink is told when there is something new about a Node. It must be quick.
type sink struct {
	wake func(node string, owner types.NamespacedName)
}

// Source returns an event source for a controller: it enqueues the Owner of a Node, after Config.Debounce, when the
// Node's pods change, a budget that holds one of them changes, or a request has ended. Every source gets all owners.
func (r *Runner) Source() source.Source {
	return source.Func(func(ctx context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
		remove := r.addSink(&sink{wake: func(_ string, owner types.NamespacedName) {
			if owner != (types.NamespacedName{}) {
				queue.AddAfter(reconcile.Request{NamespacedName: owner}, r.cfg.Debounce)
			}
		}})
		context.AfterFunc(ctx, remove)
		return nil
	})
}

func (r *Runner) addSink(s *sink) (remove func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sinks[s] = struct{}{}
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.sinks, s)
	}
}

func (r *Runner) wakeNode(node string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.wakeLocked(node)
}

func (r *Runner) wakeLocked(node string) {
	ns := r.nodes[node]
	if ns == nil {
		return
	}
	for s := range r.sinks {
		s.wake(node, ns.owner)
	}
}

func (r *Runner) wakeWaitersLocked(budget types.NamespacedName) {
	for _, node := range r.ring {
		if r.nodes[node].waits[budget] {
			r.wakeLocked(node)
		}
	}
}

// watchBudgets wakes owners when a budget that they wait for changes. It does not wait for the informer. stop is never nil.
func (r *Runner) watchBudgets(ctx context.Context) (stop func(), err error) {
	if r.cfg.Informers == nil {
		return func() {}, nil
	}
	informer, err := r.cfg.Informers.GetInformer(ctx, &policyv1.PodDisruptionBudget{}, cache.BlockUntilSynced(false))
	if err != nil {
		return func() {}, fmt.Errorf("informer of PodDisruptionBudgets: %w", err)
	}
	registration, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc: r.budgetChanged,
		UpdateFunc: func(before, after any) {
			if b, ok := before.(client.Object); ok {
				if a, ok := after.(client.Object); ok && a.GetResourceVersion() == b.GetResourceVersion() {
					return // a resync
				}
			}
			r.budgetChanged(after)
		},
		DeleteFunc: r.budgetChanged,
	})
	if err != nil {
		return func() {}, fmt.Errorf("informer of PodDisruptionBudgets: %w", err)
	}
	r.mu.Lock()
	r.budgetsSynced = informer.HasSynced
	r.mu.Unlock()
	return func() { _ = informer.RemoveEventHandler(registration) }, nil
}

// watchBudgetsLater tries again until ctx ends.
func (r *Runner) watchBudgetsLater(ctx context.Context, err error) {
	stop := func() {}
	p := r.patience(&r.budgetsErr)
	err = p.outlast(ctx, err, func() (err error) {
		stop, err = r.watchBudgets(ctx)
		return err
	})
	defer stop()
	if err == nil {
		p.over()
		<-ctx.Done()
	}
}

// patience tries again what failed because a server cannot be asked now which kinds it serves: it will answer, and a Runner lives as long
// as the connection to its cluster.
type patience struct {
	clock clock.Clock
	tell  func(error) // hears why something cannot be watched, and nil when it is over
}

// patience returns one that notes for Steps what is wrong, and wakes everybody when it is over.
func (r *Runner) patience(wrong *error) *patience {
	return &patience{clock: r.cfg.Clock, tell: func(err error) {
		r.mu.Lock()
		defer r.mu.Unlock()
		*wrong = err
		for _, node := range r.ring {
			if err == nil {
				r.wakeLocked(node)
			}
		}
	}}
}

// outlast calls again, with longer and longer pauses, until it does not fail, or returns the last error when ctx ends. Without patience
// the first one stands.
func (p *patience) outlast(ctx context.Context, err error, again func() error) error {
	const longest = 30 * time.Second
	if p == nil {
		return err
	}
	for pause := time.Second; err != nil; pause = min(2*pause, longest) {
		p.tell(err)
		select {
		case <-ctx.Done():
			return err
		case <-p.clock.After(pause):
		}
		err = again()
	}
	return nil
}

func (p *patience) over() {
	if p != nil {
		p.tell(nil)
	}
}

func (r *Runner) budgetChanged(obj any) {
	if gone, ok := obj.(toolscache.DeletedFinalStateUnknown); ok {
		obj = gone.Obj
	}
	pdb, ok := obj.(client.Object)
	if !ok {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.wakeWaitersLocked(client.ObjectKeyFromObject(pdb))
}
