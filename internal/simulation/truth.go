package simulation

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// truth is a row of a table: what objects of some kinds have at rest is what follows from the World.
type truth struct {
	// what they have are conditions and paths of fields, or the sentence about what got returns.
	what, kinds string
	want, got   fact
}

// fact is something about an object, as text.
type fact = func(w *World, obj *unstructured.Unstructured) string

// unchecked is the value of a fact where everything is right.
const unchecked = "anything"

const truthPrefix = "truth: "

// atRest checks all truths when a history is at rest. Objects in deletion are not.
func (w *World) atRest() {
	if w.broken != nil {
		return
	}
	w.gaugesCount()
	for _, t := range slices.Concat(conditionTruths(), fieldTruths(), otherTruths()) {
		for kind := range strings.FieldsSeq(t.kinds) {
			for _, obj := range w.Objects(kind) {
				for _, what := range t.whats() {
					if obj.GetDeletionTimestamp() == nil {
						w.fail(truthPrefix+what, t.denies(w, obj, what))
					}
				}
			}
		}
	}
}

// whats are the conditions, the fields or the sentence of a row.
func (t truth) whats() []string { return strings.Split(t.what, ", ") }

// denies returns what an object has instead of what follows from the World.
func (t truth) denies(w *World, obj *unstructured.Unstructured, what string) error {
	got := statusOf(obj, what)
	switch path := strings.Fields(what); {
	case t.got != nil:
		got = t.got(w, obj)
	case len(path) > 1:
		got = textAt(obj, path...)
	}
	if want := t.want(w, obj); want != got && want != unchecked {
		name := obj.GetNamespace() + "/" + obj.GetName()
		return fmt.Errorf("%s %s has %q and not %q: %s", obj.GetKind(), name, got, want, messages(obj))
	}
	return nil
}

// textAt is a field as text; empty without.
func textAt(obj *unstructured.Unstructured, path ...string) string {
	value, found, err := unstructured.NestedFieldNoCopy(obj.Object, path...)
	if text, is := value.(string); is || !found || err != nil {
		return text
	}
	return fmt.Sprint(value)
}

// constant is a fact that is the same for all objects.
func constant(text string) fact {
	return func(*World, *unstructured.Unstructured) string { return text }
}

// no and none are the facts about what is as it should be, and yes is one that holds for all.
func yes(*World, *unstructured.Unstructured) string  { return isTrue(true) }
func no(*World, *unstructured.Unstructured) string   { return isTrue(false) }
func none(*World, *unstructured.Unstructured) string { return "" }

func isTrue(is bool) string {
	if is {
		return string(metav1.ConditionTrue)
	}
	return string(metav1.ConditionFalse)
}

// worst sums statuses up: False before Unknown before True.
func worst(statuses ...string) string {
	for _, status := range []metav1.ConditionStatus{metav1.ConditionFalse, metav1.ConditionUnknown} {
		if slices.Contains(statuses, string(status)) {
			return string(status)
		}
	}
	return string(metav1.ConditionTrue)
}

// gaugesCount checks what the metrics of each leader count: phases and states that are not zero.
func (w *World) gaugesCount() {
	want := map[string]int{}
	for _, m := range w.Objects("Machine") {
		want["machinist_machines "+phaseOf(w, m)]++
	}
	for state, path := range map[string]string{"desired": "spec replicas", "actual": "status replicas",
		"ready": "status readyReplicas", "available": "status availableReplicas"} {
		for _, d := range w.Objects("MachineDeployment") {
			n, _, _ := unstructured.NestedInt64(d.Object, strings.Fields(path)...)
			want["machine_controller_machine_deployment_replicas "+state] += int(n)
		}
	}
	maps.DeleteFunc(want, func(_ string, n int) bool { return n == 0 })
	for i, p := range w.processes {
		got := map[string]int{}
		err := everyMetric(p.metrics, func(name string, labels map[string]string, n int) {
			if n != 0 && labels["phase"]+labels["state"] != "" {
				got[name+" "+labels["phase"]+labels["state"]] = n
			}
		})
		if w.fail(truthPrefix+"the metrics can be gathered", err); w.leads[i] && !maps.Equal(want, got) {
			w.fail(truthPrefix+"the metrics of a leader count the Machines", fmt.Errorf("%s has %v and not %v", p.name, got, want))
		}
	}
}
