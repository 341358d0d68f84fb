package machine

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/machinist-dev/machinist/contract"
)

// EventWriteNotKept is the reason of an event that reports that the API server has accepted a write and does not store the written value,
// for example because a mutating webhook removes it. The condition Ready reports it too.
const EventWriteNotKept = "WriteNotKept"

const actionWrite = "Write"

// unkeptFacts are what an update wrote and the API server's answer.
type unkeptFacts struct {
	Update       contract.MachineUpdate
	Wanted, Have *contract.MachineState
	Finalizer    string
	// Whole: all of the update was written, and the pass ends so that it is stored before a later pass acts on a Node.
	Whole bool
}

// decideUnkept names the values that the API server did not store and that later passes depend on, empty when it stored all. Without this
// check, the next pass would make the same decisions and write them again, and when the write changed nothing, there would be no event and
// no next pass.
func decideUnkept(f unkeptFacts) string {
	lost := f.finalizer()
	if !f.Update.ProviderID.Keeps() && f.Have.ProviderID != f.Wanted.ProviderID {
		lost = append(lost, "the provider ID")
	}
	if !f.Update.DataSecretName.Keeps() && f.Have.DataSecretName != f.Wanted.DataSecretName {
		lost = append(lost, "the name of the data secret")
	}
	for key := range f.Update.Annotations {
		if f.Have.Annotations[key] != f.Wanted.Annotations[key] {
			lost = append(lost, "the annotation "+key)
		}
	}
	if f.Whole && !f.Update.Node.Keeps() && f.Have.Node != f.Wanted.Node {
		lost = append(lost, "the reference to the Node with its UID")
	}
	if f.Whole && !f.Update.DrainStarted.Keeps() && f.Have.DrainStarted.IsZero() {
		lost = append(lost, "when the drain began")
	}
	slices.Sort(lost)
	return strings.Join(lost, ", ")
}

// finalizer returns what the API server did not store of our finalizer.
func (f unkeptFacts) finalizer() []string {
	wanted, have := slices.Contains(f.Wanted.Finalizers, f.Finalizer), slices.Contains(f.Have.Finalizers, f.Finalizer)
	switch {
	case f.Update.Finalizers.Keeps() || wanted == have:
		return nil
	case wanted:
		return []string{"the finalizer " + f.Finalizer}
	}
	return []string{"the removal of the finalizer " + f.Finalizer}
}

// unkept returns what the API server did not store of this pass. A failed pass reports it too.
func (s *Scope) unkept() string {
	if s.answer == nil || s.failed {
		return ""
	}
	var have contract.MachineState
	if s.env.kind.Adapter.Read(s.answer, &have) != nil {
		return "" // the next pass reports it
	}
	what := decideUnkept(unkeptFacts{
		Update: s.update, Wanted: &s.State, Have: &have, Finalizer: s.env.options.Finalizer, Whole: s.recordsFirst,
	})
	if what == "" {
		return ""
	}
	return fmt.Sprintf("the API server accepts and does not keep %s: look for a mutating webhook that changes %s objects",
		what, s.env.kind.GVK.Kind)
}

// checkKept delays the next pass and reports what the API server did not store of this one.
func (s *Scope) checkKept() error {
	text := s.unkept()
	first := s.env.memory.setUnkept(s.State.Key, s.State.UID, text)
	if text == "" {
		return nil
	}
	if first {
		s.record([]event{{corev1.EventTypeWarning, EventWriteNotKept, actionWrite, text}})
	}
	return fmt.Errorf("write %s %s: %s", s.env.kind.GVK.Kind, s.State.Key, text)
}

// unkeptWrite is what the API server did not store of a Machine, since when, and when that was last seen.
type unkeptWrite struct {
	machine     types.UID
	text        string
	since, last time.Time
}

// setUnkept remembers what was not stored; an empty text removes the entry. first is true when the text is new.
func (m *memory) setUnkept(key types.NamespacedName, machine types.UID, text string) (first bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	known := m.unkept[key]
	if text == "" {
		delete(m.unkept, key)
		return false
	}
	now := m.clock.Now()
	if first = known.machine != machine || known.text != text; first {
		known = unkeptWrite{machine: machine, text: text, since: now}
	}
	known.last = now
	m.unkept[key] = known
	return first
}

// unkeptOf returns what was not stored of a Machine, and the delay of its next pass: each one is twice as long as the one before, whatever
// events arrive.
func (m *memory) unkeptOf(key types.NamespacedName, machine types.UID) (text string, wait time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	known, found := m.unkept[key]
	if !found || known.machine != machine {
		return "", 0
	}
	return known.text, attemptRetry(known.last.Sub(known.since)) - m.clock.Since(known.last)
}
