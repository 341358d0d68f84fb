package runner

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// PodSource provides the Pods of draining Nodes. Implementations are safe for concurrent use.
type PodSource interface {
	// Pods returns the Pods bound to a Node, as shared objects that must not be changed. It does not block; the first call for a Node
	// starts its watch. synced is false until the Pods are completely known and while the watch fails; an empty result then does not mean
	// that there are none. err says why the source cannot read the Pods.
	Pods(node string) (pods []*corev1.Pod, synced bool, err error)
	// Release ends the watch of a Node. The next call of Pods begins another one with a consistent list: a drain ends with one.
	Release(node string)
	// Run serves until ctx ends. It calls changed, which must not block, when the result of Pods for a Node may have changed. All
	// goroutines of the source end before it returns.
	Run(ctx context.Context, changed func(node string)) error
}

// scopedPodSource has one watch per Node.
type scopedPodSource struct {
	client client.WithWatch
	// minBackoff and maxBackoff limit the pause after a failed list or watch.
	minBackoff, maxBackoff time.Duration

	mu    sync.Mutex
	nodes map[string]*nodeWatch
	start func(*nodeWatch) // starts the watch of a Node; nil before Run and after its end
	ran   bool
}

// newScopedPodSource returns a [PodSource] that reads through c, which must not be a cache. It has one watch per Node, by the field
// selector spec.nodeName, from the first call of Pods for the Node until Release. The watch also returns the existing Pods; if the API
// server does not stream lists, a list precedes it. Both are consistent reads.
func newScopedPodSource(c client.WithWatch) *scopedPodSource {
	return &scopedPodSource{
		client: c, minBackoff: 800 * time.Millisecond, maxBackoff: 10 * time.Second, nodes: map[string]*nodeWatch{},
	}
}

// Pods implements [PodSource]. Before Run and after its end nothing is synced.
func (s *scopedPodSource) Pods(node string) ([]*corev1.Pod, bool, error) {
	s.mu.Lock()
	w := s.nodes[node]
	if w == nil {
		w = &nodeWatch{Store: cache.NewStore(cache.MetaNamespaceKeyFunc), node: node}
		s.nodes[node] = w
		if s.start != nil {
			s.start(w)
		}
	}
	live := s.start != nil
	s.mu.Unlock()
	synced, err := w.state()
	if err != nil {
		err = fmt.Errorf("pods of node %s: %w", node, err)
	}
	return w.pods(), synced && live, err
}

// Release implements [PodSource]; it does not wait for the watch to end.
func (s *scopedPodSource) Release(node string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if w := s.nodes[node]; w != nil {
		delete(s.nodes, node)
		if w.cancel != nil {
			w.cancel()
		}
	}
}

// Run implements [PodSource]. A source runs once.
func (s *scopedPodSource) Run(ctx context.Context, changed func(node string)) error {
	s.mu.Lock()
	if s.ran {
		s.mu.Unlock()
		return errors.New("run pod source: it was started before")
	}
	var running sync.WaitGroup
	s.ran = true
	s.start = func(w *nodeWatch) {
		watching, cancel := context.WithCancel(ctx)
		w.cancel, w.changed = cancel, changed
		running.Go(func() {
			defer cancel()
			s.reflector(w).RunWithContext(watching)
		})
	}
	for _, w := range s.nodes {
		s.start(w)
	}
	s.mu.Unlock()
	<-ctx.Done()
	s.mu.Lock()
	s.start = nil // no watch starts after this
	s.mu.Unlock()
	running.Wait()
	return nil
}

func (s *scopedPodSource) reflector(w *nodeWatch) *cache.Reflector {
	return cache.NewReflectorWithOptions(newNodeListWatch(s.client, w), &corev1.Pod{}, w, cache.ReflectorOptions{
		Name: "drain/" + w.node,
		Backoff: &wait.Backoff{
			Duration: s.minBackoff, Cap: s.maxBackoff, Factor: 2, Jitter: 0.5,
			Steps: int(math.Ceil(float64(s.maxBackoff) / float64(s.minBackoff))),
		},
	})
}

// nodeWatch is the store that a reflector fills with the Pods of one Node. A reflector retries some errors without reporting them, so the
// list and watch calls report their failures to the store. cancel and changed are set before the reflector starts.
type nodeWatch struct {
	cache.Store
	node    string
	cancel  context.CancelFunc
	changed func(string)

	mu     sync.Mutex
	synced bool
	err    error
}

func (w *nodeWatch) pods() []*corev1.Pod {
	all := w.List()
	pods := make([]*corev1.Pod, 0, len(all))
	for _, obj := range all {
		if pod, ok := obj.(*corev1.Pod); ok {
			pods = append(pods, pod)
		}
	}
	return pods
}

func (w *nodeWatch) state() (synced bool, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.synced && w.err == nil, w.err
}

// learn records whether the Pods can be read. A failure leaves what is known.
func (w *nodeWatch) learn(err error, synced bool) {
	w.mu.Lock()
	news := err != nil || w.err != nil || synced
	w.err, w.synced = err, w.synced || synced
	w.mu.Unlock()
	if news {
		w.changed(w.node)
	}
}

// Add implements cache.ReflectorStore.
func (w *nodeWatch) Add(obj any) error { return w.Update(obj) }

// Update implements cache.ReflectorStore.
func (w *nodeWatch) Update(obj any) error {
	defer w.changed(w.node)
	return w.Store.Update(obj)
}

// Delete implements cache.ReflectorStore.
func (w *nodeWatch) Delete(obj any) error {
	defer w.changed(w.node)
	return w.Store.Delete(obj)
}

// Replace implements cache.ReflectorStore.
func (w *nodeWatch) Replace(list []any, version string) error {
	defer w.learn(nil, true)
	return w.Store.Replace(list, version)
}

// newNodeListWatch lists and watches the Pods of one Node through a client. An API server that streams lists sends the existing Pods
// through the watch, in one request; otherwise the reflector of client-go falls back to a list. Both are consistent reads: resource version
// 0, the reflector's first choice, may be answered from a cache that lacks the newest Pods.
func newNodeListWatch(c client.WithWatch, w *nodeWatch) *cache.ListWatch {
	options := func(raw *metav1.ListOptions) *client.ListOptions {
		return &client.ListOptions{
			FieldSelector: fields.OneTermEqualSelector("spec.nodeName", w.node), Limit: raw.Limit, Continue: raw.Continue, Raw: raw,
		}
	}
	report := func(ctx context.Context, verb string, err error) error {
		if err != nil && ctx.Err() == nil {
			w.learn(fmt.Errorf("%s: %w", verb, err), false)
		}
		return err
	}
	return &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error) {
			opts.ResourceVersion, opts.ResourceVersionMatch = "", ""
			pods := &corev1.PodList{}
			return pods, report(ctx, "list", c.List(ctx, pods, options(&opts)))
		},
		WatchFuncWithContext: func(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
			streams := opts.SendInitialEvents != nil && *opts.SendInitialEvents
			if streams {
				opts.ResourceVersion = ""
			}
			events, err := c.Watch(ctx, &corev1.PodList{}, options(&opts))
			if err == nil && !streams { // a stream replaces the store later
				w.learn(nil, false) // the watch continues where the store stands
			}
			return events, report(ctx, "watch", err)
		},
	}
}
