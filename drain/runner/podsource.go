package runner

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// PodSource provides the Pods of draining Nodes. Implementations are safe for concurrent use.
type PodSource interface {
	// Pods returns the Pods bound to a Node, as shared objects that must not be changed. It does not block; the first call for a Node starts
	// its watch. synced is false until the Pods are completely known and while the watch fails; an empty result then does not mean that there
	// are none. err says why the source cannot read the Pods.
	Pods(node string) (pods []*corev1.Pod, synced bool, err error)
	// Release ends the watch of a Node.
	Release(node string)
	// Run serves until ctx ends. It calls changed, which must not block, when the result of Pods for a Node may have changed. All goroutines
	// of the source end before it returns.
	Run(ctx context.Context, changed func(node string)) error
}

// ScopedOptions change a [ScopedPodSource]. The zero value is valid.
type ScopedOptions struct {
	// MinBackoff and MaxBackoff limit the pause after a failed list or watch; 0 means 800 ms and 10 s.
	MinBackoff time.Duration
	MaxBackoff time.Duration
}

// ScopedPodSource is a [PodSource] with one watch per Node, by the field selector spec.nodeName, from the first call of Pods for the Node
// until Release. The watch also returns the existing Pods; if the API server does not stream lists, a list precedes it. Both are consistent
// reads.
type ScopedPodSource struct {
	client client.WithWatch
	opts   ScopedOptions

	mu    sync.Mutex
	nodes map[string]*nodeWatch
	start func(*nodeWatch) // starts the watch of a Node; nil before Run and after its end
	ran   bool
}

var _ PodSource = (*ScopedPodSource)(nil)

// NewScopedPodSource returns a source that reads through c, which must not be a cache.
func NewScopedPodSource(c client.WithWatch, opts ScopedOptions) (*ScopedPodSource, error) {
	if c == nil {
		return nil, errors.New("new pod source: the client is nil")
	}
	if opts.MinBackoff <= 0 {
		opts.MinBackoff = 800 * time.Millisecond
	}
	if opts.MaxBackoff <= 0 {
		opts.MaxBackoff = max(opts.MinBackoff, 10*time.Second)
	}
	if opts.MaxBackoff < opts.MinBackoff {
		return nil, fmt.Errorf("new pod source: MaxBackoff %s is below MinBackoff %s", opts.MaxBackoff, opts.MinBackoff)
	}
	return &ScopedPodSource{client: c, opts: opts, nodes: map[string]*nodeWatch{}}, nil
}

// Pods implements [PodSource]. Before Run and after its end nothing is synced.
func (s *ScopedPodSource) Pods(node string) ([]*corev1.Pod, bool, error) {
	if node == "" {
		return nil, false, errors.New("pods of a node: the name is empty")
	}
	s.mu.Lock()
	w := s.nodes[node]
	if w == nil {
		w = newNodeWatch(node)
		s.nodes[node] = w
		if s.start != nil {
			s.start(w)
		}
	}
	live := s.start != nil
	s.mu.Unlock()
	pods, synced, err := w.snapshot()
	if err != nil {
		err = fmt.Errorf("pods of node %s: %w", node, err)
	}
	return pods, synced && live, err
}

// Release implements [PodSource]; it does not wait for the watch to end.
func (s *ScopedPodSource) Release(node string) {
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
func (s *ScopedPodSource) Run(ctx context.Context, changed func(node string)) error {
	s.mu.Lock()
	if s.ran {
		s.mu.Unlock()
		return errors.New("run pod source: it was started before")
	}
	var running sync.WaitGroup
	s.ran = true
	s.start = func(w *nodeWatch) {
		watching, cancel := context.WithCancel(ctx)
		w.cancel = cancel
		w.notify(changed)
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

func (s *ScopedPodSource) reflector(w *nodeWatch) *cache.Reflector {
	return cache.NewReflectorWithOptions(newNodeListWatch(s.client, w), &corev1.Pod{}, w, cache.ReflectorOptions{
		Name: "drain/" + w.node,
		Backoff: &wait.Backoff{
			Duration: s.opts.MinBackoff, Cap: s.opts.MaxBackoff, Factor: 2, Jitter: 0.5,
			Steps: int(math.Ceil(float64(s.opts.MaxBackoff) / float64(s.opts.MinBackoff))),
		},
	})
}
