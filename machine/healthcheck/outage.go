package healthcheck

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/machinist-dev/machinist/contract"
)

// outageWindow: Machines that became unhealthy within it did so at once.
const outageWindow = 10 * time.Minute

// outage are Machines that became unhealthy at once: all of them, or most of one failure domain while there are others.
type outage struct {
	domain   string     // empty when it is of all Machines
	machines []*Machine // that became unhealthy at once, suspects included
	judged   int        // of how many
}

// String says what the outage is.
func (o outage) String() string {
	if o.domain == "" {
		return fmt.Sprintf("All %d Machines became unhealthy at once", o.judged)
	}
	return fmt.Sprintf("%d of %d Machines of failure domain %s became unhealthy at once", len(o.machines), o.judged, o.domain)
}

// OutageEntry is an outage in the Ledger. Ended is when it was found no more, in seconds since 1970; zero while it lasts, or one of its
// Machines cannot be judged.
type OutageEntry struct {
	Domain string `json:"domain,omitempty"`
	Ended  int64  `json:"ended,omitempty"`
}

// unsureRetry is when it is looked again at an outage of which it is not known whether it has ended. Usually an event comes first.
const unsureRetry = time.Minute

// concerns reports whether a Machine can be part of the outage.
func (e OutageEntry) concerns(m *Machine) bool { return e.Domain == "" || e.Domain == m.Domain }

// left returns how much time a Machine has to recover from an outage that is found no more; none when it was not part of it. Its limit
// begins anew: the Nodes of a zone do not come back in the same second, and when the first have, the others are no outage any more.
func (e OutageEntry) left(m *Machine, now time.Time) time.Duration {
	since := m.Verdict.Since
	switch {
	case !e.concerns(m) || !m.Verdict.isBad():
		return 0
	case e.Ended == 0:
		return unsureRetry
	case since.Unix() > e.Ended && !since.After(now):
		return 0
	}
	return min(time.Unix(e.Ended, 0).Add(m.Verdict.Limit).Sub(now), m.Verdict.Limit) // a clock may have been set back
}

// nevertheless is how a person has a Machine remediated that an outage holds.
const nevertheless = "add the annotation " + contract.RemediateAnnotation + " to remediate it nevertheless"

// recovering says why a Machine is held after an outage.
func (e OutageEntry) recovering(m *Machine) string {
	of, state := "of all Machines", "may have ended: a Machine of it cannot be judged; "
	if e.Domain != "" {
		of = "of failure domain " + e.Domain
	}
	if e.Ended != 0 {
		state = fmt.Sprintf("ended at %s, and the Machine has %s to recover: ", time.Unix(e.Ended, 0).UTC().Format(time.RFC3339), m.Verdict.Limit)
	}
	return "The outage " + of + " " + state + nevertheless
}

// remember records the outages that last, and when the others have ended. Nothing is known while the limit cannot be read: the selector may
// be what cannot be.
func (p *plan) remember() {
	outages := &p.out.Ledger.Outages
	if p.LimitErr != nil {
		*outages = p.Ledger.Outages
		return
	}
	p.outages = outagesOf(p.machines, p.Now)
	for _, o := range p.outages {
		*outages = append(*outages, OutageEntry{Domain: o.domain})
	}
	for _, e := range p.Ledger.Outages {
		lasts := slices.ContainsFunc(p.outages, func(o outage) bool { return o.domain == e.Domain })
		if !lasts && p.continues(&e) {
			p.recovering = append(p.recovering, e)
		}
	}
	*outages = append(*outages, p.recovering...)
	slices.SortFunc(*outages, func(a, b OutageEntry) int { return cmp.Compare(a.Domain, b.Domain) })
}

// continues records that an outage which was not found again has ended, unless one of its Machines cannot be judged: that one may have yet
// to recover. It reports whether any Machine is recovering.
func (p *plan) continues(e *OutageEntry) bool {
	unjudged := slices.ContainsFunc(p.machines, func(m *Machine) bool {
		return e.concerns(m) && m.Verdict.Class == Pending && m.Verdict.Since.IsZero() && !m.Deleting
	})
	if e.Ended == 0 && !unjudged {
		e.Ended = p.Now.Unix()
	}
	return unjudged || slices.ContainsFunc(p.machines, func(m *Machine) bool { return e.left(m, p.Now) > 0 })
}

// outagesOf finds the outages among the Machines, by the name of their domain. Suspects count: when the first Machine of an outage reaches
// its timeout, the others have yet to. Machines whose remediation a person requested do not, and neither do those that are being deleted,
// as in a rollout.
func outagesOf(machines []*Machine, now time.Time) []outage {
	judged := slices.DeleteFunc(slices.Clone(machines), func(m *Machine) bool {
		return m.Deleting || m.Verdict.Reason == ReasonHasRemediateAnnotation || m.Verdict.Class == Pending && !m.Verdict.Suspect
	})
	if together := burst(judged, now); len(together) > 1 && len(together) == len(judged) {
		return []outage{{machines: together, judged: len(judged)}}
	}
	domains := map[string][]*Machine{}
	for _, m := range judged {
		domains[m.Domain] = append(domains[m.Domain], m)
	}
	var all []outage
	for _, domain := range slices.Sorted(maps.Keys(domains)) {
		members := domains[domain]
		together := burst(members, now)
		if domain != "" && len(domains) > 1 && len(together) > 1 && 2*len(together) > len(members) {
			all = append(all, outage{domain, together, len(members)})
		}
	}
	return all
}

// burst returns the most Machines that became unhealthy within the window. One of which it is unknown since when did so now, or with any
// other.
func burst(machines []*Machine, now time.Time) []*Machine {
	var bad, unknown []*Machine
	for _, m := range machines {
		switch {
		case !m.Verdict.isBad():
		case m.Verdict.Since.IsZero() || m.Verdict.Since.After(now):
			unknown = append(unknown, m)
		default:
			bad = append(bad, m)
		}
	}
	slices.SortStableFunc(bad, func(a, b *Machine) int { return a.Verdict.Since.Compare(b.Verdict.Since) })
	var most []*Machine
	for from, to := 0, 0; from < len(bad); from++ {
		for to < len(bad) && bad[to].Verdict.Since.Sub(bad[from].Verdict.Since) <= outageWindow {
			to++
		}
		if to-from > len(most) {
			most = bad[from:to]
		}
	}
	return slices.Concat(most, unknown)
}
