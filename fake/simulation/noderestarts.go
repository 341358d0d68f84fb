package simulation

import (
	"context"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/contract"
	cloud "github.com/machinist-dev/machinist/machine/provider"
)

// NodeComesBack means that the instance of a Machine that was drained restarts before it is deleted: its Node registers again, with
// another UID and schedulable, a Pod is scheduled to it, and the cloud does not delete the instance for a while.
const NodeComesBack Fault = "node comes back"

func (w *World) nodeComesBack(ctx context.Context) {
	drained := slices.DeleteFunc(w.owned(), func(m *unstructured.Unstructured) bool {
		return m.GetDeletionTimestamp() == nil || m.GetAnnotations()[contract.DrainedAnnotation] == ""
	})
	if len(drained) == 0 || w.apps == nil {
		return
	}
	m := drained[w.choices.pick(len(drained))]
	for _, i := range w.instances() {
		if i.State != cloud.Running || !isOwn(m, i) {
			continue
		}
		if node := w.object("Node", "", i.Name); node != nil {
			w.note("cluster", "delete Node "+i.Name, said(w.store.Client().Delete(ctx, node.DeepCopy())))
		}
		w.joins(ctx, i)
		w.moves(ctx, i.Name)
		if w.habits != nil {
			w.habits.kept[i.Token] = w.Now().Add(3 * time.Minute)
		}
	}
}

// moves is a Pod that restarts, and that the scheduler puts on a Node.
func (w *World) moves(ctx context.Context, node string) {
	for _, pod := range byName(slices.Collect(maps.Values(w.apps.pods))) {
		if pod.Spec.NodeName == node || pod.DeletionTimestamp != nil {
			continue
		}
		moved := pod.DeepCopy()
		moved.Name, moved.UID, moved.ResourceVersion = pod.Name+"-"+string(pod.UID[:4]), types.UID(""), ""
		moved.Spec.NodeName = node
		w.note("cluster", "delete Pod "+pod.Name, said(w.store.Client().Delete(ctx, pod.DeepCopy(), client.GracePeriodSeconds(0))))
		w.note("scheduler", "Pod "+moved.Name+" is on Node "+node, said(w.store.Client().Create(ctx, moved)))
		return
	}
}
