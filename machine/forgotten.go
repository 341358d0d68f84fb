package machine

import (
	"fmt"

	"github.com/machinist-dev/machinist/contract"
)

// recordFirst ends a pass with what has to be stored before anything is done to the Node.
func (s *Scope) recordFirst(reason, message string) (Result, error) {
	if err := s.forgotten(); err != nil {
		return Result{}, err
	}
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

func (s *Scope) keepsNo(what, so, place string) error {
	kind := s.env.kind.GVK.Kind
	return fmt.Errorf("%s %s does not keep %s, so %s: have the contract.Kind of %s write and read %s", kind, s.State.Key, what, so, kind, place)
}
