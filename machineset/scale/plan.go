package scale

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/machinist-dev/machinist/contract"
)

// Hold is a reason why a set creates nothing for now.
type Hold struct {
	// Reason is one CamelCase word, Message describes what a person can do.
	Reason, Message string
}

// Facts are the inputs of a plan. They are not changed.
type Facts struct {
	// Desired is the desired number of Machines, absent while the set has none. A set in deletion has none.
	Desired contract.Opt[int]
	// Machines are those that the set controls, including those that are being deleted.
	Machines []Machine
	// Reserved is the number of slots in the ledger without an observed Machine.
	Reserved int
	// Held prevents the set from creating: it is frozen, a check failed, a template does not exist, or Machines must be adopted first.
	Held bool
	// Order is the deletion order; empty means Random.
	Order Order
}

// DisableCreateAnnotation of a set, with the value true, prevents it from creating Machines: with OnDelete, Machines of an old set that
// users delete are not created again. Rule: Cluster API's MachineSet.
const DisableCreateAnnotation = "cluster.x-k8s.io/disable-machine-create"

// ceiling is the maximum number of Machines in one plan; the value is that of Gardener and of the ReplicaSet controller, rounded.
const ceiling = 100

// maxReserved is the maximum number of reserved slots: 100 kB of the 256 kB that all annotations of an object may have.
const maxReserved = 1000

// Victim is a Machine to delete.
type Victim struct {
	Name string
	// UID is the precondition of the deletion.
	UID types.UID
}

// Decision is the result of Plan.
type Decision struct {
	// Create is the number of Machines to create, and Delete the Machines to delete, in this order. At most one of them is not empty.
	Create int
	Delete []Victim
	// Abandon is the number of reserved slots that are not needed any more, see Ledger.Abandon.
	Abandon int
}

// ReplicasNotSet is the message for a set or a deployment without a desired number.
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
	// Reserved slots do not count here: Machines that were not observed are no reason to delete observed ones.
	if surplus := len(f.Machines) - deleting - desired; surplus > 0 {
		return Decision{Delete: f.victims(deleting + min(surplus, ceiling)), Abandon: f.Reserved}
	}
	return Decision{Abandon: min(f.Reserved, counted-desired)}
}

// victims returns the Machines to delete, n including Machines in deletion, so that no other is deleted in their place.
func (f Facts) victims(n int) []Victim {
	var victims []Victim
	for _, m := range First(f.Order, slices.Clone(f.Machines), n, func(m Machine) *Machine { return &m }) {
		if !m.Deleting {
			victims = append(victims, Victim{m.Name, m.UID})
		}
	}
	return victims
}

// ReceivedAnnotation of a set contains Received as text. The deployment writes it together with spec.replicas.
const ReceivedAnnotation = "machinist.dev/received-machines"

// Received are the names of the Machines that were moved to a set, still have contract.InPlaceMoved, and are included in its number of
// replicas, sorted. A set that counted a moved Machine before its replicas were raised would delete one too many. Rule: Cluster API's
// acknowledged-move annotation.
type Received []string

// ReceivedBy reads Received from the annotations of a set.
func ReceivedBy(set *contract.Metadata) Received {
	return strings.FieldsFunc(set.Annotations[ReceivedAnnotation], func(r rune) bool { return r == ',' })
}

// String returns the value of ReceivedAnnotation.
func (r Received) String() string { return strings.Join(r, ",") }

// Counted returns the Machines that a set counts: all but Moved ones that are not received yet. The input is not changed.
func (r Received) Counted(machines []Machine) []Machine {
	return slices.DeleteFunc(slices.Clone(machines), func(m Machine) bool {
		return m.Moved && !m.Deleting && !slices.Contains(r, m.Name)
	})
}

// Order is the order in which equal Machines are deleted.
type Order string

// The orders of Cluster API. Rule: MachineSet spec.deletion.order.
const (
	// Random orders by the UID: without preference, and the same in every pass.
	Random Order = "Random"
	// Newest and Oldest order by the time of creation.
	Newest Order = "Newest"
	Oldest Order = "Oldest"
)

// ParseOrder returns the order in a set's text; empty means Random. The error names the valid orders.
func ParseOrder(text string) (Order, error) {
	if o := cmp.Or(Order(text), Random); slices.Contains([]Order{Random, Newest, Oldest}, o) {
		return o, nil
	}
	return "", fmt.Errorf("deletion order %q: want Random, Newest or Oldest", text)
}

// compare returns a negative number when a goes before b, and never 0 for Machines of different names. It is a total order.
//
// Machines in deletion come first, then marked ones, then all that are not paused. Among those, Machines with a lower priority come first,
// then those being changed in place, unhealthy ones, those that are not ready, and last the order applies. Cluster API adds these up as
// weights, in which an old healthy Machine weighs as much as an unhealthy one (capi-sets.md 2.4); here each decides alone.
func (o Order) compare(a, b *Machine) int {
	age := 0
	switch o {
	case Newest:
		age = b.Created.Compare(a.Created)
	case Oldest:
		age = before(a.Created, b.Created)
	case Random:
	}
	return cmp.Or(
		TrueFirst(a.Deleting, b.Deleting), TrueFirst(a.Marked, b.Marked), TrueFirst(!a.Paused, !b.Paused),
		cmp.Compare(a.Priority, b.Priority), before(a.markedAt, b.markedAt), TrueFirst(a.Updating, b.Updating),
		TrueFirst(a.Unhealthy, b.Unhealthy), TrueFirst(!a.Ready, !b.Ready), age, cmp.Compare(a.UID, b.UID), cmp.Compare(a.Name, b.Name),
	)
}

// First returns the first n of all, sorted. It reorders all, whose first n elements are the result. The function of returns the Machine of
// a value.
func First[T any](o Order, all []T, n int, of func(T) *Machine) []T {
	if n = min(n, len(all)); n <= 0 {
		return nil
	}
	slices.SortFunc(all, func(a, b T) int { return o.compare(of(a), of(b)) })
	return all[:n:n]
}
