package machineset

import (
	"k8s.io/apimachinery/pkg/types"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/internal/children"
	"github.com/machinist-dev/machinist/internal/engine"
	"github.com/machinist-dev/machinist/internal/external"
	"github.com/machinist-dev/machinist/machineset/scale"
)

// Scope is one pass over one set: the facts that were read, the decisions so far, and the functions to write them. Only the worker that
// runs the pass uses it.
type Scope struct {
	engine.Scope[contract.MachineSetState, contract.MachineSetUpdate]

	env *Reconciler

	machines  children.Scope[contract.MachineSetState, contract.MachineSetUpdate, contract.MachineState, contract.MachineUpdate]
	templates [2]external.Object // the templates of the bootstrap and infrastructure objects of new Machines
	// orderErr is why the order of deletions is invalid, if it prevents a deletion.
	orderErr error
}

// member is a Machine of the set.
type member = children.Child[contract.MachineState]

// Machines returns the states of the Machines that the set controls, including those that are being deleted, and whether StepMachines has
// read them in this pass. The states are shared with later passes and must not be changed.
func (s *Scope) Machines() (machines []*contract.MachineState, known bool) {
	machines = make([]*contract.MachineState, 0, len(s.machines.Own))
	for _, m := range s.machines.Own {
		machines = append(machines, m.State)
	}
	return machines, s.machines.Known
}

// Hold prevents the set from creating Machines in this pass; the condition ScalingUp reports the message. A set with too many Machines
// still deletes them. Call it from a step before StepScale, in each pass while the reason lasts. If no event follows its end, the step must
// request another pass.
func (s *Scope) Hold(reason, message string) {
	s.machines.Hold(reason, message)
}

// plannable returns the Machines of the set as the input of a plan.
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
