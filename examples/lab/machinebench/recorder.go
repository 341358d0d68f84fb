package main

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
)

// recorder watches Machines: it records when each of them was first Running, and when it was gone. It is safe for
// concurrent use.
type recorder struct {
	now func() time.Time

	mu    sync.Mutex
	lives map[types.UID]*life
}

type life struct {
	fleet         string
	running, gone time.Time
}

func newRecorder(now func() time.Time) *recorder {
	return &recorder{now: now, lives: map[types.UID]*life{}}
}

func (r *recorder) handler() cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { r.see(obj, false) },
		UpdateFunc: func(_, obj any) { r.see(obj, false) },
		DeleteFunc: func(obj any) { r.see(obj, true) },
	}
}

func (r *recorder) see(obj any, gone bool) {
	if tombstone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		obj = tombstone.Obj
	}
	m, ok := obj.(*unstructured.Unstructured)
	if !ok {
		return
	}
	phase, _, _ := unstructured.NestedString(m.Object, "status", "phase")
	r.mu.Lock()
	defer r.mu.Unlock()
	l := r.lives[m.GetUID()]
	if l == nil {
		l = &life{fleet: m.GetLabels()[fleetLabel]}
		r.lives[m.GetUID()] = l
	}
	if phase == "Running" && l.running.IsZero() {
		l.running = r.now()
	}
	if gone && l.gone.IsZero() {
		l.gone = r.now()
	}
}

// running returns how many Machines of a fleet were Running, and when the last of them was first.
func (r *recorder) running(fleet string) (n int, last time.Time) {
	return r.count(fleet, func(l *life) time.Time { return l.running })
}

// gone returns the same for deleted Machines.
func (r *recorder) gone(fleet string) (n int, last time.Time) {
	return r.count(fleet, func(l *life) time.Time { return l.gone })
}

func (r *recorder) count(fleet string, when func(*life) time.Time) (n int, last time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, l := range r.lives {
		at := when(l)
		if l.fleet != fleet || at.IsZero() {
			continue
		}
		n++
		if at.After(last) {
			last = at
		}
	}
	return n, last
}
