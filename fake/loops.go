package fake

import (
	"context"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
)

// Loops replace the controllers, the scheduler and the kubelets of a cluster. They react to the store's events and
// never poll. Their writes are not in Requests, and Faults do not apply to them.
type Loops struct {
	// Workloads maintains the pods of ReplicaSets, and one ReplicaSet per Deployment. A changed template replaces the
	// ReplicaSet at once, without a rolling update.
	Workloads bool
	// Budgets computes the status of PodDisruptionBudgets.
	Budgets bool
	// Scheduler binds a pod without a node to the Ready, schedulable Node with the fewest pods whose taints it
	// tolerates, by name if there are several. It supports node selectors, but neither affinity nor resources.
	Scheduler bool
	// Kubelet makes Nodes without a Ready condition Ready, maintains the taints that follow from Node conditions and spec.unschedulable,
	// starts pods and ends terminating ones. A Node is dead after a client has set its Ready condition to False or Unknown: its pods do not
	// change.
	Kubelet bool
	// GarbageCollector deletes objects whose owners are all gone, and performs foreground and orphan deletion.
	GarbageCollector bool
	// PodGC deletes the pods of a deleted Node.
	PodGC bool
	// Namespaces empties namespaces that are being deleted and then removes them.
	Namespaces bool

	// StartPod is the time between the binding of a pod and its Ready condition; 0 means no delay.
	StartPod time.Duration
	// StopPod is the time between a pod's deletion timestamp and its removal; 0 means no delay. The pod's grace period is ignored.
	StopPod time.Duration
	// StopPodFunc, if set, replaces StopPod and may differ by pod. It must not use the store or change the pod.
	StopPodFunc func(*corev1.Pod) time.Duration
}

// AllLoops returns every loop, without delays.
func AllLoops() Loops {
	return Loops{
		Workloads: true, Budgets: true, Scheduler: true, Kubelet: true, GarbageCollector: true, PodGC: true, Namespaces: true,
	}
}

// Start runs loops until the context ends. It returns at once; wait blocks until they have ended. Existing objects are handled as new ones.
func (s *Store) Start(ctx context.Context, l Loops) (wait func()) {
	var group sync.WaitGroup
	for _, one := range s.loops(l) {
		runLoop(ctx, s, &group, one)
	}
	return group.Wait
}

// loop is one of Loops: keys returns the objects to sync after an event, and sync reconciles one object and returns when to sync it again,
// or 0. Both run with the store locked, so that a loop never uses stale state.
type loop struct {
	name string
	keys func(event) []objectKey
	sync func(objectKey) time.Duration
}

// loops returns the loops that are enabled.
func (s *Store) loops(l Loops) []loop {
	w, b, g, p, n := &workloads{s}, &budgets{s}, &collector{s}, &podCollector{s}, &namespaces{s}
	sch, k := &scheduler{Store: s, pending: map[objectKey]struct{}{}}, &kubelets{Store: s, loops: l, stages: map[objectKey]stage{}}
	var all []loop
	for _, one := range []struct {
		loop

		wanted bool
	}{
		{loop{"workloads", w.keys, w.sync}, l.Workloads},
		{loop{"budgets", b.keys, b.sync}, l.Budgets},
		{loop{"scheduler", sch.keys, sch.sync}, l.Scheduler},
		{loop{"kubelet", k.keys, k.sync}, l.Kubelet},
		{loop{"garbage collector", g.keys, g.sync}, l.GarbageCollector},
		{loop{"pod collector", p.keys, p.sync}, l.PodGC},
		{loop{"namespaces", n.keys, n.sync}, l.Namespaces},
	} {
		if one.wanted {
			all = append(all, one.loop)
		}
	}
	return all
}

// objectKey names an object of any kind.
type objectKey struct {
	schema.GroupKind
	types.NamespacedName
}

func keyOf(rec *record) objectKey { return objectKey{rec.kind.GroupKind, rec.key} }

func (s *Store) lookup(key objectKey) *record {
	if k := s.registry.kinds[key.GroupKind]; k != nil {
		return k.get(key.NamespacedName)
	}
	return nil
}

// listen passes all objects of the store, and then each event, to a loop. The caller holds the lock.
func (s *Store) listen(l *listener) {
	for _, k := range s.registry.kinds {
		for _, rec := range k.all("") {
			l.notify(event{version: rec.version, current: rec})
		}
	}
	s.listeners[l] = struct{}{}
}

func runLoop(ctx context.Context, s *Store, group *sync.WaitGroup, one loop) {
	queue := workqueue.NewTypedDelayingQueueWithConfig(workqueue.TypedDelayingQueueConfig[objectKey]{Clock: s.clock})
	l := &listener{notify: func(e event) {
		for _, key := range one.keys(e) {
			queue.Add(key)
		}
	}}
	s.mu.Lock()
	s.listen(l)
	s.mu.Unlock()

	group.Go(func() {
		for {
			key, quit := queue.Get()
			if quit {
				return
			}
			s.mu.Lock()
			again := time.Duration(0)
			if ctx.Err() == nil {
				again = one.sync(key)
			}
			s.mu.Unlock()
			if again > 0 {
				queue.AddAfter(key, again)
			}
			queue.Done(key)
		}
	})
	group.Go(func() {
		<-ctx.Done()
		s.mu.Lock()
		delete(s.listeners, l)
		s.mu.Unlock()
		queue.ShutDown()
	})
}

// rewrite stores a changed copy of a typed object through the main resource.
func (s *Store) rewrite(rec *record, typed runtime.Object) {
	_, _ = s.update(change{kind: rec.kind, key: rec.key, apply: func(*record) (map[string]any, error) { return contentOf(typed) }})
}

// setStatus is writeStatus for loops: it cannot fail, because the lock is held and the record is current.
func (s *Store) setStatus(rec *record, typed runtime.Object) { _ = s.writeStatus(rec, typed) }

// make creates a typed object. A failure, for example in a terminating namespace, is not retried.
func (s *Store) make(gk schema.GroupKind, namespace string, typed runtime.Object) {
	if content, err := contentOf(typed); err == nil {
		_, _ = s.create(s.registry.kinds[gk], namespace, content, false)
	}
}

// discard deletes an object; a failure means that it is gone or terminating.
func (s *Store) discard(rec *record, o metav1.DeleteOptions) {
	_, _, _ = s.delete(rec.kind, rec.key, o)
}
