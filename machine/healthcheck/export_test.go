package healthcheck

// Names that only tests need.
var ErrLimit = errLimit

// Values of bounds.
var (
	Expiry      = Policy{}.bounds().expiry
	MaxFailures = Policy{}.bounds().maxFailures
	Backoff     = Policy{}.bounds().backoff
)

// PlanForEver is Plan for a fleet whose remediations never expire. With patient, it holds nothing back because Machines do not start, and
// with blind it looks for no outage.
func PlanForEver(f PlanFacts, patient, blind bool) Decision {
	b := f.Policy.bounds()
	b.expiry = -1
	if patient {
		b.maxFailures, b.backoff = -1, -1
	}
	if blind {
		b.outageWindow = -1
	}
	return planWithin(f, b)
}

// PlanBlind is Plan, except that it looks for no outage.
func PlanBlind(f PlanFacts) Decision {
	b := f.Policy.bounds()
	b.outageWindow = -1
	return planWithin(f, b)
}

// Allows is allows.
func (l Limit) Allows(total, unhealthy int) (allowed bool, remaining int) {
	return l.allows(total, unhealthy)
}

// Bad is isBad.
func (v *Verdict) Bad() bool { return v.isBad() }
