package runner

import (
	"context"
	"errors"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/cache"

	"github.com/machinist-dev/machinist/drain"
)

// ErrNotListed matches the error of what is not listed yet. It is to be asked again.
var ErrNotListed = errors.New("not listed yet")

// NamespaceLabels returns a function that looks labels up in memory, and must not be called after ctx has ended. It does not wait: the
// error matches ErrNotListed until the namespaces are listed, which begins with the first call.
func (d *ClusterRunner) NamespaceLabels(ctx context.Context) (drain.NamespaceLabels, error) {
	return d.namespaces.labels(ctx)
}

// lazyNamespaces are namespaces that are not listed before a rule asks for their labels. Safe for concurrent use.
type lazyNamespaces struct {
	cache    cache.Cache
	troubles *listTroubles
	wanted   *firstCall

	mu       sync.Mutex
	informer cache.Informer // nil before it was wanted
}

func newLazyNamespaces(c cache.Cache, t *listTroubles) *lazyNamespaces {
	return &lazyNamespaces{cache: c, troubles: t, wanted: newFirstCall()}
}

func (l *lazyNamespaces) labels(ctx context.Context) (drain.NamespaceLabels, error) {
	l.wanted.done()
	l.mu.Lock()
	informer := l.informer
	l.mu.Unlock()
	if informer == nil || !informer.HasSynced() {
		return nil, fmt.Errorf("the Namespaces, whose labels drain rules ask for, are %w; if this lasts, look for missing list and watch permissions%s",
			ErrNotListed, l.troubles.why(&corev1.Namespace{}))
	}
	return func(namespace string) (map[string]string, bool) {
		var found corev1.Namespace
		err := l.cache.Get(ctx, types.NamespacedName{Name: namespace}, &found)
		return found.Labels, err == nil // one that a pod is in and that is not there is one that is not here yet
	}, nil
}

// run has the namespaces listed as soon as a rule asks for their labels.
func (l *lazyNamespaces) run(ctx context.Context) {
	select {
	case <-ctx.Done():
		return
	case <-l.wanted.C:
	}
	untilDone(ctx, func(ctx context.Context) error {
		informer, err := l.cache.GetInformer(ctx, &corev1.Namespace{}, cache.BlockUntilSynced(false))
		if err != nil {
			return err
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		l.informer = informer
		return nil
	})
}

// trimNamespace drops what no rule asks for. Objects from such a cache must not be written back.
func trimNamespace(obj any) {
	if namespace, ok := obj.(*corev1.Namespace); ok {
		namespace.ManagedFields, namespace.Annotations, namespace.OwnerReferences = nil, nil, nil
		namespace.Spec, namespace.Status = corev1.NamespaceSpec{}, corev1.NamespaceStatus{}
	}
}
