package runner

import (
	"context"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// nodeWatch is the store that a reflector fills with the pods of one Node. The reflector retries some errors without
// telling anybody, so the list and watch calls report their own failures here.
type nodeWatch struct {
	node   string
	cancel context.CancelFunc // guarded by the source's mutex

	mu      sync.Mutex
	pods    map[types.NamespacedName]*corev1.Pod
	synced  bool
	err     error
	changed func(string)
}

var _ cache.ReflectorStore = (*nodeWatch)(nil)

func newNodeWatch(node string) *nodeWatch {
	return &nodeWatch{node: node, pods: map[types.NamespacedName]*corev1.Pod{}}
}

func (w *nodeWatch) notify(changed func(string)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.changed = changed
}

func (w *nodeWatch) snapshot() ([]*corev1.Pod, bool, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	pods := make([]*corev1.Pod, 0, len(w.pods))
	for _, pod := range w.pods {
		pods = append(pods, pod)
	}
	return pods, w.synced && w.err == nil, w.err
}

// change runs f under the lock and then tells the listener, outside of it.
func (w *nodeWatch) change(f func()) {
	w.mu.Lock()
	f()
	changed := w.changed
	w.mu.Unlock()
	if changed != nil {
		changed(w.node)
	}
}

func (w *nodeWatch) failed(err error) {
	w.change(func() { w.err = err })
}

// reached says that a watch was opened: the store follows again from where it stood.
func (w *nodeWatch) reached() {
	w.mu.Lock()
	again := w.err != nil
	w.mu.Unlock()
	if again {
		w.change(func() { w.err = nil })
	}
}

// Add implements cache.ReflectorStore.
func (w *nodeWatch) Add(obj any) error { return w.Update(obj) }

// Update implements cache.ReflectorStore. Servers that ignore field selectors on watches send pods of other Nodes.
func (w *nodeWatch) Update(obj any) error {
	pod, err := asPod(obj)
	if err != nil {
		return err
	}
	if pod.Spec.NodeName != w.node {
		return nil
	}
	w.change(func() { w.pods[client.ObjectKeyFromObject(pod)] = pod })
	return nil
}

// Delete implements cache.ReflectorStore.
func (w *nodeWatch) Delete(obj any) error {
	pod, err := asPod(obj)
	if err != nil {
		return err
	}
	key := client.ObjectKeyFromObject(pod)
	w.mu.Lock()
	known := w.pods[key]
	w.mu.Unlock()
	if known == nil || known.UID != pod.UID {
		return nil
	}
	w.change(func() { delete(w.pods, key) })
	return nil
}

// Replace implements cache.ReflectorStore.
func (w *nodeWatch) Replace(list []any, _ string) error {
	pods := make(map[types.NamespacedName]*corev1.Pod, len(list))
	for _, obj := range list {
		pod, err := asPod(obj)
		if err != nil {
			return err
		}
		if pod.Spec.NodeName == w.node {
			pods[client.ObjectKeyFromObject(pod)] = pod
		}
	}
	w.change(func() { w.pods, w.synced, w.err = pods, true, nil })
	return nil
}

// Resync implements cache.ReflectorStore; nothing is ever resynced.
func (w *nodeWatch) Resync() error { return nil }

func asPod(obj any) (*corev1.Pod, error) {
	pod, ok := obj.(*corev1.Pod)
	if !ok {
		return nil, fmt.Errorf("want a Pod from the watch, got %T", obj)
	}
	return pod, nil
}

// nodeListWatch watches the pods of one Node through a controller-runtime client. Servers that stream lists send what is
// there through the watch, which is one request; of others it asks for a list first, which is client-go's own fallback.
type nodeListWatch struct {
	*cache.ListWatch
	client client.WithWatch
	watch  *nodeWatch
}

var _ cache.ListerWatcherWithContext = (*nodeListWatch)(nil)

func newNodeListWatch(c client.WithWatch, w *nodeWatch) *nodeListWatch {
	l := &nodeListWatch{client: c, watch: w}
	l.ListWatch = &cache.ListWatch{ListWithContextFunc: l.list, WatchFuncWithContext: l.open}
	return l
}

// list always asks for a consistent read: resource version 0, the reflector's first choice, may be answered from a cache
// that has not seen the newest pods.
func (l *nodeListWatch) list(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error) {
	opts.ResourceVersion, opts.ResourceVersionMatch = "", ""
	pods := &corev1.PodList{}
	if err := l.client.List(ctx, pods, l.options(&opts)); err != nil {
		l.report(ctx, fmt.Errorf("list: %w", err))
		return nil, err
	}
	return pods, nil
}

func (l *nodeListWatch) open(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
	if opts.SendInitialEvents != nil && *opts.SendInitialEvents {
		opts.ResourceVersion = "" // as consistent as a list
	}
	w, err := l.client.Watch(ctx, &corev1.PodList{}, l.options(&opts))
	if err != nil {
		l.report(ctx, fmt.Errorf("watch: %w", err))
		return nil, err
	}
	if opts.SendInitialEvents == nil || !*opts.SendInitialEvents { // what is there is yet to be told, and then replaces the store
		l.watch.reached()
	}
	return w, nil
}

func (l *nodeListWatch) options(raw *metav1.ListOptions) *client.ListOptions {
	return &client.ListOptions{
		FieldSelector: fields.OneTermEqualSelector("spec.nodeName", l.watch.node),
		Limit:         raw.Limit,
		Continue:      raw.Continue,
		Raw:           raw,
	}
}

func (l *nodeListWatch) report(ctx context.Context, err error) {
	if ctx.Err() == nil {
		l.watch.failed(err)
	}
}
