package healthcheck

import (
	"math"
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/machinist-dev/machinist/contract"
)

// Policy are the decisions that an embedder can replace. The zero Policy is safer than what Cluster API does.
type Policy struct {
	// LimitAlone decides as Cluster API does: all or nothing, by the limit of the check. Nothing is remembered, each Machine that is not
	// healthy counts for the limit, and neither outages nor owners whose Machines do not start hold anything back.
	LimitAlone bool
	// MaxInFlight is how many Machines may be remediated at a time, a number or a percentage of all, rounded up; a text that is neither
	// counts as 0. Absent: as many as the limit allows.
	MaxInFlight contract.Opt[intstr.IntOrString]
}

// bounds are what keeps Machines from being remediated apart from the limit of their check; a negative one does not.
type bounds struct {
	// outageWindow: Machines that became unhealthy within it did so at once. All of them, or more than half of those of one failure domain
	// while there are others, are taken for an outage, which new Machines would not end: none of these is remediated. When it ends, those that
	// are still unhealthy have their own limits, such as the timeout of the check, to recover.
	outageWindow time.Duration
	// maxFailures is how many times in a row Machines of one owner may be remediated because they did not start, until one of them is
	// healthy or a person requests more.
	maxFailures int
	// backoff is the delay before the second of these remediations. It doubles with each up to maxBackoff.
	backoff, maxBackoff time.Duration
	// expiry is after which time a remediated Machine counts no longer as missing although no replacement became healthy, because its owner
	// may have been scaled down.
	expiry time.Duration
}

// bounds returns those of a Policy.
func (p Policy) bounds() bounds {
	if p.LimitAlone {
		return bounds{outageWindow: -1, maxFailures: -1, backoff: -1, expiry: -1}
	}
	return bounds{outageWindow: 10 * time.Minute, maxFailures: 5, backoff: time.Minute, maxBackoff: time.Hour, expiry: 6 * time.Hour}
}

// inFlight returns how many of a total may be remediated at a time. A Ledger that is stored has a bounded size.
func (p Policy) inFlight(total int) int {
	bound := math.MaxInt
	if p.Remembers() {
		bound = maxEntries
	}
	value, limited := p.MaxInFlight.Get()
	if !limited {
		return bound
	}
	n, err := intstr.GetScaledValueFromIntOrPercent(&value, total, true)
	if err != nil {
		return 0
	}
	return min(max(0, n), bound)
}

// delay returns how long the next remediation is put off after a number of failures in a row.
func (b bounds) delay(failures int) time.Duration {
	if b.backoff < 0 || failures < 1 {
		return 0
	}
	delay := b.backoff
	for range failures - 1 {
		if delay *= 2; delay >= b.maxBackoff {
			return b.maxBackoff
		}
	}
	return min(delay, b.maxBackoff)
}

// Remembers reports whether decisions depend on the Ledger, so that it must be stored.
func (p Policy) Remembers() bool { return !p.LimitAlone || p.MaxInFlight.Found() }
