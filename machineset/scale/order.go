package scale

import (
	"cmp"
	"fmt"
)

// Order says which of equally dispensable Machines go first.
type Order string

// The orders of Cluster API. Rule: MachineSet spec.deletion.order.
const (
	// Random goes by the UID: without preference, and the same in every pass.
	Random Order = "Random"
	// Newest and Oldest go by the time of creation.
	Newest Order = "Newest"
	Oldest Order = "Oldest"
)

// ParseOrder returns the order that a set names; empty means Random. The error names the orders there are.
func ParseOrder(text string) (Order, error) {
	switch o := Order(text); o {
	case "":
		return Random, nil
	case Random, Newest, Oldest:
		return o, nil
	}
	return "", fmt.Errorf("deletion order %q: want Random, Newest or Oldest", text)
}

// compare returns a negative number when a goes before b, and never 0 for Machines of different names. It is a total order.
//
// Machines in deletion come first, then marked ones, then all that are not paused. Among those, it is those with a lower priority, those
// being changed in place, unhealthy ones, those that are not ready, and last, among equals, what the order says. Cluster API adds these up
// as weights, in which an old healthy Machine weighs as much as an unhealthy one (capi-sets.md 2.4); here each decides alone.
func (o Order) compare(a, b *Machine) int {
	if c := cmp.Or(TrueFirst(a.Deleting, b.Deleting), TrueFirst(a.Marked, b.Marked), TrueFirst(!a.Paused, !b.Paused)); c != 0 {
		return c
	}
	if c := cmp.Or(cmp.Compare(a.Priority, b.Priority), before(a.markedAt, b.markedAt), TrueFirst(a.Updating, b.Updating),
		TrueFirst(a.Unhealthy, b.Unhealthy), TrueFirst(!a.Ready, !b.Ready)); c != 0 {
		return c
	}
	c := cmp.Compare(a.UID, b.UID)
	switch o {
	case Newest:
		c = b.Created.Compare(a.Created)
	case Oldest:
		c = before(a.Created, b.Created)
	case Random:
	}
	return cmp.Or(c, cmp.Compare(a.Name, b.Name), cmp.Compare(a.UID, b.UID))
}
