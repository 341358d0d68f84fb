package healthcheck

// Names that only tests need.
var (
	ErrLimit   = errLimit
	ParseLimit = parseLimit
)

// Limit is limit.
type Limit = limit

// Expiry is expiry.
const Expiry = expiry

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
func (l limit) Allows(total, unhealthy int) (allowed bool, remaining int) {
	return l.allows(total, unhealthy)
}

// Bad is isBad.
func (v *Verdict) Bad() bool { return v.isBad() }
