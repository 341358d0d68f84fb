package bench

import (
	"context"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
)

// recorder follows the pods of a scene through a watch of its own: which of them got ready, were evicted, and went. It is safe for
// concurrent use.
type recorder struct {
	now func() time.Time

	mu   sync.Mutex
	pods map[types.UID]*podRecord
}

// podRecord is the life of one incarnation of a pod.
type podRecord struct {
	node    string
	ready   bool
	evicted bool // by the eviction endpoint, which leaves a condition
	gone    time.Time
}

func newRecorder(now func() time.Time) *recorder {
	return &recorder{now: now, pods: map[types.UID]*podRecord{}}
}

// follow feeds the recorder from an informer of the scene's pods until ctx ends.
func (r *recorder) follow(ctx context.Context, informer cache.SharedIndexInformer) error {
	_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { r.see(obj, false) },
		UpdateFunc: func(_, obj any) { r.see(obj, false) },
		DeleteFunc: func(obj any) { r.see(obj, true) },
	})
	if err != nil {
		return err
	}
	go informer.RunWithContext(ctx)
	if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
		return context.Cause(ctx)
	}
	return nil
}

func (r *recorder) see(obj any, gone bool) {
	if tombstone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		obj = tombstone.Obj
	}
	pod, ok := obj.(*corev1.Pod)
	if !ok {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	p := r.pods[pod.UID]
	if p == nil {
		p = &podRecord{}
		r.pods[pod.UID] = p
	}
	p.node = pod.Spec.NodeName
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady {
			p.ready = c.Status == corev1.ConditionTrue
		}
		if c.Type == corev1.DisruptionTarget && c.Status == corev1.ConditionTrue && c.Reason == "EvictionByEvictionAPI" {
			p.evicted = true
		}
	}
	if gone {
		p.gone = r.now()
	}
}

// count counts the pods that match.
func (r *recorder) count(match func(*podRecord) bool) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := 0
	for _, p := range r.pods {
		if match(p) {
			n++
		}
	}
	return n
}

// ready counts the ready pods on these Nodes.
func (r *recorder) ready(nodes []string) int {
	return r.count(func(p *podRecord) bool { return p.ready && p.gone.IsZero() && slices.Contains(nodes, p.node) })
}

// alive counts all pods that are not gone.
func (r *recorder) alive() int { return r.count(func(p *podRecord) bool { return p.gone.IsZero() }) }

// left counts the pods on these Nodes that are not gone.
func (r *recorder) left(nodes []string) int {
	return r.count(func(p *podRecord) bool { return p.gone.IsZero() && slices.Contains(nodes, p.node) })
}

// evictedElsewhere counts the pods that were evicted from other Nodes than these.
func (r *recorder) evictedElsewhere(nodes []string) int {
	return r.count(func(p *podRecord) bool { return p.evicted && !slices.Contains(nodes, p.node) })
}

// lastGone is when the last pod of these Nodes was seen to be gone.
func (r *recorder) lastGone(nodes []string) time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	var last time.Time
	for _, p := range r.pods {
		if slices.Contains(nodes, p.node) && p.gone.After(last) {
			last = p.gone
		}
	}
	return last
}
