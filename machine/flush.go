package machine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/internal/engine"
)

// EventWriteNotKept is the reason of the event for a write that the API server has accepted without storing the value, because its CRD has
// no field for it or a mutating webhook removes it. The condition Ready reports it too.
const EventWriteNotKept = engine.EventWriteNotKept

// missingIn names the values of this pass that are missing in the stored Machine, and without which an instance, a Node or a Pod would be
// lost or every later pass would begin at the same point; empty when none is missing. status: the status was to be stored. whole: include
// the values that must be stored before a later pass acts on a Node.
func (s *Scope) missingIn(have *contract.MachineState, status, whole bool) string {
	var lost []string
	finalizer := s.env.frame.Finalizer
	switch wanted := slices.Contains(s.State.Finalizers, finalizer); {
	case s.Update.Finalizers.Keeps() || wanted == slices.Contains(have.Finalizers, finalizer):
	case wanted:
		lost = append(lost, "the finalizer "+finalizer)
	default:
		lost = append(lost, "the removal of the finalizer "+finalizer)
	}
	if !s.Update.ProviderID.Keeps() && have.ProviderID != s.State.ProviderID {
		lost = append(lost, "the provider ID")
	}
	if (status || whole) && !s.Update.Node.Keeps() && have.Node != s.State.Node {
		lost = append(lost, "the reference to the Node with its UID")
	}
	if whole && hasBegunDrain(&s.State) && !hasBegunDrain(have) {
		lost = append(lost, "when the drain began")
	}
	return strings.Join(lost, ", ")
}

func hasBegunDrain(state *contract.MachineState) bool {
	return !state.Deletion(state.Deleting).Stages[contract.StageDrain].Start.IsZero()
}

// recordFirst ends a pass whose values must be stored before a later pass acts on the Node.
func (s *Scope) recordFirst(reason, message string) (Result, error) {
	if err := s.checkStored(); err != nil {
		return Result{}, err
	}
	s.recordsFirst = true
	s.Wait(reason, message)
	return Result{Checkpoint: true}, nil
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
	if what := s.missingIn(&have, true, true); what != "" {
		kind := s.env.kind.GVK.Kind
		return fmt.Errorf("%s %s does not keep %s: have the contract.Kind of %s write and read it", kind, s.State.Key, what, kind)
	}
	return nil
}

// validateKind reports the values that a Reconciler needs and a kind does not store. A kind that rejects an empty object cannot be checked
// here; passes detect its missing fields.
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

// flush writes the decisions of the pass, and records events after the write. If the write fails, the pass that repeats it records the
// events. A pass that failed or found the Machine paused does not set the observed generation of the status, only those of conditions.
// Rule: Cluster API's Machine controller.
func flush(ctx context.Context, s *Scope, failed error) error {
	if s.Paused() {
		s.releaseIfPaused()
	} else {
		s.recordDeletion()
	}
	err := s.Flush(ctx, engine.Writing{Observes: failed == nil && !s.Paused(), Problems: problems(s.Deleting())})
	if err == nil && failed == nil {
		err = s.CheckKept(s.WroteStatus() || s.recordsFirst || s.Update.Node.Keeps(), func(have *contract.MachineState) string {
			return s.missingIn(have, s.WroteStatus(), s.recordsFirst)
		})
	}
	if err == nil {
		s.Record(s.memory.newEvents(s.events, s.Deleting())...)
	}
	return err
}

// addEvent adds an event of this pass, for a completed action or a final decision. It is recorded at the end of the pass. An event that
// every pass adds is recorded once.
func (s *Scope) addEvent(kind, reason, action, note string) {
	if e := (engine.Event{Kind: kind, Reason: reason, Action: action, Note: note}); !slices.Contains(s.events, e) {
		s.events = append(s.events, e)
	}
}
