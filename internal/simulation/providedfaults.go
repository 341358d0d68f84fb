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
		{ProviderIsSlow, ofPart((*World).providerIsSlow)},
		{ProviderForgets, ofPart(func(w *World, obj *unstructured.Unstructured) { w.states(obj, `{"status":null}`)() })},
		{ProviderFails, ofPart(func(w *World, obj *unstructured.Unstructured) { w.states(obj, failedNow(w, "Broken"))() })},
		{UserDeletesPart, ofPart(func(w *World, obj *unstructured.Unstructured) {
			w.deletesAs("user", obj.GetKind()+" "+obj.GetName(), obj)
		})},
	}
}

// ofPart is what happens to one of the objects of the providers, of those in deletion in half of the cases.
func ofPart(do func(*World, *unstructured.Unstructured)) func(*World, context.Context) {
	return func(w *World, _ context.Context) {
		all := w.referred()
		leaving := slices.DeleteFunc(w.referred(), func(o *unstructured.Unstructured) bool { return o.GetDeletionTimestamp() == nil })
		if len(leaving) > 0 && w.choices.pick(2) == 0 {
			all = leaving
		}
		if len(all) > 0 {
			do(w, all[w.choices.pick(len(all))])
		}
	}
}

func (w *World) providerIsSlow(obj *unstructured.Unstructured) {
	lasts := []time.Duration{20 * time.Second, 3 * time.Minute, 20 * time.Minute}[w.choices.pick(3)]
	w.provided.slow[obj.GetUID()] = w.Now().Add(lasts)
	w.note("provider", fmt.Sprintf("does nothing for %s %s for %s", obj.GetKind(), obj.GetName(), lasts), "")
}

// givesUp is the person who deletes the Machines that have failed for good once the faults have stopped, and those whose object was
// deleted.
func (w *World) givesUp() []func() {
	var all []func()
	for _, m := range w.owned() {
		if m.GetDeletionTimestamp() == nil && w.hasFailed(m) {
			all = append(all, func() { w.deletesAs("user", "Machine "+m.GetName()+", which has failed", m) })
		}
	}
	return all
}

// hasFailed reports whether nothing but a deletion helps a Machine.
func (w *World) hasFailed(m *unstructured.Unstructured) bool {
	return slices.ContainsFunc(w.refsOf(m), func(ref partRef) bool {
		obj := w.object(ref.kind, m.GetNamespace(), ref.name)
		return obj == nil || obj.GetDeletionTimestamp() != nil || hasFailure(obj)
	})
}

// hasFailure reports whether a provider has failed for good.
func hasFailure(obj *unstructured.Unstructured) bool {
	return textAt(obj, "status", "failureReason") != ""
}
