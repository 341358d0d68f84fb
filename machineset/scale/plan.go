package scale

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

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
	// Machines are those that the set controls, those in deletion included, from a cache that has seen Ledger.Through.
	Machines []Machine
	// Reserved is how many slots of the ledger have no observed Machine.
	Reserved int
	// Holds keep the set from creating: frozen, switched off, preflight checks, templates that do not exist, Machines to adopt first.
	Holds []Hold
	Policy
}

// Policy are the choices of a set's owner. The zero value decides as Cluster API does.
type Policy struct {
	// Order is the deletion order; empty means Random.
	Order Order
	// ReplaceWhileDeleting creates the replacement of a Machine in deletion at once and not when it is gone. The set then has more
	// Machines than wanted for as long as the deletion takes. Kubermatic and Gardener do that.
	ReplaceWhileDeleting bool
	// MaxUnavailable keeps a scale-down from deleting an available Machine when fewer available ones than desired minus MaxUnavailable
	// would be left; absent means no limit, as in Cluster API.
	MaxUnavailable contract.Opt[int]
	// Ceiling is how many Machines one plan creates or deletes at most; 0 and less mean DefaultCeiling. No more than 1,000 are created:
	// their names are in an annotation, whose size is limited.
	Ceiling int
}

// DefaultCeiling is how many Machines one plan creates or deletes at most, unless the Policy says otherwise; the value is
// Gardener's and that of the ReplicaSet controller, rounded.
const DefaultCeiling = 100

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
	// Missing and Surplus are the differences from the desired number, whether or not the plan acts on them: Machines that have no slot
	// yet, and Machines whose deletion was not requested.
	Missing, Surplus int
	// Held is why fewer are created or deleted than Missing and Surplus say, sorted; empty when only the ceiling is in the way.
	Held []Hold
}

// Message says in one text why a decision is held up; empty when it is not. Equal decisions give equal texts.
func (d Decision) Message() string {
	lines := make([]string, 0, len(d.Held))
	for _, h := range d.Held {
		lines = append(lines, "* "+h.Message)
	}
	return strings.Join(lines, "\n")
}

// ReasonMaxUnavailable is the reason of a Hold on a scale-down.
const ReasonMaxUnavailable = "MaxUnavailable"

// ReasonReplicasNotSet is the reason of the Hold when the set has no desired number of Machines.
const ReasonReplicasNotSet = "ReplicasNotSet"

// Plan decides how many Machines to create or which to delete. It is pure, and takes time linear in the number of Machines unless hundreds
// of them go at once.
func Plan(f Facts) Decision {
	desired, known := f.Desired.Get()
	if !known {
		return Decision{Held: []Hold{{ReasonReplicasNotSet, "spec.replicas is not set"}}}
	}
	desired = max(desired, 0)
	deleting := 0
	for i := range f.Machines {
		if f.Machines[i].Deleting {
			deleting++
		}
	}
	counted := len(f.Machines) + f.Reserved
	if f.ReplaceWhileDeleting {
		counted -= deleting
	}
	ceiling := f.Ceiling
	if ceiling <= 0 {
		ceiling = DefaultCeiling
	}
	if missing := desired - counted; missing > 0 {
		d := Decision{Missing: missing, Create: min(missing, ceiling, max(maxReserved-f.Reserved, 0))}
		if len(f.Holds) > 0 {
			d.Create, d.Held = 0, sortedHolds(f.Holds)
		}
		return d
	}
	// Reserved slots do not count here: what was not observed is no reason to delete what was.
	if surplus := len(f.Machines) - deleting - desired; surplus > 0 {
		d := f.shrink(surplus, desired, deleting, ceiling)
		d.Abandon = f.Reserved
		return d
	}
	return Decision{Abandon: min(f.Reserved, counted-desired)}
}

// shrink selects the Machines to delete. A Machine in deletion reduces the surplus if it is counted, so that no other is deleted in its
// place.
func (f Facts) shrink(surplus, desired, deleting, ceiling int) Decision {
	d := Decision{Surplus: surplus}
	available := 0
	for i := range f.Machines {
		if f.Machines[i].Available && !f.Machines[i].Deleting {
			available++
		}
	}
	allowed, limited := f.MaxUnavailable.Get()
	for _, m := range f.Order.first(f.Machines, deleting+min(surplus, ceiling)) {
		if m.Deleting {
			continue
		}
		if limited && m.Available {
			if available <= desired-allowed {
				d.Held = []Hold{{ReasonMaxUnavailable, fmt.Sprintf(
					"%d available, and at least %d must stay: waiting for other Machines to become available", available, desired-allowed)}}
				break
			}
			available--
		}
		d.Delete = append(d.Delete, Victim{m.Name, m.UID})
	}
	return d
}

func sortedHolds(holds []Hold) []Hold {
	return slices.SortedFunc(slices.Values(holds), func(a, b Hold) int {
		return cmp.Or(cmp.Compare(a.Reason, b.Reason), cmp.Compare(a.Message, b.Message))
	})
}
