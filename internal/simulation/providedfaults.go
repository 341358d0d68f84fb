package simulation

import (
	"context"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Faults of the providers of infrastructure and bootstrap objects, in the histories that have those.
const (
	// ProviderIsSlow: a provider does nothing for an object for minutes, be it to make or to delete something.
	ProviderIsSlow Fault = "provider is slow"
	// ProviderReportsHalf: it says that something is there before it says what.
	ProviderReportsHalf Fault = "provider reports half"
	// ProviderForgets: an object loses its status, which the provider writes again.
	ProviderForgets Fault = "provider forgets"
	// ProviderFails: it reports a failure that does not end.
	ProviderFails Fault = "provider fails"
	// UserDeletesPart: a person deletes an infrastructure or a bootstrap object.
	UserDeletesPart Fault = "user deletes a part"
)

func providerDisturbances() []disturbance {
	return []disturbance{
		{ProviderIsSlow, (*World).providerIsSlow}, {ProviderForgets, (*World).providerForgets}, {ProviderFails, (*World).providerFails},
		{UserDeletesPart, (*World).deletesPart},
	}
}

// anyPart is one of the objects of the providers; nil without.
func (w *World) anyPart() *unstructured.Unstructured {
	all := w.referred()
	if len(all) == 0 {
		return nil
	}
	if leaving := slices.DeleteFunc(slices.Clone(all), func(o *unstructured.Unstructured) bool {
		return o.GetDeletionTimestamp() == nil
	}); len(leaving) > 0 && w.choices.pick(2) == 0 {
		all = leaving
	}
	return all[w.choices.pick(len(all))]
}

func (w *World) providerIsSlow(context.Context) {
	if obj := w.anyPart(); obj != nil {
		lasts := []time.Duration{20 * time.Second, 3 * time.Minute, 20 * time.Minute}[w.choices.pick(3)]
		w.provided.slow[obj.GetUID()] = w.Now().Add(lasts)
		w.note("provider", fmt.Sprintf("does nothing for %s %s for %s", obj.GetKind(), obj.GetName(), lasts), "")
	}
}

func (w *World) providerForgets(ctx context.Context) {
	if obj := w.anyPart(); obj != nil {
		w.writes(obj, "status", `{"status":null}`)(ctx)
	}
}

func (w *World) providerFails(ctx context.Context) {
	if obj := w.anyPart(); obj != nil {
		w.writes(obj, "status", failedNow(w, "Broken"))(ctx)
	}
}

func (w *World) deletesPart(ctx context.Context) {
	if obj := w.anyPart(); obj != nil {
		w.note("user", "delete "+obj.GetKind()+" "+obj.GetName(), said(w.store.Client().Delete(ctx, obj.DeepCopy())))
	}
}

// givesUp is the person who deletes the Machines that have failed for good once the faults have stopped, and those whose object was
// deleted.
func (w *World) givesUp(ctx context.Context) []func() {
	var all []func()
	for _, m := range w.owned() {
		if m.GetDeletionTimestamp() == nil && w.hasFailed(m) {
			all = append(all, func() {
				w.note("user", "delete Machine "+m.GetName()+", which has failed", said(w.store.Client().Delete(ctx, m.DeepCopy())))
			})
		}
	}
	return all
}

// hasFailed reports whether nothing but a deletion helps a Machine.
func (w *World) hasFailed(m *unstructured.Unstructured) bool {
	return slices.ContainsFunc(w.refsOf(m), func(ref partRef) bool {
		obj := w.object(ref.kind, m.GetNamespace(), ref.name)
		if obj == nil || obj.GetDeletionTimestamp() != nil {
			return true
		}
		return hasFailure(obj)
	})
}

// hasFailure reports whether a provider has failed for good.
func hasFailure(obj *unstructured.Unstructured) bool {
	failed, _, _ := unstructured.NestedString(obj.Object, "status", "failureReason")
	return failed != ""
}
