package fake

import (
	"context"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
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
	// Kubelet makes Nodes without a Ready condition Ready, maintains the taints that follow from Node conditions and
	// spec.unschedulable, starts pods and ends terminating ones. A Node whose Ready condition was set to False or
	// Unknown by a client is dead: its pods do not change.
	Kubelet bool
	// GarbageCollector deletes objects whose owners are all gone, and performs foreground and orphan deletion.
	GarbageCollector bool
	// PodGC deletes the pods of a deleted Node.
	PodGC bool
	// Namespaces empties namespaces that are being deleted and then removes them.
	Namespaces bool

	// StartPod is the time between the binding of a pod and its Ready condition; 0 is at once.
	StartPod time.Duration
	// StopPod is the time between a pod's deletion timestamp and its removal; 0 is at once. The pod's grace period does
	// not matter.
	StopPod time.Duration
	// StopPodFunc, if set, replaces StopPod and may differ by pod. It must not use the store or change the pod.
	StopPodFunc func(*corev1.Pod) time.Duration
	// ReadyNode is the time between a Node's creation and its Ready condition; 0 is at once.
	ReadyNode time.Duration
}

// AllLoops returns every loop, without delays.
func AllLoops() Loops {
	return Loops{
		Workloads: true, Budgets: true, Scheduler: true, Kubelet: true, GarbageCollector: true, PodGC: true, Namespaces: true,
	}
}

// Start runs loops until the context ends. It returns at once; wait blocks until they have ended. Existing objects are
// handled as if they were new.
func (s *Store) Start(ctx context.Context, l Loops) (wait func()) {
	var group sync.WaitGroup
	if l.Workloads {
		w := &workloads{s}
		runLoop(ctx, s, &group, w.keys, w.sync)
	}
	if l.Budgets {
		b := &budgets{s}
		runLoop(ctx, s, &group, b.keys, b.sync)
	}
	if l.Scheduler {
		sch := &scheduler{Store: s, pending: map[objectKey]struct{}{}}
		runLoop(ctx, s, &group, sch.keys, sch.sync)
	}
	if l.Kubelet {
		k := &kubelets{Store: s, loops: l, stages: map[objectKey]stage{}}
		runLoop(ctx, s, &group, k.keys, k.sync)
	}
	if l.GarbageCollector {
		g := &collector{s}
		runLoop(ctx, s, &group, g.keys, g.sync)
	}
	if l.PodGC {
		p := &podCollector{s}
		runLoop(ctx, s, &group, p.keys, p.sync)
	}
	if l.Namespaces {
		n := &namespaces{s}
		runLoop(ctx, s, &group, n.keys, n.sync)
	}
	return group.Wait
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

// runLoop starts one loop: keys returns the objects to sync after an event, and sync reconciles one object and returns
// when to sync it again, or 0. Both run with the store locked, so that a loop never uses stale state.
func runLoop(ctx context.Context, s *Store, group *sync.WaitGroup, keys func(event) []objectKey, sync func(objectKey) time.Duration) {
	queue := workqueue.NewTypedDelayingQueueWithConfig(workqueue.TypedDelayingQueueConfig[objectKey]{Clock: s.clock})
	l := &listener{notify: func(e event) {
		for _, key := range keys(e) {
			queue.Add(key)
		}
	}}
	s.mu.Lock()
	for _, k := range s.registry.kinds {
		for _, rec := range k.all("") {
			l.notify(event{version: rec.version, current: rec})
		}
	}
	s.listeners[l] = struct{}{}
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
				again = sync(key)
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
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(typed)
	if err != nil {
		return // it was encoded from such content
	}
	dropNulls(content)
	_, _ = s.update(change{kind: rec.kind, key: rec.key, apply: func(*record) (map[string]any, error) { return content, nil }})
}

// setStatus is writeStatus for loops: it cannot fail, because the lock is held and the record is current.
func (s *Store) setStatus(rec *record, typed runtime.Object) { _ = s.writeStatus(rec, typed) }

// make creates a typed object. A failure, for example in a terminating namespace, is not retried.
func (s *Store) make(gk schema.GroupKind, namespace string, typed runtime.Object) {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(typed)
	if err != nil {
		return
	}
	dropNulls(content)
	_, _ = s.create(s.registry.kinds[gk], namespace, content, false)
}

// discard deletes an object; a failure means that it is gone or terminating.
func (s *Store) discard(rec *record, o metav1.DeleteOptions) {
	if _, _, err := s.delete(rec.kind, rec.key, o); apierrors.IsNotFound(err) {
		return
	}
}
