package machineset_test

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/contract/pass"
	"github.com/machinist-dev/machinist/fake"
	"github.com/machinist-dev/machinist/machineset"
)

// told waits for an event about a set with a reason, whose type and note begin and contain so: the recorder sends them when it suits it.
func (w *world) told(reason, kind string, parts ...string) {
	w.t.Helper()
	w.eventually("say "+reason, func() string {
		var list eventsv1.EventList
		require.NoError(w.t, w.client.List(w.t.Context(), &list))
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

func TestEventsSayWhichMachinesASetMakesAndDeletes(t *testing.T) {
	t.Parallel()
	w := newWorld(t, fake0()).live()
	w.run(machineset.Options{})
	set := w.set("workers", 1)
	w.create(set)
	w.has(set, 1)
	name := w.machines()[0].GetName()
	w.told("SuccessfulCreate", "Normal", fmt.Sprintf("Created Machine %q", name))
	w.scale(set, 0)
	w.has(set, 0)
	w.told("SuccessfulDelete", "Normal", fmt.Sprintf("Deleted Machine %q", name))
}

func TestOneEventNamesTheFirstOfManyMachines(t *testing.T) {
	t.Parallel()
	for n, want := range map[int64]string{
		2: `^Deleted 2 Machines: [^ ,]+, [^ ,]+$`,
		5: `^Deleted 5 Machines: [^ ,]+, [^ ,]+, [^ ,]+, \.\.\. \(2 more\)$`,
	} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, fake0()).live()
			w.run(machineset.Options{})
			set := w.set("workers", n)
			w.create(set)
			w.counts(set, int(n)) // as they are: a Machine that changes before it is deleted is deleted in a later pass
			w.scale(set, 0)
			w.has(set, 0)
			w.eventually("say it", func() string {
				var list eventsv1.EventList
				require.NoError(t, w.client.List(t.Context(), &list))
				var notes []string
				for i := range list.Items {
					if e := &list.Items[i]; e.Reason == "SuccessfulDelete" {
						notes = append(notes, e.Note)
					}
				}
				if len(notes) != 1 || !regexp.MustCompile(want).MatchString(notes[0]) {
					return fmt.Sprintf("want %s, got %q", want, notes)
				}
				return ""
			})
		})
	}
}

func TestEventsSayWhichMachinesASetAdoptsAndReleases(t *testing.T) {
	t.Parallel()
	w := newWorld(t, fake0()).live()
	orphan := object(w.kinds.Machine.GVK, "orphan")
	orphan.SetLabels(map[string]string{"pool": "workers", contract.ClusterNameLabel: "demo"})
	orphan.Object["spec"] = map[string]any{"clusterName": "demo"}
	w.create(orphan)
	w.store.ResetRequests()
	w.run(machineset.Options{})
	set := w.set("workers", 1)
	w.create(set)
	w.told("SuccessfulAdopt", "Normal", `Adopted Machine "orphan"`)
	w.eventually("count it, and record what it gives it", func() string {
		n, _, _ := unstructured.NestedInt64(w.get(set).Object, "status", "replicas")
		if _, recorded := w.get(orphan).GetAnnotations()["machinist.dev/given"]; n != 1 || !recorded {
			return w.describe(set)
		}
		return ""
	})
	require.Zero(t, w.store.CountRequests(fake.Match("create", w.kinds.Machine.GVK.GroupKind(), "")), "there is one already")
	w.change(orphan, func(u *unstructured.Unstructured) {
		u.SetLabels(map[string]string{"pool": "quarantine", contract.ClusterNameLabel: "demo"})
	})
	w.told("SuccessfulRelease", "Normal", `Released Machine "orphan"`)
}

func TestEventsSayWhatASetCouldNotDo(t *testing.T) {
	t.Parallel()
	w := newWorld(t, fake0()).live()
	refuse := func(verb string, name string) (mend func()) {
		return w.store.Inject(fake.Fault{Times: -1,
			Err: apierrors.NewForbidden(schema.GroupResource{Resource: "machines"}, name, errors.New("not today")),
			Match: func(r fake.Request) bool {
				return r.UserAgent == userAgent && r.Verb == verb && r.GVK.Kind == w.kinds.Machine.GVK.Kind && (name == "" || r.Name == name)
			}})
	}
	orphan := object(w.kinds.Machine.GVK, "orphan")
	orphan.SetLabels(map[string]string{"pool": "adopting", contract.ClusterNameLabel: "demo"})
	orphan.Object["spec"] = map[string]any{"clusterName": "demo"}
	w.create(orphan)
	mendAdoption := refuse("patch", "orphan")
	w.run(machineset.Options{Options: pass.Options{StatusDelay: 10 * time.Millisecond}})
	w.create(w.set("adopting", 1))
	w.told("FailedAdopt", "Warning", `Failed to adopt Machine "orphan"`, "not today")
	mendAdoption()

	mendCreation := refuse("create", "")
	set := w.set("workers", 1)
	w.create(set)
	w.told("FailedCreate", "Warning", "Failed to create Machines", "not today")
	mendCreation()
	w.eventually("have a Machine", func() string {
		if fresh := w.get(set); fresh != nil {
			if n, _, _ := unstructured.NestedInt64(fresh.Object, "status", "replicas"); n == 1 {
				return ""
			}
		}
		return w.describe(set)
	})
	mendDeletion := refuse("delete", "")
	w.scale(set, 0)
	w.told("FailedDelete", "Warning", "Failed to delete Machines", "not today")
	mendDeletion()
}
