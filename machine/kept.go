package machine

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/internal/engine"
)

// EventWriteNotKept is the reason of an event that reports that the API server has accepted a write and does not store the written value,
// for example because a mutating webhook removes it. The condition Ready reports it too.
const EventWriteNotKept = "WriteNotKept"

const actionWrite = "Write"

// notKeptFacts are what an update wrote and the API server's answer.
type notKeptFacts struct {
	Update       contract.MachineUpdate
	Wanted, Have *contract.MachineState
	Finalizer    string
	// Whole: all of the update was written, and the pass ends so that it is stored before a later pass acts on a Node.
	Whole bool
}

// decideNotKept names the values that the API server did not store and that later passes depend on, empty when it stored all. Without this
// check, the next pass would make the same decisions and write them again, and when the write changed nothing, there would be no event and
// no next pass.
func decideNotKept(f notKeptFacts) string {
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
func (f notKeptFacts) finalizer() []string {
	wanted, have := slices.Contains(f.Wanted.Finalizers, f.Finalizer), slices.Contains(f.Have.Finalizers, f.Finalizer)
	switch {
	case f.Update.Finalizers.Keeps() || wanted == have:
		return nil
	case wanted:
		return []string{"the finalizer " + f.Finalizer}
	}
	return []string{"the removal of the finalizer " + f.Finalizer}
}

// notKept returns what the API server did not store of this pass. A failed pass reports it too.
func (s *Scope) notKept() string {
	if s.Answer() == nil || s.failed {
		return ""
	}
	var have contract.MachineState
	if s.env.kind.Adapter.Read(s.Answer(), &have) != nil {
		return "" // the next pass reports it
	}
	what := decideNotKept(notKeptFacts{
		Update: s.Update, Wanted: &s.State, Have: &have, Finalizer: s.env.options.Finalizer, Whole: s.recordsFirst,
	})
	if what == "" {
		return ""
	}
	return fmt.Sprintf("the API server accepts and does not keep %s: look for a mutating webhook that changes %s objects",
		what, s.env.kind.GVK.Kind)
}

// checkKept delays the next pass and reports what the API server did not store of this one.
func (s *Scope) checkKept() error {
	text := s.notKept()
	if s.memory.setNotKept(text, s.Now) {
		s.Record(engine.Event{Kind: corev1.EventTypeWarning, Reason: EventWriteNotKept, Action: actionWrite, Note: text})
	}
	if text == "" {
		return nil
	}
	return fmt.Errorf("write %s %s: %s", s.env.kind.GVK.Kind, s.State.Key, text)
}

// notKeptWrite is what the API server did not store of a Machine, since when, and when that was last seen.
type notKeptWrite struct {
	text        string
	since, last time.Time
}

// setNotKept remembers what was not stored, empty when all was. first is true when the text is new.
func (m *recollection) setNotKept(text string, now time.Time) (first bool) {
	if text == "" {
		m.notKept = nil
		return false
	}
	if first = m.notKept == nil || m.notKept.text != text; first {
		m.notKept = &notKeptWrite{text: text, since: now}
	}
	m.notKept.last = now
	return first
}

// left is the rest of the delay of the next pass: each one is twice as long as the one before, whatever events arrive.
func (w *notKeptWrite) left(now time.Time) time.Duration {
	if w == nil {
		return 0
	}
	return attemptRetry(w.last.Sub(w.since)) - now.Sub(w.last)
}

// recordFirst ends a pass with values that must be stored before a later pass acts on the Node.
func (s *Scope) recordFirst(reason, message string) (Result, error) {
	if err := s.checkStored(); err != nil {
		return Result{}, err
	}
	s.recordsFirst = true
	s.Wait(reason, message)
	return Result{Checkpoint: true}, nil
}

// checkStored returns an error when the kind of the Machine has no field for a value that this pass must store: every later pass would
// begin at the same point and never get further.
func (s *Scope) checkStored() error {
	stored, ok := s.Object.DeepCopyObject().(contract.Object)
	if !ok {
		return fmt.Errorf("copy of %T is no object", s.Object)
	}
	if err := s.env.kind.Adapter.Write(stored, s.Update); err != nil {
		return err
	}
	var next contract.MachineState
	if err := s.env.kind.Adapter.Read(stored, &next); err != nil {
		return err
	}
	node := "its Node"
	if s.State.Node.Name != "" {
		node = "Node " + s.State.Node.Name
	}
	untouched := node + " is neither drained nor deleted"
	switch {
	case len(next.Finalizers) < len(s.State.Finalizers):
		return s.notStored("its finalizers", "nothing is made for it", "MachineState.Finalizers (Metadata.From, MetadataUpdate.ApplyTo)")
	case next.ProviderID == "" && s.State.ProviderID != "":
		return s.notStored("its provider ID", untouched, "MachineState.ProviderID")
	case next.Node.UID == "" && s.State.Node.UID != "":
		return s.notStored("the UID of its Node", untouched, "MachineState.Node.UID")
	case next.DrainStarted.IsZero() && !s.State.DrainStarted.IsZero():
		return s.notStored("when a drain began", untouched, "MachineState.DrainStarted")
	}
	return nil
}

// checkProviderIDStored drops a provider ID that the kind of the Machine has no field for: the Node that matches it would never be drained.
func (s *Scope) checkProviderIDStored(before string) error {
	err := s.checkStored()
	if err != nil {
		s.State.ProviderID, s.Update.ProviderID = before, contract.Change[string]{}
	}
	return err
}

// validateKind reports which values that a Reconciler needs a kind does not store. A kind that rejects an empty object cannot be checked
// here; passes detect what it does not store.
func validateKind(kind contract.Kind, o Options) error {
	missing, err := contract.CheckKind(kind)
	if err != nil {
		return nil //nolint:nilerr // a real object may have the content that this one lacks
	}
	ofNode := engine.Position(o.Steps, StepDrain, engine.InDeletion) >= 0 || engine.Position(o.Steps, StepDeleteNode, engine.InDeletion) >= 0
	var errs []error
	for _, f := range missing {
		needed := f.Need == contract.NeedMust
		switch f.Member {
		case "Node.Name", "Node.UID", "DrainStarted":
			needed = ofNode
		case "ProviderID":
			needed = engine.HasStandard(o.Steps, StepInfrastructure)
		case "DataSecretName":
			needed = engine.HasStandard(o.Steps, StepBootstrap)
		}
		if needed {
			errs = append(errs, errors.New(f.String()))
		}
	}
	return errors.Join(errs...)
}

func (s *Scope) notStored(what, so, place string) error {
	kind := s.env.kind.GVK.Kind
	return fmt.Errorf("%s %s does not keep %s, so %s: have the contract.Kind of %s write and read %s",
		kind, s.State.Key, what, so, kind, place)
}
