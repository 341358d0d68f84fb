package cluster

import (
	"context"
	"fmt"
	"reflect"

	ctrlcluster "sigs.k8s.io/controller-runtime/pkg/cluster"
)

// sharedValue is the result of Setup for a Target that is Running. All clusters with this Target share it.
type sharedValue[T any] struct {
	value    T
	sessions int  // number of sessions that use it
	replaced bool // another Target has replaced it for one of the clusters
	end      context.CancelFunc
}

// borrow makes a session of a cluster that another component runs.
func (l *link[T]) borrow(s *session[T], running ctrlcluster.Cluster) error {
	if l.clusters.options.Setup != nil {
		shared, err := l.clusters.share(l, running)
		if err != nil {
			return &setupError{err}
		}
		s.value, s.giveBack = shared.value, func(replaced bool) { l.clusters.giveBack(running, replaced) }
	}
	s.cluster = running
	s.running.Go(func() { l.watchSync(s) })
	return nil
}

// share returns the value of Setup for a running cluster, for one more session.
func (c *Clusters[T]) share(l *link[T], running ctrlcluster.Cluster) (*sharedValue[T], error) {
	if !reflect.ValueOf(running).Comparable() {
		return nil, fmt.Errorf("a running cluster of type %T cannot be distinguished from others; pass a pointer", running)
	}
	c.sharedMu.Lock()
	defer c.sharedMu.Unlock()
	shared := c.values[running]
	if shared == nil {
		life, end := context.WithCancel(c.life)
		value, err := c.options.Setup(life, &Connection{Cluster: running, Key: l.key, life: life, running: &c.running})
		if err != nil {
			end()
			return nil, err
		}
		shared = &sharedValue[T]{value: value, end: end}
		c.values[running] = shared
	}
	shared.sessions++
	shared.replaced = false
	return shared, nil
}

// giveBack releases the value of a running cluster. The value ends when another Target has replaced the running cluster
// and the last session has released it. The value of a cluster that is only unused is kept for the next session,
// because an index cannot be added to a cache twice.
func (c *Clusters[T]) giveBack(running ctrlcluster.Cluster, replaced bool) {
	c.sharedMu.Lock()
	defer c.sharedMu.Unlock()
	shared := c.values[running]
	shared.sessions--
	shared.replaced = shared.replaced || replaced
	if shared.sessions == 0 && shared.replaced {
		shared.end()
		delete(c.values, running)
	}
}
