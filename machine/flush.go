package machine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/internal/engine"
)

// EventWriteNotKept is the reason of an event that reports that the API server has accepted a write and does not store the written value,
// because its CRD has no field for it, or a mutating webhook removes it. The condition Ready reports it too.
const EventWriteNotKept = "WriteNotKept"

const actionWrite = "Write"

// notKeptFacts are what an update wrote and the API server's answer.
type notKeptFacts struct {
	Update       contract.MachineUpdate
	Wanted, Have *contract.MachineState
	Finalizer    string
	// Status: the status of the update was written. Whole: all of it was, and the pass ends so that it is stored before a later pass acts on
	// a Node.
	Status, Whole bool
}

// decideNotKept names the values that were not stored and without which an instance, a Node or a Pod would be lost, or every later pass
// would begin at the same point and never get further; empty when all were.
func decideNotKept(f notKeptFacts) string {
	lost := f.finalizer()
	if !f.Update.ProviderID.Keeps() && f.Have.ProviderID != f.Wanted.ProviderID {
		lost = append(lost, "the provider ID")
	}
	if (f.Status || f.Whole) && !f.Update.Node.Keeps() && f.Have.Node != f.Wanted.Node {
		lost = append(lost, "the reference to the Node with its UID")
	}
	if f.Whole && hasBegunDrain(f.Wanted) && !hasBegunDrain(f.Have) {
		lost = append(lost, "when the drain began")
	}
	return strings.Join(lost, ", ")
}

func hasBegunDrain(state *contract.MachineState) bool {
	return !state.Deletion(state.Deleting).Stages[contract.StageDrain].Start.IsZero()
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

// notKept returns what the API server did not store of this pass. A pass that shows nothing of that, because it has failed or has not
// written what was not stored before, reports what the earlier one did.
func (s *Scope) notKept() string {
	if s.failed || s.undone || !s.Update.Node.Keeps() && !s.wroteStatus && !s.recordsFirst {
		return s.memory.notKept
	}
	if s.Answer() == nil {
		return ""
	}
	var have contract.MachineState
	if s.env.kind.Adapter.Read(s.Answer(), &have) != nil {
		return "" // the next pass reports it
	}
	what := s.missingIn(&have, s.recordsFirst)
	if what == "" {
		return ""
	}
	return fmt.Sprintf("the API server accepts and does not keep %s: the CRD of %s has no field for it, or a mutating webhook removes it",
		what, s.env.kind.GVK.Kind)
}

// checkKept reports what the API server did not store of this pass. Limits of writes delay its repetitions.
func (s *Scope) checkKept() error {
	text := s.notKept()
	if text != "" && text != s.memory.notKept {
		s.Record(engine.Event{Kind: corev1.EventTypeWarning, Reason: EventWriteNotKept, Action: actionWrite, Note: text})
	}
	if s.memory.notKept = text; text == "" {
		return nil
	}
	return fmt.Errorf("write %s %s: %s", s.env.kind.GVK.Kind, s.State.Key, text)
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

// missingIn names what a Machine as stored lacks of this pass, see decideNotKept.
func (s *Scope) missingIn(have *contract.MachineState, whole bool) string {
	return decideNotKept(notKeptFacts{Update: s.Update, Wanted: &s.State, Have: have, Finalizer: s.env.frame.Finalizer,
		Status: s.wroteStatus, Whole: whole})
}

// checkStored returns an error when the kind of the Machine has no field for a value that this pass must store.
func (s *Scope) checkStored() error {
	stored, ok := s.Object.DeepCopyObject().(contract.Object)
	if !ok {
		return fmt.Errorf("copy of %T is no object", s.Object)
	}
	if err := s.env.kind.Adapter.Write(stored, s.Update); err != nil {
		return err
	}
	var have contract.MachineState
	if err := s.env.kind.Adapter.Read(stored, &have); err != nil {
		return err
	}
	if what := s.missingIn(&have, true); what != "" {
		kind := s.env.kind.GVK.Kind
		return fmt.Errorf("%s %s does not keep %s: have the contract.Kind of %s write and read it", kind, s.State.Key, what, kind)
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
		case "Node.Name", "Node.UID":
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

// flush writes the decisions of the pass, and records events after the write. What a failed pass has to tell is told by the one that
// repeats it.
func flush(ctx context.Context, s *Scope, err error) error {
	s.failed = err != nil
	if !s.Paused() {
		s.recordDeletion()
	}
	err = s.Flush(ctx, engine.Writing[contract.MachineUpdate]{
		Observes: s.observes(), AtOnce: s.urgent,
		Wrote: func(u contract.MachineUpdate, _, status bool) {
			if status {
				s.wroteStatus = true
				s.Record(engine.ConditionEvents(s.Stored, u.Conditions, problems(s.Deleting()))...)
			}
		},
	})
	s.Record(s.storedEvents()...)
	if s.undone = engine.Undone(err) != nil; err == nil || s.undone {
		err = errors.Join(err, s.checkKept())
	}
	if err == nil {
		s.Record(s.memory.tells(s.told, s.Deleting())...)
	}
	return err
}

// observes reports whether this pass has evaluated the whole Machine: a pass that failed or found the Machine paused has not. Each
// condition still has its own observed generation. Rule: Cluster API's Machine controller.
func (s *Scope) observes() bool { return !s.failed && !s.Paused() }

// storedEvents returns the events about the Node that the writes of this pass have recorded as the Machine's, or as drained. Some layouts
// record the Node in the metadata, and then the write of the status in a later pass finds it recorded already. A webhook may prune it.
func (s *Scope) storedEvents() []engine.Event {
	if !s.Written() {
		return nil
	}
	var all []engine.Event
	var have contract.MachineState
	if node, set := s.Update.Node.Value(); set && s.nodeIsNew && node.Name != "" &&
		s.env.kind.Adapter.Read(s.Answer(), &have) == nil && have.Node.Name == node.Name {
		all = append(all, engine.Event{Kind: corev1.EventTypeNormal, Reason: EventNodeMatched, Action: actionMatchNode, Note: node.Name})
	}
	if slices.Contains(s.ended, contract.StageDrain) {
		all = append(all, engine.Event{Kind: corev1.EventTypeNormal, Reason: EventNodeDrained, Action: actionDrainNode,
			Note: fmt.Sprintf("success draining Machine's node %q", s.State.Node.Name)})
	}
	return all
}

// tell adds an event of this pass. Use it for completed actions and for final decisions: it is recorded at the end of the pass. An event
// that every pass adds is recorded when the first of them adds it.
func (s *Scope) tell(kind, reason, action, note string) {
	if e := (engine.Event{Kind: kind, Reason: reason, Action: action, Note: note}); !slices.Contains(s.told, e) {
		s.told = append(s.told, e)
	}
}
