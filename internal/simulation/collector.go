package simulation

import (
	"context"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/fake"
	"github.com/machinist-dev/machinist/internal/instance"
	cloud "github.com/machinist-dev/machinist/machine/provider"
	"github.com/machinist-dev/machinist/machineset/guard"
)

// collectEvery is the time between two looks for instances without a Machine.
const collectEvery = 5 * time.Minute

// collectors look for instances without a Machine, one in each process, in the histories whose cloud has habits. A crash loses what one has
// seen.
type collectors struct{ of map[*process]*collecting }

// collecting is the Collector of one life of a process.
type collecting struct {
	*guard.Collector

	life int
	next time.Time
	// blocked is since when no look could confirm anything; zero when the last one could.
	blocked time.Time
	// left are the provider IDs of the instances that the last look has left to people for good.
	left map[string]bool
}

// collector returns that of a process, which begins anew with it.
func (c collectors) collector(w *World, p *process) *collecting {
	one := c.of[p]
	if one != nil && one.life == p.life {
		return one
	}
	client := &connection{WithWatch: w.store.Client(), process: p}
	kind := contract.Unstructured(fake.MachineGVK(), contract.MachineV1Beta2())
	made, err := guard.NewCollector(guard.CollectorOptions{
		Calls: cloud.Of(w.cloud, w.habits.decorate, p.calls()), Sources: []guard.Source{guard.MachinesOf(client, kind)}, Delete: true,
		Clock: collectorClock{FakeClock: w.clock, skewed: skewed{p}},
	})
	w.fail("a collector is made", err)
	one = &collecting{Collector: made, life: p.life, next: w.Now()}
	c.of[p] = one
	return one
}

// collectorClock is the clock of a process with the timers of the World, which are not used.
type collectorClock struct {
	*clocktesting.FakeClock

	skewed skewed
}

// Now implements clock.PassiveClock.
func (c collectorClock) Now() time.Time { return c.skewed.Now() }

// Since implements clock.PassiveClock.
func (c collectorClock) Since(t time.Time) time.Duration { return c.skewed.Since(t) }

func (c collectors) can(ctx context.Context, w *World) []func() {
	var all []func()
	for i, p := range w.processes {
		if one := c.collector(w, p); w.leads[i] && !p.busy && !one.next.After(w.Now()) {
			all = append(all, func() { c.look(ctx, w, p, one) })
		}
	}
	return all
}

// look makes one pass. Its requests are none of the reconcilers', and it looks for ever.
func (collectors) look(ctx context.Context, w *World, p *process, one *collecting) {
	before := w.requests
	p.busy = true
	report, err := one.Pass(ctx)
	p.busy = false
	w.requests = before
	one.next = w.Now().Add(collectEvery)
	switch {
	case len(report.Blocked) == 0:
		one.blocked = time.Time{}
	case one.blocked.IsZero():
		one.blocked = w.Now()
	}
	one.left = map[string]bool{}
	for _, o := range report.Orphans { // what is not blocked is confirmed, or never will be
		one.left[o.ProviderID] = len(report.Blocked) == 0 && o.Confirmations == 0
	}
	if len(report.Orphans) > 0 || err != nil {
		w.note(p.name, fmt.Sprintf("finds %d instances without a Machine", len(report.Orphans)), said(err))
	}
	w.restart(ctx, p)
}

func (c collectors) next(w *World) time.Time {
	var next time.Time
	for i, p := range w.processes {
		if one := c.of[p]; one != nil && w.leads[i] && (next.IsZero() || one.next.Before(next)) {
			next = one.next
		}
	}
	return next
}

// custodians are the people who do what a cloud with habits leaves to them once it has none any more: they delete Machines that say that
// their instance is lost or refused for ever, instances of which a Collector says that it cannot be sure or that one of two is not needed,
// and the last ones of a cluster that has no Machine any more. The cloud controller manager collects the Nodes of instances that are gone.
type custodians struct{ collectors }

func (c custodians) can(ctx context.Context, w *World) []func() {
	if !w.calm {
		return nil
	}
	var all []func()
	for _, m := range w.owned() {
		if m.GetDeletionTimestamp() == nil && isLost(m) {
			all = append(all, func() {
				w.note("operator", "delete Machine "+m.GetName()+", which is lost", said(w.store.Client().Delete(ctx, m.DeepCopy())))
			})
		}
	}
	unsure := c.cannotConfirm(w)
	for _, i := range w.surplus() {
		if unsure || !w.hasMachines(w.homes[tokenOf(i)]) || w.isBesideLost(i) || c.isLeft(i) {
			all = append(all, func() {
				_, err := w.cloud.Delete(ctx, cloud.Request{Token: i.Token})
				w.note("operator", "delete the instance "+i.Name, said(err))
			})
		}
	}
	for _, node := range w.Objects("Node") {
		if w.habits.nodes[node.GetName()] && !w.hasInstance(node, w.instances()) {
			all = append(all, func() { w.collects(ctx, node) })
		}
	}
	return all
}

func (custodians) next(*World) time.Time { return time.Time{} }

// patience is how long people wait for a Collector that can confirm nothing.
const patience = 30 * time.Minute

// cannotConfirm reports whether the Collector of each leader has said so for long.
func (c custodians) cannotConfirm(w *World) bool {
	for i, p := range w.processes {
		if one := c.of[p]; w.leads[i] && (one == nil || one.blocked.IsZero() || w.Now().Sub(one.blocked) < patience) {
			return false
		}
	}
	return true
}

// isLeft reports whether a Collector has left an instance to people.
func (c custodians) isLeft(i cloud.Instance) bool {
	for _, one := range c.of {
		if one.left[i.ProviderID] {
			return true
		}
	}
	return false
}

// hasMachines reports whether there are Machines of a cluster.
func (w *World) hasMachines(c *workloadCluster) bool {
	return slices.ContainsFunc(w.owned(), func(m *unstructured.Unstructured) bool { return w.clusterOf(m.GetNamespace()) == c })
}

// isLost reports whether a Machine says what only its deletion ends.
func isLost(m *unstructured.Unstructured) bool {
	phase, _, _ := unstructured.NestedString(m.Object, "status", "phase")
	return phase == "Failed" || slices.Contains([]string{
		string(cloud.Terminal), instance.ReasonInvalid, instance.ReasonGone, instance.ReasonFailed,
	}, reasonOf(m))
}

// isBesideLost reports whether an instance is the second one of a Machine without a set that has lost the first: the Machine stays, and a
// Collector leaves the instance to it.
func (w *World) isBesideLost(i cloud.Instance) bool {
	return slices.ContainsFunc(w.Objects("Machine"), func(m *unstructured.Unstructured) bool {
		return !ownedBySet(m) && string(m.GetUID()) == tokenOf(i) && isLost(m)
	})
}

// surplus are the instances that no Machine has, and those beside the recorded one of a Machine.
func (w *World) surplus() []cloud.Instance {
	var all []cloud.Instance
	for _, i := range w.instances() {
		if i.State != cloud.Deleting && !w.isUsed(i) {
			all = append(all, i)
		}
	}
	return all
}

// isUsed reports whether a Machine has an instance: it is recorded, or nothing is yet.
func (w *World) isUsed(i cloud.Instance) bool {
	return slices.ContainsFunc(w.ours(), func(m *unstructured.Unstructured) bool { return isOwn(m, i) })
}

// isOwn reports whether an instance is that of a Machine, and not one beside it.
func isOwn(m *unstructured.Unstructured, i cloud.Instance) bool {
	id := providerIDIn(m)
	return string(m.GetUID()) == tokenOf(i) && (id == "" || sameID(id, i.ProviderID))
}

// leaks says what a cloud with habits has left that a Machine does not have, or the other way around; empty when there is nothing.
func (w *World) leaks() string {
	if w.habits == nil {
		return ""
	}
	for _, i := range w.surplus() {
		return "no Machine has the instance " + i.Name
	}
	for _, m := range w.owned() {
		id := providerIDIn(m)
		if has := slices.ContainsFunc(w.instances(), func(i cloud.Instance) bool { return sameID(id, i.ProviderID) }); !has {
			return "Machine " + m.GetName() + " is Running, and its instance " + id + " is gone"
		}
	}
	return ""
}
