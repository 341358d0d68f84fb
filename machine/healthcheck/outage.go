package healthcheck

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/machinist-dev/machinist/contract"
)

// outageWindow is the time within which Machines count as becoming unhealthy at once.
const outageWindow = 10 * time.Minute

// outage is a set of Machines that became unhealthy at once: all of them, or most of one failure domain while there are others.
type outage struct {
	domain   string     // empty for all Machines
	machines []*Machine // that became unhealthy at once, including suspects; empty for an outage that is only in the Ledger
	judged   int        // the number of Machines that were judged
	ended    int64      // see Ledger.Outages
}

// String describes the outage.
func (o outage) String() string {
	if o.domain == "" {
		return fmt.Sprintf("All %d Machines became unhealthy at once", o.judged)
	}
	return fmt.Sprintf("%d of %d Machines of failure domain %s became unhealthy at once", len(o.machines), o.judged, o.domain)
}

// unsureRetry is the delay before an outage whose end is uncertain is checked again. Usually an event comes first.
const unsureRetry = time.Minute

// concerns reports whether a Machine can be part of the outage.
func (o outage) concerns(m *Machine) bool { return o.domain == "" || o.domain == m.Domain }

// left returns how much time a Machine has to recover from an outage that is no longer detected; none if it was not part of it. Its limit
// begins anew: the Nodes of a zone do not return in the same second, and after the first have, the others are not an outage any more.
func (o outage) left(m *Machine, now time.Time) time.Duration {
	since := m.Verdict.Since
	switch {
	case !o.concerns(m) || !m.Verdict.isBad():
		return 0
	case o.ended == 0:
		return unsureRetry
	case since.Unix() > o.ended && !since.After(now):
		return 0
	}
	return min(time.Unix(o.ended, 0).Add(m.Verdict.Limit).Sub(now), m.Verdict.Limit) // a clock may have been set back
}

// adviceRemediate is how a person can remediate a Machine during an outage.
const adviceRemediate = "add the annotation " + contract.RemediateAnnotation + " to remediate it nevertheless"

// holds returns why an unhealthy Machine is not remediated during an outage, and how long at least if that is known; empty otherwise.
func (o outage) holds(m *Machine, now time.Time) (message string, left time.Duration) {
	if len(o.machines) > 0 {
		if slices.Contains(o.machines, m) {
			message = o.String() + ", which new Machines would not end: " + adviceRemediate
		}
		return message, 0
	}
	if left = o.left(m, now); left <= 0 {
		return "", 0
	}
	of, state := "of all Machines", "may have ended: a Machine of it cannot be judged; "
	if o.domain != "" {
		of = "of failure domain " + o.domain
	}
	if o.ended != 0 {
		state = fmt.Sprintf("ended at %s, and the Machine has %s to recover: ", time.Unix(o.ended, 0).UTC().Format(time.RFC3339), m.Verdict.Limit)
	}
	return "The outage " + of + " " + state + adviceRemediate, left
}

// remember detects the outages in progress, finds those of the ledger from which Machines are recovering, and records both.
func (p *plan) remember() {
	p.outages = outagesOf(p.machines, p.Now)
	record := map[string]int64{}
	for _, o := range p.outages {
		record[o.domain] = 0
	}
	for _, domain := range slices.Sorted(maps.Keys(p.Ledger.Outages)) {
		o := outage{domain: domain, ended: p.Ledger.Outages[domain]}
		if _, lasts := record[domain]; !lasts && p.recovers(&o) {
			p.outages, record[domain] = append(p.outages, o), o.ended
		}
	}
	p.out.Ledger.Outages = record
}

// recovers reports whether a Machine is recovering from an outage that was not detected again. The outage has ended now, unless one of its
// Machines cannot be judged: that Machine may still have to recover.
func (p *plan) recovers(o *outage) bool {
	unjudged := slices.ContainsFunc(p.machines, func(m *Machine) bool {
		return o.concerns(m) && m.Verdict.Class == Pending && m.Verdict.Since.IsZero() && !m.Deleting
	})
	if o.ended == 0 && !unjudged {
		o.ended = p.Now.Unix()
	}
	return unjudged || slices.ContainsFunc(p.machines, func(m *Machine) bool { return o.left(m, p.Now) > 0 })
}

// outagesOf detects the outages among the Machines, by the name of their domain. Suspects count, because the first Machine of an outage
// reaches its timeout before the others. Machines whose remediation a person requested do not count, nor do Machines that are being
// deleted, as in a rollout.
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
			all = append(all, outage{domain: domain, machines: together, judged: len(members)})
		}
	}
	return all
}

// burst returns the largest group of Machines that became unhealthy within the window. A Machine whose start time is unknown counts in
// every group, and as now.
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
