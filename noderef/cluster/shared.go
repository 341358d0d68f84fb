package cluster

import (
	"context"
	"fmt"
	"reflect"

	ctrlcluster "sigs.k8s.io/controller-runtime/pkg/cluster"
)

// sharedValue is what Setup has put on a cluster that another component runs, once for all Clusters that share it.
type sharedValue[T any] struct {
	value    T
	sessions int  // that have it
	replaced bool // one of them had another cluster put in its place
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

// share returns what Setup has put on a running cluster, for one more session.
func (c *Clusters[T]) share(l *link[T], running ctrlcluster.Cluster) (*sharedValue[T], error) {
	if !reflect.ValueOf(running).Comparable() {
		return nil, fmt.Errorf("a running cluster of type %T cannot be told from others; pass a pointer", running)
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

// giveBack ends what Setup has put on a running cluster when it was replaced with another one and the last session lets it go. A cluster
// that is only unused keeps it: the next user finds it as it was, for an index cannot be put on a cache twice.
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
