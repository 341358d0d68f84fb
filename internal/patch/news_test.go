package patch

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clocktesting "k8s.io/utils/clock/testing"
)

// versionOf returns an object of a version that was changed.
func versionOf(version string, change func(u *unstructured.Unstructured)) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{"status": map[string]any{"ready": false}}}
	u.SetUID("u")
	u.SetResourceVersion(version)
	if change != nil {
		change(u)
	}
	return u
}

func TestOnlyAChangeThatAPassDoesNotKnowIsNews(t *testing.T) {
	t.Parallel()
	labelled := func(u *unstructured.Unstructured) { u.SetLabels(map[string]string{"a": "b"}) }
	kept := func(u *unstructured.Unstructured) { u.SetFinalizers([]string{"example.com/keep"}) }
	deleted := func(u *unstructured.Unstructured) {
		_ = unstructured.SetNestedField(u.Object, "2026-01-01T00:00:00Z", "metadata", "deletionTimestamp")
		u.SetGeneration(2)
	}
	also := func(change func(*unstructured.Unstructured)) func(*unstructured.Unstructured) {
		return func(u *unstructured.Unstructured) {
			change(u)
			_ = unstructured.SetNestedField(u.Object, true, "status", "ready")
		}
	}
	wrote := func(version string) func(*marks) { return func(m *marks) { m.Wrote(versionOf(version, nil)) } }
	deletes := func(m *marks) { m.Deletes(versionOf("5", nil)) }
	for name, tc := range map[string]struct {
		did         func(*marks)
		before, now func(*unstructured.Unstructured)
		news        bool
	}{
		"a new status":                               {nil, nil, also(kept), true},
		"a finalizer":                                {nil, nil, kept, false},
		"a label of others":                          {nil, nil, labelled, true},
		"a label that this process wrote":            {wrote("6"), nil, labelled, false},
		"a label on top of what it wrote":            {wrote("5"), nil, labelled, true},
		"a status that came together with our label": {wrote("6"), nil, also(labelled), true},
		"a deletion by others":                       {nil, nil, deleted, true},
		"a deletion that this process requested":     {deletes, nil, deleted, false},
		"a status that came together with that":      {deletes, nil, also(deleted), true},
		"a finalizer that is removed after that":     {deletes, func(u *unstructured.Unstructured) { deleted(u); kept(u) }, deleted, false},
		"an object that lives on after that":         {deletes, nil, kept, true},
		"another object":                             {wrote("6"), nil, func(u *unstructured.Unstructured) { u.SetUID("v") }, true},
	} {
		m := newMarks(clocktesting.NewFakePassiveClock(time.Unix(1000, 0)))
		if tc.did != nil {
			tc.did(m)
		}
		if news := m.IsNews(versionOf("5", tc.before), versionOf("6", tc.now)); news != tc.news {
			t.Errorf("%s: want news %t", name, tc.news)
		}
	}
}

func TestADeletionThatWasRequestedIsRememberedUntilItsEvent(t *testing.T) {
	t.Parallel()
	clock := clocktesting.NewFakePassiveClock(time.Unix(1000, 0))
	m := newMarks(clock)
	m.Wrote(versionOf("7", nil))
	m.Deletes(versionOf("5", nil))
	if !m.Behind(versionOf("6", nil)) || m.Behind(versionOf("7", nil)) {
		t.Error("the later version counts, as it does without a deletion")
	}
	if last := m.written["u"]; !last.deleted {
		t.Error("a pass in between must not forget the request")
	}
	clock.SetTime(clock.Now().Add(MaxBehind))
	m.Wrote(&unstructured.Unstructured{})
	if len(m.written) != 1 {
		t.Errorf("it must not be remembered for good: %v", m.written)
	}
}
