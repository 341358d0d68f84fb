package machineset_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/fake"
	"github.com/machinist-dev/machinist/machineset"
)

// says writes a condition of a Machine, as its own controller does.
func (w *world) says(m *unstructured.Unstructured, kind, status, message string) {
	w.t.Helper()
	base := m.DeepCopy()
	require.NoError(w.t, unstructured.SetNestedSlice(m.Object, []any{map[string]any{
		"type": kind, "status": status, "reason": "Because", "message": message, "lastTransitionTime": "2026-01-01T00:00:00Z",
	}}, "status", "conditions"))
	require.NoError(w.t, w.client.Status().Patch(w.t.Context(), m, client.MergeFrom(base)))
}

// A cache lists Machines in any order, and a message that follows it is written again and again.
func TestMachinesAreNamedInOrder(t *testing.T) {
	t.Parallel()
	w := newWorld(t, fake0()) // no controller reconciles the Machines
	w.run(machineset.Options{})
	set := w.set("workers", 6)
	w.create(set)
	w.has(set, 6)
	names := w.names()
	for _, m := range w.machines() {
		w.says(&m, "Ready", "False", "no network")
	}
	want := ""
	for _, name := range names[:3] {
		want += "* Machine " + name + ": no network\n"
	}
	w.conditionSays(set, contract.ConditionMachinesReady, want+"* And 3 more")
}

// Cluster API counts by the labels of the template alone, not by those that it adds for itself.
func TestFullyLabeledMachinesHaveTheLabelsOfTheTemplate(t *testing.T) {
	t.Parallel()
	w := newWorld(t, fake.Options{Admit: func(obj *unstructured.Unstructured) { // a webhook that strips a label
		if obj.GetKind() == "Machine" {
			unstructured.RemoveNestedField(obj.Object, "metadata", "labels", contract.SetNameLabel)
		}
	}})
	w.run(machineset.Options{})
	set := w.set("workers", 2)
	w.create(set)
	w.has(set, 2)
	w.eventually("count both Machines", func() string {
		n, _, _ := unstructured.NestedInt64(w.get(set).Object, "status", "deprecated", "v1beta1", "fullyLabeledReplicas")
		return cmp.Diff(int64(2), n)
	})
}

func TestAMessageWithAListIsPrintedBelowItsMachine(t *testing.T) {
	t.Parallel()
	w := newWorld(t, fake0())
	w.run(machineset.Options{})
	set := w.set("workers", 1)
	w.create(set)
	w.has(set, 1)
	name := w.names()[0]
	for _, tc := range []struct{ message, want string }{
		{"one line", "* Machine " + name + ": one line"},
		{"* one\n* two", "* Machine " + name + ":\n  * one\n  * two"},
		{"a head:\n* one", "* Machine " + name + ":\n  a head:\n  * one"},
	} {
		w.says(&w.machines()[0], "Ready", "False", tc.message)
		w.eventually("say "+tc.want, func() string {
			return cmp.Diff(tc.want, w.condition(set, contract.ConditionMachinesReady).Message)
		})
	}
}
