package machine

import (
	"errors"
	"fmt"

	"github.com/machinist-dev/machinist/contract"
)

// recordFirst ends a pass with what has to be stored before anything is done to the Node.
func (s *Scope) recordFirst(reason, message string) (Result, error) {
	if err := s.forgotten(); err != nil {
		return Result{}, err
	}
	s.recordsFirst = true
	s.Wait(reason, message)
	return Result{Checkpoint: true}, nil
}

// forgotten is an error when the kind of the Machine has no place for what this pass has to store: the next pass would begin where this
// one did, and so on for ever.
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

// keepsProviderID takes a provider ID back that the kind of the Machine has no place for: the Node that it finds would never be drained.
func (s *Scope) keepsProviderID(before string) error {
	err := s.forgotten()
	if err != nil {
		s.State.ProviderID, s.update.ProviderID = before, contract.Change[string]{}
	}
	return err
}

// validateKind reports what a kind forgets of what a Reconciler cannot do without. One that refuses an object without content cannot be
// asked: what it forgets, passes notice.
func validateKind(kind contract.Kind, o Options) error {
	missing, err := contract.CheckKind(kind)
	if err != nil {
		return nil //nolint:nilerr // a real object may have what this one lacks
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
