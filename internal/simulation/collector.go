package simulation

import (
	"context"
	"fmt"
	"maps"
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

// leave reports whether a Collector has left an instance to people.
func (c collectors) leave(i cloud.Instance) bool {
	return slices.ContainsFunc(slices.Collect(maps.Values(c)), func(one *collecting) bool { return one.left[i.ProviderID] })
}
