package machineset

import (
	"k8s.io/apimachinery/pkg/types"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/internal/children"
	"github.com/machinist-dev/machinist/internal/engine"
	"github.com/machinist-dev/machinist/internal/external"
	"github.com/machinist-dev/machinist/machineset/scale"
)

// Scope is one pass over one set: what was read and decided so far, and the functions to write it. Only the worker that runs the pass uses
// it.
type Scope struct {
	engine.Scope[contract.MachineSetState, contract.MachineSetUpdate]

	env *Reconciler

	machines  children.Scope[contract.MachineSetState, contract.MachineSetUpdate, contract.MachineState, contract.MachineUpdate]
	templates [2]external.Object // what the bootstrap and the infrastructure objects of new Machines are cloned from
	// orderErr says why the order of deletions cannot be read, where it keeps Machines.
	orderErr error
}

// member is a Machine of the set.
type member = children.Child[contract.MachineState]

// Machines returns the states of the Machines that the set controls, those in deletion included, and whether StepMachines has read them in
// this pass. The states are shared with later passes and must not be changed.
func (s *Scope) Machines() (machines []*contract.MachineState, known bool) {
	machines = make([]*contract.MachineState, 0, len(s.machines.Own))
	for _, m := range s.machines.Own {
		machines = append(machines, m.State)
	}
	return machines, s.machines.Known
}

// Hold keeps the set from creating Machines in this pass; the condition ScalingUp says why with the message. A set with too many Machines
// deletes them nevertheless. Call it from a step in front of StepScale, in each pass for as long as the reason lasts, and have the step
// request another pass where no event follows when it ends.
func (s *Scope) Hold(reason, message string) {
	s.machines.Hold(reason, message)
}

// plannable are the Machines of the set as a plan sees them.
func (s *Scope) plannable() []scale.Machine {
	all := make([]scale.Machine, 0, len(s.machines.Own))
	for _, m := range s.machines.Own {
		all = append(all, scale.Of(m.State, s.State.UID, s.env.marks...))
	}
	return all
}

func (s *Scope) key(name string) types.NamespacedName {
	return types.NamespacedName{Namespace: s.State.Key.Namespace, Name: name}
}
