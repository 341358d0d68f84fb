package machine

import (
	"context"

	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// lazyBudgets are PodDisruptionBudgets that nobody lists before the first drain: a server that does not serve them, or does not allow them,
// is no hindrance for what drains nothing. A server that does not serve them has none. The API server holds evictions to budgets by itself.
type lazyBudgets struct {
	cache.Cache

	wanted <-chan struct{}
}

// GetInformer implements runner.Informers. It waits for the first drain; a Runner has nothing to send before that.
func (l *lazyBudgets) GetInformer(ctx context.Context, obj client.Object, opts ...cache.InformerGetOption) (cache.Informer, error) {
	select {
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	case <-l.wanted:
	}
	informer, err := l.Cache.GetInformer(ctx, obj, opts...)
	if meta.IsNoMatchError(err) {
		return noInformer{}, nil
	}
	return informer, err
}

// List lists the budgets of a namespace: none where they are not served.
func (l *lazyBudgets) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	err := l.Cache.List(ctx, list, opts...)
	if _, budgets := list.(*policyv1.PodDisruptionBudgetList); budgets && meta.IsNoMatchError(err) {
		return nil
	}
	return err
}

// noInformer is that of a kind that is not served: it has told all that there is.
type noInformer struct{ cache.Informer }

func (noInformer) HasSynced() bool { return true }

func (noInformer) AddEventHandler(toolscache.ResourceEventHandler) (toolscache.ResourceEventHandlerRegistration, error) {
	return nil, nil //nolint:nilnil // nothing is registered, and RemoveEventHandler gets it back
}

func (noInformer) RemoveEventHandler(toolscache.ResourceEventHandlerRegistration) error { return nil }
