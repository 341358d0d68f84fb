package runner

import (
	"context"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

// sink is called when the state of a Node changes. It must not block.
type sink struct {
	wake func(node string, owner types.NamespacedName)
}

// Source returns an event source for a controller. It enqueues the Owner of a Node, after Config.Debounce, when the Pods of the Node
// change, a budget that holds one of them changes, or a request is answered. Every source gets all owners.
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
	r.wakeLocked(r.nodes[node])
}

func (r *Runner) wakeAll() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, ns := range r.ring {
		r.wakeLocked(ns)
	}
}

// wakeLocked calls the sinks for a Node; nil is a Node that was released.
func (r *Runner) wakeLocked(ns *nodeState) {
	if ns == nil {
		return
	}
	for s := range r.sinks {
		s.wake(ns.name, ns.owner)
	}
}

// wakeWaitersLocked wakes the Nodes with a Pod that waits for a budget.
func (r *Runner) wakeWaitersLocked(budget types.NamespacedName) {
	for _, ns := range r.ring {
		if ns.waits[budget] {
			r.wakeLocked(ns)
		}
	}
}

// watchBudgets wakes owners when a budget that they wait for changes.
func (r *Runner) watchBudgets(ctx context.Context) error {
	stop, err := r.budgetList.open(ctx, r.budgetChanged)
	if err != nil {
		return err
	}
	defer stop()
	<-ctx.Done()
	return nil
}

func (r *Runner) budgetChanged(pdb client.Object, _ bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.wakeWaitersLocked(client.ObjectKeyFromObject(pdb))
}
