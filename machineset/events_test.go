package machineset_test

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/contract/pass"
	"github.com/machinist-dev/machinist/fake"
	"github.com/machinist-dev/machinist/internal/apitest/testenv"
	"github.com/machinist-dev/machinist/machineset"
)

// told waits for an event about a set with a reason, whose type and note begin and contain so: the recorder sends them when it suits it.
func (w *world) told(reason, kind string, parts ...string) {
	w.t.Helper()
	w.Eventually("say "+reason, func() string {
		var list eventsv1.EventList
		require.NoError(w.t, w.Client.List(w.t.Context(), &list))
		var notes []string
		for i := range list.Items {
			e := &list.Items[i]
			if e.Reason != reason || e.Regarding.Kind != w.kinds.Set.GVK.Kind {
				continue
			}
			if e.Type == kind && !slices.ContainsFunc(parts, func(part string) bool { return !strings.Contains(e.Note, part) }) {
				return ""
			}
			notes = append(notes, e.Type+" "+e.Note)
		}
		return fmt.Sprintf("want %s with %q, got %q", kind, parts, notes)
	})
}

func TestOneEventNamesTheFirstOfManyMachines(t *testing.T) {
	t.Parallel()
	for n, want := range map[int64]string{
		1: `^Deleted Machine "workers-[a-z0-9]+"$`,
		2: `^Deleted 2 Machines: [^ ,]+, [^ ,]+$`,
		5: `^Deleted 5 Machines: [^ ,]+, [^ ,]+, [^ ,]+, \.\.\. \(2 more\)$`,
	} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, fake.Options{}).live()
			w.run(machineset.Options{})
			set := w.set("workers", n)
			w.Create(set)
			w.counts(set, int(n)) // as they are: a Machine that changes before it is deleted is deleted in a later pass
			w.told("SuccessfulCreate", "Normal", "Created ", "workers-")
			w.scale(set, 0)
			w.has(set, 0)
			w.until("say it", func() bool {
				var list eventsv1.EventList
				require.NoError(t, w.Client.List(t.Context(), &list))
				var notes []string
				for i := range list.Items {
					if e := &list.Items[i]; e.Reason == "SuccessfulDelete" {
						notes = append(notes, e.Note)
					}
				}
				return len(notes) == 1 && regexp.MustCompile(want).MatchString(notes[0])
			})
		})
	}
}

func TestEventsSayWhichMachinesASetAdoptsAndReleases(t *testing.T) {
	t.Parallel()
	w := newWorld(t, fake.Options{}).live()
	orphan := w.stray("orphan", "workers")
	w.Store.ResetRequests()
	w.run(machineset.Options{})
	set := w.set("workers", 1)
	w.Create(set)
	w.told("SuccessfulAdopt", "Normal", `Adopted Machine "orphan"`)
	w.until("count it, and record what it gives it", func() bool {
		n := testenv.Number(w.Get(set), "status", "replicas")
		_, recorded := w.Get(orphan).GetAnnotations()["machinist.dev/given"]
		return n == 1 && recorded
	})
	require.Zero(t, w.Store.CountRequests(fake.Match("create", w.kinds.Machine.GVK.GroupKind(), "")), "there is one already")
	w.Change(orphan, func(u *unstructured.Unstructured) {
		u.SetLabels(map[string]string{"pool": "quarantine", contract.ClusterNameLabel: "demo"})
	})
	w.told("SuccessfulRelease", "Normal", `Released Machine "orphan"`)
	w.until("replace it", func() bool { return metav1.GetControllerOf(w.Get(orphan)) == nil && len(w.machines()) == 2 })
}

func TestEventsOfWhatASetCouldNotDo(t *testing.T) {
	const denied = "denied the request"
	t.Parallel()
	w := newWorld(t, fake.Options{}).live()
	w.stray("orphan", "adopting")
	mendAdoption := w.refuses("patch", "orphan")
	w.run(machineset.Options{Options: pass.Options{StatusDelay: 10 * time.Millisecond}})
	w.Create(w.set("adopting", 1))
	w.told("FailedAdopt", "Warning", `Failed to adopt Machine "orphan"`, denied)
	mendAdoption()

	mendCreation := w.refuses("create", "")
	set := w.set("workers", 1)
	w.Create(set)
	w.told("FailedCreate", "Warning", "Failed to create Machines", denied)
	mendCreation()
	w.Eventually("have a Machine", func() string {
		if fresh := w.Get(set); fresh != nil {
			if testenv.Number(fresh, "status", "replicas") == 1 {
				return ""
			}
		}
		return w.describe(set)
	})
	mendDeletion := w.refuses("delete", "")
	w.scale(set, 0)
	w.told("FailedDelete", "Warning", "Failed to delete Machines", denied)
	mendDeletion()
}

// says writes a condition of a Machine, as its own controller does.
func (w *world) says(m *unstructured.Unstructured, kind, status, message string) {
	w.t.Helper()
	base := m.DeepCopy()
	require.NoError(w.t, unstructured.SetNestedSlice(m.Object, []any{map[string]any{
		"type": kind, "status": status, "reason": "Because", "message": message, "lastTransitionTime": "2026-01-01T00:00:00Z",
	}}, "status", "conditions"))
	require.NoError(w.t, w.Client.Status().Patch(w.t.Context(), m, client.MergeFrom(base)))
}

// A cache lists Machines in any order, and a message that follows it is written again and again.
func TestMachinesAreNamedInOrder(t *testing.T) {
	t.Parallel()
	w := newWorld(t, fake.Options{}) // no controller reconciles the Machines
	w.run(machineset.Options{})
	set := w.set("workers", 6)
	w.Create(set)
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
	w.Create(set)
	w.has(set, 2)
	w.Eventually("count both Machines", func() string {
		return cmp.Diff(int64(2), testenv.Number(w.Get(set), "status", "deprecated", "v1beta1", "fullyLabeledReplicas"))
	})
}
