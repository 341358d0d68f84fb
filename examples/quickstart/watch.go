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

// order sorts the changes of several watches by time. It holds each change back for a moment that a user does not
// notice.
func (w *world) order(ctx context.Context, held time.Duration) {
	for {
		batch := w.collect(ctx, held)
		if len(batch) == 0 {
			return
		}
		slices.SortStableFunc(batch, func(a, b change) int {
			older, err := resourceversion.CompareResourceVersion(a.object.GetResourceVersion(), b.object.GetResourceVersion())
			if err != nil {
				return 0 // changes without an order are allowed
			}
			return older
		})
		for _, c := range batch {
			select {
			case w.changes <- c:
			case <-ctx.Done():
				return
			}
		}
	}
}

// collect waits for a change and also takes those that follow within a moment. It returns nothing when the context
// ends.
func (w *world) collect(ctx context.Context, held time.Duration) []change {
	var batch []change
	var over <-chan time.Time
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-over:
			return batch
		case c := <-w.seen:
			batch = append(batch, c)
			if over == nil {
				over = time.After(held)
			}
		}
	}
}

func listOf(gvk schema.GroupVersionKind) *unstructured.UnstructuredList {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(gvk.GroupVersion().WithKind(gvk.Kind + "List"))
	return list
}
