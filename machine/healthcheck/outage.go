package healthcheck

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// Outage are Machines that became unhealthy at once: all of them, or most of one failure domain.
type Outage struct {
	// Domain is the failure domain, empty when the outage is of all Machines.
	Domain string
	// Unhealthy are the Machines that became unhealthy at once, of so many that are judged, those that are suspects included.
	Unhealthy, Judged int
	machines          map[string]bool
}

// String says what the outage is.
func (o Outage) String() string {
	if o.Domain == "" {
		return fmt.Sprintf("All %d Machines became unhealthy at once", o.Judged)
	}
	return fmt.Sprintf("%d of %d Machines of failure domain %s became unhealthy at once", o.Unhealthy, o.Judged, o.Domain)
}

// outages finds the outages among the Machines, by the name of their domain. Suspects count: when the first Machine of an outage reaches
// its timeout, the others have yet to. Machines whose remediation a person requested do not, and neither do those that are being deleted,
// as in a rollout.
func outages(machines []Machine, window time.Duration, now time.Time) []Outage {
	if window < 0 {
		return nil
	}
	var judged []*Machine
	domains := map[string][]*Machine{}
	for i := range machines {
		m := &machines[i]
		if m.Deleting || m.Verdict.Reason == ReasonHasRemediateAnnotation || m.Verdict.Class == Pending && !m.Verdict.Suspect {
			continue
		}
		judged = append(judged, m)
		domains[m.Domain] = append(domains[m.Domain], m)
	}
	if together := burst(judged, window, now); len(together) > 1 && len(together) == len(judged) {
		return []Outage{outageOf("", judged, together)}
	}
	if len(domains) < 2 {
		return nil
	}
	var all []Outage
	for domain, members := range domains {
		if together := burst(members, window, now); domain != "" && len(together) > 1 && 2*len(together) > len(members) {
			all = append(all, outageOf(domain, members, together))
		}
	}
	slices.SortFunc(all, func(a, b Outage) int { return cmp.Compare(a.Domain, b.Domain) })
	return all
}

func outageOf(domain string, judged, together []*Machine) Outage {
	o := Outage{Domain: domain, Unhealthy: len(together), Judged: len(judged), machines: map[string]bool{}}
	for _, m := range together {
		o.machines[m.Name] = true
	}
	return o
}

// burst returns the most Machines that became unhealthy within a window. One of which it is unknown since when did so now, or with any
// other.
func burst(machines []*Machine, window time.Duration, now time.Time) []*Machine {
	var bad, unknown []*Machine
	for _, m := range machines {
		switch {
		case !m.Verdict.Bad():
		case m.Verdict.Since.IsZero() || m.Verdict.Since.After(now):
			unknown = append(unknown, m)
		default:
			bad = append(bad, m)
		}
	}
	slices.SortFunc(bad, func(a, b *Machine) int {
		return cmp.Or(a.Verdict.Since.Compare(b.Verdict.Since), cmp.Compare(a.Name, b.Name))
	})
	var most []*Machine
	for from, to := 0, 0; from < len(bad); from++ {
		for to < len(bad) && bad[to].Verdict.Since.Sub(bad[from].Verdict.Since) <= window {
			to++
		}
		if to-from > len(most) {
			most = bad[from:to]
		}
	}
	return slices.Concat(most, unknown)
}
