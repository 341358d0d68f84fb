package machine

import (
	"errors"
	"fmt"

	"github.com/machinist-dev/machinist/contract"
)

// recordFirst ends a pass with values that must be stored before a later pass acts on the Node.
func (s *Scope) recordFirst(reason, message string) (Result, error) {
	if err := s.forgotten(); err != nil {
		return Result{}, err
	}
	s.recordsFirst = true
	s.Wait(reason, message)
	return Result{Checkpoint: true}, nil
}

// forgotten returns an error when the kind of the Machine has no field for a value that this pass must store: every later pass would begin
// at the same point and never get further.
func (s *Scope) forgotten() error {
	stored, ok := s.Object.DeepCopyObject().(contract.Object)
	if !ok {
		return fmt.Errorf("copy of %T is no object", s.Object)
	}
	if err := s.env.kind.Adapter.Write(stored, s.update); err != nil {
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
		return s.keepsNo("its finalizers", "nothing is made for it", "MachineState.Finalizers (Metadata.From, MetadataUpdate.ApplyTo)")
	case next.ProviderID == "" && s.State.ProviderID != "":
		return s.keepsNo("its provider ID", untouched, "MachineState.ProviderID")
	case next.Node.UID == "" && s.State.Node.UID != "":
		return s.keepsNo("the UID of its Node", untouched, "MachineState.Node.UID")
	case next.DrainStarted.IsZero() && !s.State.DrainStarted.IsZero():
		return s.keepsNo("when a drain began", untouched,
			"MachineState.DrainStarted, for instance in annotations (StagesFromAnnotations, StagesInAnnotations)")
	}
	return nil
}

// keepsProviderID drops a provider ID that the kind of the Machine has no field for: the Node that matches it would never be drained.
func (s *Scope) keepsProviderID(before string) error {
	err := s.forgotten()
	if err != nil {
		s.State.ProviderID, s.update.ProviderID = before, contract.Change[string]{}
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
	ofNode := at(o.Steps, StepDrain, InDeletion) >= 0 || at(o.Steps, StepDeleteNode, InDeletion) >= 0
	var errs []error
	for _, f := range missing {
		needed := f.Need == contract.NeedMust
		switch f.Member {
		case "Node.Name", "Node.UID", "DrainStarted":
			needed = ofNode
		case "ProviderID":
			needed = isOurs(o.Steps, StepInfrastructure)
		case "DataSecretName":
			needed = isOurs(o.Steps, StepBootstrap)
		case "PreDrainStarted", "VolumeDetachStarted", "PreTerminateStarted":
			needed = o.Policy.Limits != nil
		}
		if needed {
			errs = append(errs, errors.New(f.String()))
		}
	}
	return errors.Join(errs...)
}

func (s *Scope) keepsNo(what, so, place string) error {
	kind := s.env.kind.GVK.Kind
	return fmt.Errorf("%s %s does not keep %s, so %s: have the contract.Kind of %s write and read %s", kind, s.State.Key, what, so, kind, place)
}
