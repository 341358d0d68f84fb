package healthcheck

import "time"

// Names that only tests need.
var ErrLimit = errLimit

// Values of bounds.
const (
	Expiry      = expiry
	MaxFailures = maxFailures
)

// PlanForEver is Plan for a fleet whose remediations never expire, and with blind it looks for no outage.
func PlanForEver(f PlanFacts, blind bool) Decision {
	return planWithin(f, 1<<62*time.Nanosecond, !blind)
}

// PlanBlind is Plan, except that it looks for no outage.
func PlanBlind(f PlanFacts) Decision { return planWithin(f, expiry, false) }

// Outages are those that Plan finds.
func Outages(f PlanFacts) (all []string) {
	var machines []*Machine
	for i := range f.Machines {
		machines = append(machines, &f.Machines[i])
	}
	for _, o := range outagesOf(machines, f.Now) {
		all = append(all, o.String())
	}
	return all
}

// Allows is allows.
func (l Limit) Allows(total, unhealthy int) (allowed bool, remaining int) {
	return l.allows(total, unhealthy)
}

// Bad is isBad.
func (v *Verdict) Bad() bool { return v.isBad() }
