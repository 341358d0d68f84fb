package machineset

import (
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/contract/external"
	"github.com/machinist-dev/machinist/contract/pass"
	"github.com/machinist-dev/machinist/machineset/scale"
)

// Scope is one pass over one set: what was read and decided so far, and the functions to write it. Only the worker that runs the pass uses
// it.
type Scope struct {
	pass.Scope[contract.MachineSetState, contract.MachineSetUpdate]

	env *Reconciler
	mem *recollection

	selector labels.Selector
	// candidates are the Machines that the set controls or may come to control, from a cache that has seen everything up to seen; empty
	// when it cannot say. unsure: whether it shows all of them is not known.
	candidates []*member
	seen       string
	unsure     bool
	// observed are the Machines of the set; counted says that they were read.
	observed  []*member
	counted   bool
	ledger    scale.Ledger
	templates templates
	holds     []scale.Hold
	decision  scale.Decision
	trouble   trouble

	waiting  bool // what was read is too old to say anything
	finished bool // the finalizer of the set is removed
}

// trouble is what went wrong with single Machines, which does not delay the others, and what cannot be read of the set. late are errors
// that do not stop a deletion; the pass returns them at its end.
type trouble struct {
	claim, deletion, late []error
	selector              error
}

// templates are what the objects of new Machines are cloned from.
type templates struct{ bootstrap, infrastructure external.Object }

// member is a Machine of the set.
type member struct {
	obj   contract.Object // a view
	state *contract.MachineState
}

// Machines returns the states of the Machines that the set controls, those in deletion included, and whether StepMachines has read them in
// this pass. The states are shared with later passes and must not be changed.
func (s *Scope) Machines() (machines []*contract.MachineState, known bool) {
	machines = make([]*contract.MachineState, 0, len(s.observed))
	for _, m := range s.observed {
		machines = append(machines, m.state)
	}
	return machines, s.counted
}

// Hold keeps the set from creating Machines in this pass; the condition ScalingUp says why with the message. A set with too many Machines
// deletes them nevertheless. Call it from a step in front of StepScale, in each pass for as long as the reason lasts, and have the step
// request another pass where no event follows when it ends.
func (s *Scope) Hold(reason, message string) {
	s.holds = append(s.holds, scale.Hold{Reason: reason, Message: message})
}

// wait ends the pass, and changes no condition: what was read is too old.
func (s *Scope) wait() {
	s.waiting = true
	s.Requeue(pass.BehindRetry)
}

// plannable are the Machines of the set as a plan sees them.
func (s *Scope) plannable() []scale.Machine {
	all := make([]scale.Machine, 0, len(s.observed))
	for _, m := range s.observed {
		one := scale.Of(m.state, s.State.UID)
		one.Deleting = one.Deleting || s.mem.asked[one.UID]
		all = append(all, one)
	}
	return all
}

func (s *Scope) key(name string) types.NamespacedName {
	return types.NamespacedName{Namespace: s.State.Key.Namespace, Name: name}
}

// Reasons and actions of the events that the reconciler records on a set. The reasons are Cluster API's.
const (
	eventCreate       = "SuccessfulCreate"
	eventFailedCreate = "FailedCreate"
	eventDelete       = "SuccessfulDelete"
	eventFailedDelete = "FailedDelete"
	eventAdopt        = "SuccessfulAdopt"
	eventFailedAdopt  = "FailedAdopt"
	eventRelease      = "SuccessfulRelease"
	actionCreate      = "CreateMachine"
	actionDelete      = "DeleteMachine"
	actionAdopt       = "AdoptMachine"
	actionRelease     = "ReleaseMachine"
)
