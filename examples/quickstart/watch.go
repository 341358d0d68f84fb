package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/fake"
)

// change is a change from a watch.
type change struct {
	object client.Object
	gone   bool
}

// follow watches all kinds of the story and sends the changes, each held back to be sorted.
func (w *world) follow(ctx context.Context, held time.Duration) error {
	for _, list := range []client.ObjectList{
		listOf(fake.MachineGVK()), listOf(fake.InfraMachineGVK(contract.V1Beta2)), listOf(fake.BootstrapConfigGVK(contract.V1Beta2)),
		listOf(capi("MachineDeployment")), &corev1.NodeList{}, &corev1.PodList{}, &policyv1.PodDisruptionBudgetList{},
	} {
		watcher, err := w.client.Watch(ctx, list)
		if err != nil {
			return fmt.Errorf("watch %T: %w", list, err)
		}
		w.group.Go(func() { w.pump(ctx, watcher) })
	}
	w.group.Go(func() { w.order(ctx, held) })
	return nil
}

func (w *world) pump(ctx context.Context, watcher watch.Interface) {
	defer watcher.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case e, open := <-watcher.ResultChan():
			obj, ok := e.Object.(client.Object)
			if !open || !ok {
				if ctx.Err() == nil {
					w.failed <- errors.New("a watch ended: the story cannot be followed")
				}
				return
			}
			select {
			case w.seen <- change{object: obj, gone: e.Type == watch.Deleted}:
			case <-ctx.Done():
				return
			}
		}
	}
}

// heldChange is a change that waits for older ones.
type heldChange struct {
	change

	until time.Time
}

// order sorts the changes of several watches by time. It holds each change back for a moment that a user does not notice: then those
// that are older have arrived, and go first.
func (w *world) order(ctx context.Context, held time.Duration) {
	var waiting []heldChange // as they have arrived
	var due <-chan time.Time
	for {
		select {
		case <-ctx.Done():
			return
		case c := <-w.seen:
			waiting = append(waiting, heldChange{c, time.Now().Add(held)})
		case <-due:
			first := waiting[0]
			var now, later []heldChange
			for _, c := range waiting {
				if byVersion(c, first) <= 0 {
					now = append(now, c)
				} else {
					later = append(later, c)
				}
			}
			slices.SortStableFunc(now, byVersion)
			waiting = later
			for _, c := range now {
				select {
				case w.changes <- c.change:
				case <-ctx.Done():
					return
				}
			}
		}
		due = nil
		if len(waiting) > 0 {
			due = time.After(time.Until(waiting[0].until))
		}
	}
}

func byVersion(a, b heldChange) int {
	older, err := resourceversion.CompareResourceVersion(a.object.GetResourceVersion(), b.object.GetResourceVersion())
	if err != nil {
		return 0 // changes without an order are allowed
	}
	return older
}

func listOf(gvk schema.GroupVersionKind) *unstructured.UnstructuredList {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(gvk.GroupVersion().WithKind(gvk.Kind + "List"))
	return list
}
