package simulation

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/machinist-dev/machinist/contract"
)

// updater is the hook of updates in place, which may fail. Once the faults have stopped, a person has the failed ones selected again.
func updater(ctx context.Context, w *World) []due {
	var all []due
	for _, m := range w.owned() {
		switch state := m.GetAnnotations()[contract.InPlaceStateAnnotation]; {
		case isPaused(m) || m.GetDeletionTimestamp() != nil:
		case state == contract.InPlaceSelected:
			all = append(all, due{do: func() { w.updates(ctx, m) }})
		}
	}
	return all
}

// updates brings a selected Machine to the template of the set that it names, if both are still there.
func (w *World) updates(ctx context.Context, selected *unstructured.Unstructured) {
	m := w.object("Machine", selected.GetNamespace(), selected.GetName())
	if m == nil || m.GetAnnotations()[contract.InPlaceStateAnnotation] != contract.InPlaceSelected {
		return
	}
	set := w.object("MachineSet", m.GetNamespace(), m.GetAnnotations()[contract.InPlaceSetAnnotation])
	if set == nil || metav1.GetControllerOf(m) == nil {
		return
	}
	if w.drawn([]Fault{UpdateFails}, 3) != "" {
		w.seen[faultPrefix+string(UpdateFails)]++
		w.patch(ctx, m, annotate(contract.InPlaceStateAnnotation, contract.InPlaceFailed))
		return
	}
	w.patch(ctx, m, jsonOf(map[string]any{
		"metadata": map[string]any{"annotations": map[string]any{contract.InPlaceStateAnnotation: contract.InPlaceUpdated}},
		"spec":     map[string]any{"version": versionOf(set, "spec", "template")},
	}))
}
