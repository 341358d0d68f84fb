package simulation

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/fake"
	"github.com/machinist-dev/machinist/internal/instance"
	cloud "github.com/machinist-dev/machinist/machine/provider"
	"github.com/machinist-dev/machinist/machineset/guard"
)

const (
	// collectEvery is the time between two looks for instances without a Machine.
	collectEvery = 5 * time.Minute
	// patience is how long people wait for Collectors that can confirm nothing.
	patience = 30 * time.Minute
)

// collectors look for instances without a Machine, in each process, in the histories whose cloud has habits. A crash loses what they have
// seen.
type collectors map[*process]*collecting

// collecting are the Collectors of one life of a process, one for each account.
type collecting struct {
	all []*guard.Collector

	life int
	due  time.Time
	// blocked is since when looks have confirmed nothing; zero when the last one could. left are the provider IDs of the instances that the
	// last look has left to people.
	blocked time.Time
	left    map[string]bool
}

// collector returns those of a process, which begin anew with it.
func (c collectors) collector(w *World, p *process) *collecting {
	if one := c[p]; one != nil && one.life == p.life {
		return one
	}
	one := &collecting{life: p.life, due: w.Now()}
	kind := contract.Unstructured(fake.MachineGVK(), contract.MachineV1Beta2())
	for n := range w.habits.accounts {
		account := fmt.Sprint("account-", n)
		made, err := guard.NewCollector(guard.CollectorOptions{
			Calls: p.cloudCalls(), Sources: []guard.Source{guard.MachinesOf(&connection{WithWatch: w.store.Client(), process: p}, kind)},
			RequestOf: func(_ context.Context, cluster types.NamespacedName) (cloud.Request, error) {
				return cloud.Request{Cluster: cluster.Name, Account: account, Credentials: w.habits.credentials(account)}, nil
			},
			Delete: true, Clock: p.clock(),
		})
		w.fail("a collector is made", err)
		one.all = append(one.all, made)
	}
	c[p] = one
	return one
}

func (c collectors) look(ctx context.Context, w *World) []due {
	var all []due
	for i, p := range w.processes {
		if one := c.collector(w, p); w.leads[i] && !p.busy {
			all = append(all, due{one.due, func() { one.look(ctx, w, p) }})
		}
	}
	return all
}

// look makes one pass for each account. Its requests are none of the reconcilers', and it looks for ever.
func (c *collecting) look(ctx context.Context, w *World, p *process) {
	before, blocked := w.requests, false
	c.left, c.due = map[string]bool{}, w.Now().Add(collectEvery)
	p.busy = true
	for _, one := range c.all {
		report, err := one.Pass(ctx)
		waits := len(report.Blocked) > 0
		for _, o := range report.Orphans { // what is not blocked is confirmed, or never will be
			c.left[storedID(o.ProviderID)] = o.Confirmations == 0 && !waits || !c.blocked.IsZero() && w.Now().Sub(c.blocked) > patience
		}
		blocked = blocked || waits
		if len(report.Orphans) > 0 || err != nil {
			w.note(p.name, fmt.Sprintf("finds %d instances without a Machine", len(report.Orphans)), said(err))
		}
	}
	p.busy, w.requests = false, before
	if !blocked {
		c.blocked = time.Time{}
	} else if c.blocked.IsZero() {
		c.blocked = w.Now()
	}
	w.restart(ctx, p)
}

// custodians are the people who do what a cloud with habits leaves to them once it has none any more: they delete Machines that say that
// their instance is lost or refused for ever, instances of which a Collector says that it cannot be sure or that one of two is not needed,
// and the last ones of a cluster that has no Machine any more. The cloud controller manager collects the Nodes of instances that are gone.
func (c collectors) custodians(ctx context.Context, w *World) []due {
	if !w.calm {
		return nil
	}
	var all []due
	for _, m := range w.owned() {
		if m.GetDeletionTimestamp() == nil && isLost(m) {
			all = append(all, due{do: func() {
				w.note("operator", "delete Machine "+m.GetName()+", which is lost", said(w.store.Client().Delete(ctx, m.DeepCopy())))
			}})
		}
	}
	for _, i := range w.surplus() {
		if !w.hasMachines(w.homes[tokenOf(i)]) || w.isBesideLost(i) || c.leave(i) {
			all = append(all, due{do: func() {
				_, err := w.cloud.Delete(ctx, cloud.Request{Token: i.Token})
				w.note("operator", "delete the instance "+i.Name, said(err))
			}})
		}
	}
	for _, node := range w.Objects("Node") {
		if w.habits.nodes[node.GetName()] && !w.hasInstance(node, w.instances()) {
			all = append(all, due{do: func() { w.collects(ctx, node) }})
		}
	}
	return all
}

// leave reports whether a Collector has left an instance to people.
func (c collectors) leave(i cloud.Instance) bool {
	return slices.ContainsFunc(slices.Collect(maps.Values(c)), func(one *collecting) bool { return one.left[i.ProviderID] })
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
