package safety

import "slices"

// Domain is a failure domain of a cluster, such as a zone. The empty name is that of Machines whose domain is not known.
type Domain struct {
	Name string
	// Machines are all of it, those in deletion aside, and Unhealthy are those that a health check would replace.
	Machines, Unhealthy int
}

// OutageLimits say when a domain counts as down. The zero value is that of Kubernetes' node lifecycle controller.
type OutageLimits struct {
	// Share of its Machines is unhealthy, above 0; above 1 no domain is ever down. Default 0.55.
	Share float64
	// Least is how many of its Machines are unhealthy at least. Default 3.
	Least int
}

// Outages are the failure domains that are down.
type Outages struct {
	// Down are their names, sorted.
	Down []string
	// Everywhere: all domains with Machines are down. Then the cause is rather that nothing can report.
	Everywhere bool
}

// FindOutages returns the domains that are down as a whole: no Machine of them is to be replaced for being unhealthy. Of numbers that are
// impossible, as many Machines count as unhealthy as possible. Domains of one name are one. Rule: Kubernetes' ComputeZoneState.
func FindOutages(domains []Domain, limits OutageLimits) Outages {
	share, least := positive(limits.Share, 0.55), positive(limits.Least, 3)
	all := map[string]Domain{}
	for _, d := range domains {
		sum := all[d.Name]
		sum.Unhealthy += max(d.Unhealthy, 0)
		sum.Machines += max(d.Machines, d.Unhealthy, 0)
		all[d.Name] = sum
	}
	var o Outages
	up := false
	for name, d := range all {
		if d.Unhealthy >= least && float64(d.Unhealthy) >= share*float64(d.Machines) {
			o.Down = append(o.Down, name)
		} else if d.Machines > 0 {
			up = true
		}
	}
	slices.Sort(o.Down)
	o.Everywhere = len(o.Down) > 0 && !up
	return o
}

// Spares reports whether no Machine of a domain is to be replaced for being unhealthy.
func (o Outages) Spares(domain string) bool { return o.Everywhere || slices.Contains(o.Down, domain) }
