package cluster

import (
	"context"
	"fmt"
	"reflect"

	"k8s.io/apimachinery/pkg/types"
	ctrlcluster "sigs.k8s.io/controller-runtime/pkg/cluster"
)

// sharedValue is the result of Setup for a Target that is Running. All clusters with this Target share it.
type sharedValue[T any] struct {
	made     chan struct{} // closed when Setup has returned, and value or err is set
	value    T
	err      error
	sessions int  // number of sessions that use it or wait for it
	replaced bool // another Target has replaced it for one of the clusters
	end      context.CancelCauseFunc
}

// borrow makes a session of a cluster that another component runs.
func (l *link[T]) borrow(s *session[T], running ctrlcluster.Cluster) error {
	if l.clusters.options.Setup != nil {
		shared, err := l.clusters.share(l.key, s, running)
		if err != nil {
			return &setupError{err}
		}
		s.value, s.giveBack = shared.value, func(replaced bool) { l.clusters.giveBack(running, shared, replaced) }
	}
	s.cluster = running
	s.running.Go(func() { l.watchSync(s) })
	return nil
}

// share returns the value of Setup for a running cluster, for one more session. The first one calls Setup, and others wait for it, each
// as long as it lives.
func (c *Clusters[T]) share(key types.NamespacedName, s *session[T], running ctrlcluster.Cluster) (*sharedValue[T], error) {
	if !reflect.ValueOf(running).Comparable() {
		return nil, fmt.Errorf("a running cluster of type %T cannot be distinguished from others; pass a pointer", running)
	}
	c.sharedMu.Lock()
	shared, found := c.values[running]
	if !found {
		shared = &sharedValue[T]{made: make(chan struct{})}
		c.values[running] = shared
	}
	shared.sessions++ // before Setup, so that giveBack does not end what is being made
	shared.replaced = false
	c.sharedMu.Unlock()
	if !found {
		c.makeShared(key, shared, running)
	}
	select {
	case <-shared.made:
		return shared, shared.err
	case <-s.life.Done():
		c.giveBack(running, shared, false)
		return nil, context.Cause(s.life)
	}
}

// makeShared calls Setup for a running cluster. After an error the next session calls it again.
func (c *Clusters[T]) makeShared(key types.NamespacedName, shared *sharedValue[T], running ctrlcluster.Cluster) {
	life, end := context.WithCancelCause(c.life)
	shared.end = end
	shared.value, shared.err = c.options.setup(end, &Connection{Cluster: running, Key: key, life: life, running: &c.running})
	if shared.err != nil {
		end(errClosed)
		c.sharedMu.Lock()
		delete(c.values, running)
		c.sharedMu.Unlock()
	}
	close(shared.made)
}

// giveBack releases the value of a running cluster. The value ends when another Target has replaced the running cluster
// and the last session has released it. The value of a cluster that is only unused is kept for the next session,
// because an index cannot be added to a cache twice.
func (c *Clusters[T]) giveBack(running ctrlcluster.Cluster, shared *sharedValue[T], replaced bool) {
	c.sharedMu.Lock()
	defer c.sharedMu.Unlock()
	shared.sessions--
	shared.replaced = shared.replaced || replaced
	if shared.sessions == 0 && shared.replaced {
		shared.end(errClosed)
		delete(c.values, running)
	}
}
