package scale

import (
	"k8s.io/apimachinery/pkg/types"

	"github.com/machinist-dev/machinist/contract"
)

// Hold is the reason why a set creates nothing for now.
type Hold struct {
	// Reason is one CamelCase word, Message says what a person can do.
	Reason, Message string
}

// Facts are what a plan depends on. They are not changed.
type Facts struct {
	// Desired is the desired number of Machines, absent while the set has none. A set in deletion wants none.
	Desired contract.Opt[int]
	// Machines are those that the set controls, those in deletion included.
	Machines []Machine
	// Reserved is how many slots of the ledger have no observed Machine.
	Reserved int
	// Held keeps the set from creating: it is frozen, a check failed, a template does not exist, or Machines are to be adopted first.
	Held bool
	// Order is the deletion order; empty means Random.
	Order Order
}

// ceiling is how many Machines one plan creates or deletes at most; the value is Gardener's and that of the ReplicaSet controller, rounded.
const ceiling = 100

// maxReserved is how many slots are reserved at a time: 100 kB of the 256 kB that all annotations of an object may have.
const maxReserved = 1000

// Victim is a Machine to delete.
type Victim struct {
	Name string
	// UID is the precondition of the deletion.
	UID types.UID
}

// Decision is what a set does next.
type Decision struct {
	// Create is how many Machines to create, and Delete which ones to delete, in this order. At most one of them is not empty.
	Create int
	Delete []Victim
	// Abandon is how many reserved slots are not wanted any more: Ledger.Abandon forgets them.
	Abandon int
}

// ReplicasNotSet is what a set or a deployment without a desired number waits for.
const ReplicasNotSet = "the number of replicas is not set"

// Plan decides how many Machines to create or which to delete: nothing without a desired number. It is pure.
func Plan(f Facts) Decision { return planWithin(f, ceiling) }

func planWithin(f Facts, ceiling int) Decision {
	desired, known := f.Desired.Get()
	if !known {
		return Decision{}
	}
	desired = max(desired, 0)
	deleting := 0
	for i := range f.Machines {
		if f.Machines[i].Deleting {
			deleting++
		}
	}
	counted := len(f.Machines) + f.Reserved
	if missing := desired - counted; missing > 0 {
		if f.Held {
			return Decision{}
		}
		return Decision{Create: min(missing, ceiling, max(maxReserved-f.Reserved, 0))}
	}
	// Reserved slots do not count here: what was not observed is no reason to delete what was.
	if surplus := len(f.Machines) - deleting - desired; surplus > 0 {
		return Decision{Delete: f.victims(deleting + min(surplus, ceiling)), Abandon: f.Reserved}
	}
	return Decision{Abandon: min(f.Reserved, counted-desired)}
}

// victims are the Machines to delete, if n go. A Machine in deletion is one of these, so that no other is deleted in its place.
func (f Facts) victims(n int) []Victim {
	refs := make([]*Machine, len(f.Machines))
	for i := range f.Machines {
		refs[i] = &f.Machines[i]
	}
	var victims []Victim
	for _, m := range First(f.Order, refs, n, func(m *Machine) *Machine { return m }) {
		if !m.Deleting {
			victims = append(victims, Victim{m.Name, m.UID})
		}
	}
	return victims
}
