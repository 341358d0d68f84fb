package runner_test

import (
	"context"
	"errors"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
)

// simPods is a PodSource: per Node a list, then changes in the server's order, each somewhat late, until it loses touch.
type simPods struct {
	p *simProcess

	mu      sync.Mutex
	nodes   map[string]*simNodePods
	changed func(node string)
	wanted  []string // looked at for the first time; the test's goroutine lists them
}

type simNodePods struct {
	pods   map[types.NamespacedName]*corev1.Pod
	synced bool
	err    error
	follow int       // counts the watches; what an older one still had to say is lost
	open   bool      // a watch is open
	last   time.Time // when the latest change comes in
}

func (c *simPods) Pods(node string) ([]*corev1.Pod, bool, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := c.nodes[node]
	if n == nil {
		n = &simNodePods{}
		c.nodes[node] = n
		c.wanted = append(c.wanted, node)
		c.p.s.notify()
	}
	pods := make([]*corev1.Pod, 0, len(n.pods))
	for _, key := range inOrder(n.pods) {
		pods = append(pods, n.pods[key])
	}
	return pods, n.synced && n.err == nil, n.err
}

func (c *simPods) Release(node string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.nodes, node)
}

func (c *simPods) Run(ctx context.Context, changed func(string)) error {
	c.mu.Lock()
	c.changed = changed
	c.mu.Unlock()
	<-ctx.Done()
	return nil
}

// change applies f and tells the Runner, as long as the Node is looked at and f says that something happened.
func (c *simPods) change(node string, n *simNodePods, f func() bool) {
	c.mu.Lock()
	same := c.nodes[node] == n && f()
	changed := c.changed
	c.mu.Unlock()
	if same && changed != nil && !c.p.ended {
		changed(node)
	}
}

// openCaches lists Nodes that were looked at for the first time, after a while.
func (p *simProcess) openCaches() {
	c := p.pods
	c.mu.Lock()
	wanted := c.wanted
	c.wanted = nil
	c.mu.Unlock()
	for _, node := range wanted {
		c.mu.Lock()
		n := c.nodes[node]
		c.mu.Unlock()
		if n != nil {
			p.s.after(p.s.upTo(2*time.Second), func() { c.list(node, n) })
		}
	}
}

// list reads everything at once, as a reflector does at the start and after it lost touch.
func (c *simPods) list(node string, n *simNodePods) {
	c.change(node, n, func() bool {
		n.pods = map[types.NamespacedName]*corev1.Pod{}
		for key, p := range c.p.s.pods {
			if p.obj.Spec.NodeName == node {
				n.pods[key] = p.obj
			}
		}
		n.synced, n.err, n.open, n.last = true, nil, true, time.Now()
		n.follow++
		return true
	})
}

// changedAt delivers a change of a pod to the watch of its Node.
func (c *simPods) changedAt(obj *corev1.Pod, gone bool) {
	node := obj.Spec.NodeName
	c.mu.Lock()
	n := c.nodes[node]
	c.mu.Unlock()
	if n == nil || !n.open {
		return
	}
	follow := n.follow
	at := time.Now().Add(c.p.s.upTo(c.p.s.setup.podLag))
	if at.Before(n.last) {
		at = n.last
	}
	n.last = at
	c.p.s.at(at, func() {
		c.change(node, n, func() bool {
			if n.follow != follow || !n.open {
				return false
			}
			if key := nameOf(obj); !gone {
				n.pods[key] = obj
			} else if known := n.pods[key]; known != nil && known.UID == obj.UID {
				delete(n.pods, key)
			}
			return true
		})
	})
}

// lose breaks the watch of a Node; with a reason when the server refuses to open another one.
func (c *simPods) lose(node string, refused bool, again time.Duration) {
	c.mu.Lock()
	n := c.nodes[node]
	c.mu.Unlock()
	if n == nil || !n.open {
		return
	}
	c.change(node, n, func() bool {
		n.open, n.synced = false, false
		if refused {
			n.err = errors.New("watch: connection refused")
		}
		return true
	})
	c.p.s.after(again, func() { c.list(node, n) })
}

// simBudgets is the cache of budgets: a reader, or the list of a Runner.
type simBudgets struct {
	p       *simProcess
	last    time.Time
	stalled time.Time // nothing comes in before

	mu     sync.Mutex
	synced bool
	items  map[types.NamespacedName]*policyv1.PodDisruptionBudget
	store  toolscache.ReflectorStore // nil in runs without a list
}

// in is the Budgets of a Config.
func (c *simBudgets) in(_ context.Context, namespace string) (found []*policyv1.PodDisruptionBudget, _ error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.synced && !c.p.s.setup.informers {
		return nil, errors.New("the cache is not started")
	}
	for _, key := range inOrder(c.items) {
		if key.Namespace == namespace {
			found = append(found, c.items[key])
		}
	}
	return found, nil
}

// fill is the first list.
func (c *simBudgets) fill() {
	c.mu.Lock()
	c.synced, c.items = true, map[types.NamespacedName]*policyv1.PodDisruptionBudget{}
	for key, b := range c.p.s.budgets {
		c.items[key] = b.obj
	}
	c.mu.Unlock()
	c.tell(func(store toolscache.ReflectorStore) error {
		var all []any
		for _, key := range inOrder(c.items) {
			all = append(all, c.items[key].DeepCopy())
		}
		return store.Replace(all, "")
	})
}

func (c *simBudgets) tell(f func(toolscache.ReflectorStore) error) {
	if c.store == nil || c.p.ended {
		return
	}
	if err := f(c.store); err != nil {
		c.p.s.fail("the list of budgets: %v", err)
	}
}

func (c *simBudgets) changedAt(obj *policyv1.PodDisruptionBudget, gone bool) {
	if c.p.s.setup.stuck {
		return
	}
	at := time.Now().Add(c.p.s.upTo(c.p.s.setup.budgetLag))
	for _, earliest := range []time.Time{c.last, c.stalled} {
		if at.Before(earliest) {
			at = earliest
		}
	}
	c.last = at
	c.p.s.at(at, func() { c.deliver(obj, gone) })
}

func (c *simBudgets) deliver(obj *policyv1.PodDisruptionBudget, gone bool) {
	c.mu.Lock()
	if !c.synced {
		c.mu.Unlock()
		return
	}
	key := nameOf(obj)
	before := c.items[key]
	if before != nil && (gone && before.UID != obj.UID || !gone && !laterThan(obj.ResourceVersion, before.ResourceVersion)) {
		c.mu.Unlock()
		return // of the one before, or older than the list
	}
	if c.items[key] = obj; gone {
		delete(c.items, key)
	}
	c.mu.Unlock()
	c.tell(func(store toolscache.ReflectorStore) error {
		if gone {
			return store.Delete(obj)
		}
		return store.Update(obj.DeepCopy())
	})
}
