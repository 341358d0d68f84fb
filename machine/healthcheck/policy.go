package healthcheck

import (
	"cmp"
	"math"
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/machinist-dev/machinist/contract"
)

// Defaults of a Policy.
const (
	DefaultOutageWindow = 10 * time.Minute
	DefaultMaxFailures  = 5
	DefaultBackoff      = time.Minute
	DefaultMaxBackoff   = time.Hour
	DefaultExpiry       = 6 * time.Hour
)

// Policy are the decisions that an embedder can replace. The zero Policy has the defaults, which are safer than Cluster API's.
type Policy struct {
	// CountPending: each Machine that is not healthy counts for the limit, as in Cluster API. Otherwise a Machine that has not started yet
	// counts only when it may be the replacement of a remediated one: a large scale-up does not keep unhealthy Machines from being replaced.
	CountPending bool
	// MaxInFlight is how many Machines may be remediated at a time, a number or a percentage of all, rounded up; a text that is neither
	// counts as 0. Absent: as many as the limit allows.
	MaxInFlight contract.Opt[intstr.IntOrString]
	// OutageWindow: Machines that became unhealthy within it did so at once. All of them, or more than half of those of one failure domain
	// while there are others, are taken for an outage, which new Machines would not end: none of these is remediated. When it ends, those that
	// are still unhealthy have their own limits, such as the timeout of the check, to recover. Default DefaultOutageWindow; negative: outages
	// are not looked for.
	OutageWindow time.Duration
	// MaxFailures is how many times in a row Machines of one owner may be remediated because they did not start, until one of them is
	// healthy or a person requests more. Default DefaultMaxFailures; negative: no limit.
	MaxFailures int
	// Backoff is the delay before the second of these remediations. It doubles with each up to MaxBackoff. Defaults DefaultBackoff and
	// DefaultMaxBackoff; negative: no delay.
	Backoff, MaxBackoff time.Duration
	// Expiry is after which time a remediated Machine counts no longer as missing although no replacement became healthy, because its owner
	// may have been scaled down. Default DefaultExpiry; negative: never.
	Expiry time.Duration
}

// ClusterAPI returns the Policy that decides as Cluster API does: all or nothing, by the limit alone.
func ClusterAPI() Policy {
	return Policy{CountPending: true, OutageWindow: -1, MaxFailures: -1, Backoff: -1, Expiry: -1}
}

func (p Policy) withDefaults() Policy {
	p.OutageWindow = cmp.Or(p.OutageWindow, DefaultOutageWindow)
	p.MaxFailures = cmp.Or(p.MaxFailures, DefaultMaxFailures)
	p.Backoff = cmp.Or(p.Backoff, DefaultBackoff)
	p.MaxBackoff = cmp.Or(p.MaxBackoff, DefaultMaxBackoff)
	p.Expiry = cmp.Or(p.Expiry, DefaultExpiry)
	return p
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

// backoff returns the delay after a number of failures in a row.
func (p Policy) backoff(failures int) time.Duration {
	if p.Backoff < 0 || failures < 1 {
		return 0
	}
	delay := p.Backoff
	for range failures - 1 {
		if delay *= 2; delay >= p.MaxBackoff {
			return p.MaxBackoff
		}
	}
	return min(delay, p.MaxBackoff)
}

// Remembers reports whether decisions depend on the Ledger, so that it must be stored.
func (p Policy) Remembers() bool {
	return !p.CountPending || p.MaxInFlight.Found() || p.MaxFailures >= 0 || p.Backoff >= 0
}
