package options

import (
	"errors"
	"flag"
)

// LeaderElection says which of several replicas acts.
type LeaderElection struct {
	// Enabled acts only while holding a Lease.
	Enabled bool
	// ID is the name of the Lease.
	ID string
	// Namespace is that of the Lease; empty: the pod's own.
	Namespace string
}

func defaultLeaderElection() LeaderElection { return LeaderElection{ID: "machinist-manager"} }

// AddFlags implements Section.
func (l *LeaderElection) AddFlags(flags *flag.FlagSet) {
	flags.BoolVar(&l.Enabled, "leader-elect", l.Enabled, "act only while holding a Lease, so that several replicas can run")
	flags.StringVar(&l.ID, "leader-election-id", l.ID, "`name` of the Lease")
	flags.StringVar(&l.Namespace, "leader-election-namespace", l.Namespace, "`namespace` of the Lease; empty: the pod's own")
}

// Validate implements Section.
func (l *LeaderElection) Validate() error {
	if l.Enabled && l.ID == "" {
		return errors.New("--leader-election-id is empty: give the name of a Lease")
	}
	return nil
}
