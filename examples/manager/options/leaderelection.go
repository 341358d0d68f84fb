package options

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"time"

	"k8s.io/client-go/tools/leaderelection"
)

// LeaderElection has the settings of the election of the replica that acts.
type LeaderElection struct {
	// Enabled acts only while holding a Lease.
	Enabled bool
	// ID is the name of the Lease; empty: DefaultLease, which only a manager of all objects can have. Lease has the name.
	ID string
	// Namespace is that of the Lease; empty: the pod's own.
	Namespace string
	// LeaseDuration is how long a replica waits that is not the leader, RenewDeadline how long the leader tries to renew the Lease before it
	// ends, and RetryPeriod the time between two attempts.
	LeaseDuration, RenewDeadline, RetryPeriod time.Duration
}

// DefaultLease is the name of the Lease of a manager of all objects.
const DefaultLease = "machinist-manager"

// Lease returns the name of the Lease.
func (l *LeaderElection) Lease() string { return cmp.Or(l.ID, DefaultLease) }

func defaultLeaderElection() LeaderElection {
	return LeaderElection{
		LeaseDuration: 15 * time.Second, RenewDeadline: 10 * time.Second, RetryPeriod: 2 * time.Second,
	}
}

// AddFlags implements Section.
func (l *LeaderElection) AddFlags(flags *flag.FlagSet) {
	flags.BoolVar(&l.Enabled, "leader-elect", l.Enabled, "act only while holding a Lease, so that several replicas can run")
	flags.StringVar(&l.ID, "leader-election-id", l.ID, "`name` of the Lease; empty: "+DefaultLease+
		", for a manager without --namespace and --watch-filter")
	flags.StringVar(&l.Namespace, "leader-election-namespace", l.Namespace, "`namespace` of the Lease; empty: the pod's own")
	flags.DurationVar(&l.LeaseDuration, "leader-elect-lease-duration", l.LeaseDuration,
		"time without a renewal after which another replica takes over")
	flags.DurationVar(&l.RenewDeadline, "leader-elect-renew-deadline", l.RenewDeadline,
		"time without a renewal after which the leader ends; less than the lease duration")
	flags.DurationVar(&l.RetryPeriod, "leader-elect-retry-period", l.RetryPeriod,
		"time between two attempts to renew or to take over; less than the renew deadline")
}

// Validate implements Section.
func (l *LeaderElection) Validate() error {
	if !l.Enabled {
		return nil
	}
	var errs []error
	if l.RetryPeriod <= 0 || l.RenewDeadline <= time.Duration(leaderelection.JitterFactor*float64(l.RetryPeriod)) {
		errs = append(errs, fmt.Errorf("--leader-elect-renew-deadline %s: give more than %v times of a positive --leader-elect-retry-period, %s",
			l.RenewDeadline, leaderelection.JitterFactor, l.RetryPeriod))
	}
	if l.LeaseDuration <= l.RenewDeadline {
		errs = append(errs, fmt.Errorf("--leader-elect-lease-duration %s: give more than --leader-elect-renew-deadline, %s", l.LeaseDuration,
			l.RenewDeadline))
	}
	return errors.Join(errs...)
}
