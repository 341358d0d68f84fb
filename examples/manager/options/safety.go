package options

import (
	"errors"
	"flag"
	"fmt"
	"time"

	"github.com/machinist-dev/machinist/machineset"
	"github.com/machinist-dev/machinist/machineset/guard"
	"github.com/machinist-dev/machinist/machineset/scale"
)

// Safety are the limits that stop runaways. The names of the flags are Gardener's where it has them.
type Safety struct {
	// Limits freeze a MachineSet with too many Machines.
	Limits scale.FreezeLimits
	// FreezePeriod is the time between two looks at a frozen MachineSet; 0 freezes none.
	FreezePeriod time.Duration
	// GatePeriod is the time between two probes of the API servers; 0 makes none.
	GatePeriod time.Duration
	// GateTolerance is the time without an answer after which nothing is created.
	GateTolerance time.Duration
	// FreezeAll stops all reconciliation of a cluster that does not answer, and FreezeDeletions deletions too.
	FreezeAll, FreezeDeletions bool
	// OrphanPeriod is the time between two looks for instances without a Machine; 0 looks for none.
	OrphanPeriod time.Duration
	// Orphans limit the deletion of such instances.
	Orphans guard.OrphanLimits
	// CollectOrphans deletes such instances.
	CollectOrphans bool
}

func defaultSafety() Safety {
	return Safety{
		Limits: scale.FreezeLimits{Up: 2, Down: 1}, FreezePeriod: machineset.DefaultFreezePeriod, GatePeriod: guard.DefaultGatePeriod,
		GateTolerance: guard.DefaultGateTolerance, OrphanPeriod: guard.DefaultCollectorPeriod,
		Orphans: guard.OrphanLimits{Confirmations: 3, Age: 30 * time.Minute, PerPass: 1, StartDelay: 10 * time.Minute},
	}
}

// AddFlags implements Section.
func (s *Safety) AddFlags(flags *flag.FlagSet) {
	flags.IntVar(&s.Limits.Up, "safety-up", s.Limits.Up,
		"Machines beyond those of a rollout, or without a MachineDeployment beyond twice the replicas, with which a MachineSet is frozen: "+
			"it creates no more")
	flags.IntVar(&s.Limits.Down, "safety-down", s.Limits.Down,
		"a frozen MachineSet creates again when it has this many Machines fewer than --safety-up freezes")
	flags.DurationVar(&s.FreezePeriod, "machine-safety-overshooting-period", s.FreezePeriod,
		"time between two looks at a frozen MachineSet without an event; 0 freezes none")
	flags.DurationVar(&s.GatePeriod, "machine-safety-apiserver-statuscheck-period", s.GatePeriod,
		"time between two probes of the API servers, where MachineSets, health checks or a driver need that; 0 makes none")
	flags.DurationVar(&s.GateTolerance, "machine-safety-apiserver-statuscheck-timeout", s.GateTolerance,
		"time without an answer after which MachineSets and MachineDeployments create nothing")
	flags.BoolVar(&s.FreezeAll, "machine-safety-freeze-all", s.FreezeAll,
		"stop the reconciliation of Machines, MachineSets and MachineDeployments while the API server of their cluster does not answer, and "+
			"not only creations; deletions go on, and MachinePools too")
	flags.BoolVar(&s.FreezeDeletions, "machine-safety-freeze-deletions", s.FreezeDeletions,
		"with --machine-safety-freeze-all: stop deletions too")
	flags.DurationVar(&s.OrphanPeriod, "machine-safety-orphan-vms-period", s.OrphanPeriod,
		"time between two looks for the driver's instances without a Machine; 0 looks for none")
	flags.BoolVar(&s.CollectOrphans, "machine-safety-collect-orphans", s.CollectOrphans,
		"delete the driver's instances without a Machine; otherwise they are reported in logs and metrics")
	flags.IntVar(&s.Orphans.Confirmations, "machine-safety-orphan-confirmations", s.Orphans.Confirmations,
		"looks that must find no Machine before an instance is deleted")
	flags.DurationVar(&s.Orphans.Age, "machine-safety-orphan-age", s.Orphans.Age,
		"time since the first look that found no Machine, before an instance is deleted")
	flags.IntVar(&s.Orphans.PerPass, "machine-safety-orphan-limit", s.Orphans.PerPass, "instances without a Machine to delete after one look")
	flags.DurationVar(&s.Orphans.StartDelay, "machine-safety-orphan-start-delay", s.Orphans.StartDelay,
		"time after the start, and after an outage, in which no look counts")
}

// Validate implements Section.
func (s *Safety) Validate() error {
	var errs []error
	if s.GatePeriod > 0 && s.GatePeriod < s.GateTolerance {
		errs = append(errs, fmt.Errorf("--machine-safety-apiserver-statuscheck-period %s: give at least the timeout, %s", s.GatePeriod,
			s.GateTolerance))
	}
	if s.FreezePeriod < 0 || s.GatePeriod < 0 || s.OrphanPeriod < 0 || s.GateTolerance < 0 {
		errs = append(errs, errors.New("--machine-safety-...: give times such as 1m, or 0"))
	}
	if s.FreezePeriod > 0 && (s.Limits.Up < 1 || s.Limits.Down < 1) {
		errs = append(errs, fmt.Errorf("--safety-up %d, --safety-down %d: give at least 1", s.Limits.Up, s.Limits.Down))
	}
	if s.CollectOrphans && (s.Orphans.Confirmations < 1 || s.Orphans.PerPass < 1) {
		errs = append(errs, errors.New("--machine-safety-orphan-confirmations and --machine-safety-orphan-limit: give at least 1"))
	}
	return errors.Join(errs...)
}
