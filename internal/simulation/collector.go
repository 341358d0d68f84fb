package simulation

import (
	"context"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/fake"
	cloud "github.com/machinist-dev/machinist/machine/provider"
	"github.com/machinist-dev/machinist/machineset/guard"
)

const (
	// collectEvery is the time between two looks for instances without a Machine.
	collectEvery = 5 * time.Minute
	// patience is how long people wait for Collectors that can confirm nothing.
	patience = 30 * time.Minute
)

// collecting are the Collectors of a process, one for each account: they look for instances without a Machine, in the histories whose cloud
// has habits. A crash loses what they have seen.
type collecting struct {
	all []*guard.Collector
	due time.Time
	// sure is when the last look could confirm something. left are the provider IDs of the instances that the last look has left to people.
	sure time.Time
	left map[string]bool
}

func newCollecting(w *World, p *process) *collecting {
	one := &collecting{due: w.Now(), sure: w.Now().Add(-collectEvery)}
	kind := contract.Unstructured(fake.MachineGVK(), contract.LayoutsOf(contract.V1Beta2).Machine)
	for n := range w.habits.accounts {
		account := fmt.Sprint("account-", n)
		made, err := guard.NewCollector(guard.CollectorOptions{
			Calls: p.cloudCalls(), Sources: []guard.Source{guard.MachinesOf(connection{process: p}.client(w.store), kind)},
			RequestOf: func(_ context.Context, cluster types.NamespacedName) (cloud.Request, error) {
				return cloud.Request{Cluster: cluster.Name, Account: account, Credentials: w.habits.credentials(account)}, nil
			},
			Delete: true, Clock: p.clock(),
		})
		w.fail("a collector is made", err)
		one.all = append(one.all, made)
	}
	return one
}

// collectors are those of the processes that lead, as an actor.
func collectors(ctx context.Context, w *World) (all []due) {
	for i, p := range w.processes {
		if p.collecting == nil {
			p.collecting = newCollecting(w, p)
		}
		if w.leads[i] && !p.busy {
			one := p.collecting // a process that starts again has others
			all = append(all, due{at: one.due, do: func() { one.look(ctx, w, p) }})
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
			c.left[storedID(o.ProviderID)] = o.Confirmations == 0 && !waits || w.Now().Sub(c.sure) > patience+collectEvery
		}
		blocked = blocked || waits
		if len(report.Orphans) > 0 || err != nil {
			w.note(p.name, fmt.Sprintf("finds %d instances without a Machine", len(report.Orphans)), textOf(err))
		}
	}
	p.busy, w.requests = false, before
	if !blocked {
		c.sure = w.Now()
	}
	w.restart(ctx, p)
}

// isLeftToPeople reports whether a Collector has left an instance to people.
func (w *World) isLeftToPeople(i cloud.Instance) bool {
	return slices.ContainsFunc(w.processes, func(p *process) bool { return p.collecting != nil && p.collecting.left[i.ProviderID] })
}
