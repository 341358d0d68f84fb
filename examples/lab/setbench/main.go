// Command setbench scales one MachineSet, or replaces its unhealthy Machines, with examples/manager and with Cluster API's manager on a
// real control plane on this computer, and prints side by side what each of them cost.
//
//	go run -C examples/lab ./setbench
//	go run -C examples/lab ./setbench --rollout
//	go run -C examples/lab ./setbench --health
//	go run -C examples/lab ./setbench --fleet
//
// Requests are counted from the API server's audit log, so they are exact. Times depend on the computer and hold only beside
// the other times of the same run.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/machinist-dev/machinist/examples/command"
	"github.com/machinist-dev/machinist/examples/lab/arms"
	"github.com/machinist-dev/machinist/examples/lab/bench"
)

const ownName = "set-bench"

const usage = `setbench has a MachineSet scaled from 0 to --machines and back by this library and by Cluster API's manager, on a real
control plane on this computer, at Cluster API's own client limits (100 requests a second, 20 towards the Nodes), and prints
what that cost. Both managers lead the Machines too, and all their writes count but Leases. With --rollout it is a
MachineDeployment, whose Machines are all replaced in between, with a maxSurge of 10%.

With --health the set is complete when a MachineHealthCheck is created; when all Machines are judged, the Nodes of a tenth of them, in
three zones, are not Ready any more, half of them NotReady and half Unknown, until others are Available in their place. Both have the
same check (a timeout of 10s, a nodeStartupTimeout of 600s, a maxUnhealthy of 40%), 100 workers, and their other defaults: ours also
looks for outages, and remembers what it has replaced; Cluster API's reconciles a check once in 15s at most. "replaced" begins when the
Nodes fail, so it contains how long it takes to notice; "work" begins with the first deletion. CPU is that of the replacement, and memory
is the most that the process has ever occupied.

With --fleet there are ten MachineDeployments without client limits, with 100 workers for both. All are scaled up, one is rolled out, and
one is scaled to 0. The heap is what is live in the manager after the first step, without what was live before it. With --managers, the
deployments are divided among that many managers of ours, with a namespace for each, and CPU and heap are those of all together. --workers
is the --worker-count of ours.

With --floor, a program beside each manager watches the same kinds and makes the same requests, without deciding anything. Its writes go to
a server that sends what the API server has answered the manager, so they change nothing. The line has its CPU seconds in all, and the
manager's beside it: no manager that makes these requests costs less.

  go run -C examples/lab ./setbench                 300 Machines, both arms
  go run -C examples/lab ./setbench --rollout       300 Machines of a MachineDeployment
  go run -C examples/lab ./setbench --health        300 Machines, 30 of which are replaced
  go run -C examples/lab ./setbench --fleet --machines 5000 --arms ours    500 of 5000 Machines are replaced, then deleted
  go run -C examples/lab ./setbench --fleet --machines 5000 --arms ours --managers 2    the same by two managers
  go run -C examples/lab ./setbench --rounds 3      medians of three rounds
  go run -C examples/lab ./setbench --arms ours     one arm

The last line of standard output is
  set-bench: writes/machine ours=… capi=… ratio=… | cpu … | up … | down …
and with --rollout also roll … and roll-writes/machine …. With --health it is
  health-bench: requests/replaced ours=… capi=… ratio=… | writes/replaced … | judge-writes/machine … | cpu … | replaced … | work … |
    memory …
With --fleet it is
  fleet-bench: heap/machine ours=… capi=… ratio=… | cpu/machine … | requests/machine … | roll-cpu/replaced … | roll-requests/replaced … |
    deletion-writes/machine … | deletion-reads/machine … | up … | roll …
Exit codes: 0 all was measured, 1 something failed, 2 wrong flags.

Flags:
`

// Names of the arms, in the order in which they are printed.
const (
	armOurs = arms.Ours
	armCAPI = arms.CAPI
)

type options struct {
	machines, rounds  int
	managers, workers int
	arms              []arms.Name
	keep              bool
	rollout, health   bool
	fleet, floor      bool
}

func main() { bench.Main(run) }

// run is main without the process.
func run(ctx context.Context, args []string, _ io.Reader, stdout, stderr io.Writer) int {
	return bench.Finish(ctx, ownName, compare(ctx, args, stdout, stderr), stderr)
}

// compare runs the benchmark and prints what there is to print, also when it was interrupted half way.
func compare(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	o, err := parse(args, stdout)
	if err != nil {
		return err
	}
	c := &comparison{options: o, say: bench.NewSay(stderr, ownName), measured: map[arms.Name][]figures{}}
	err = c.measure(ctx)
	if len(c.measured) > 0 {
		fmt.Fprint(stdout, report(o, c.measured))
	}
	return err
}

func parse(args []string, stdout io.Writer) (options, error) {
	var o options
	flags := flag.NewFlagSet("setbench", flag.ContinueOnError)
	flags.IntVar(&o.machines, "machines", 300, "how many Machines the set is scaled to")
	flags.IntVar(&o.rounds, "rounds", 1, "how often everything is measured; medians are printed")
	flags.IntVar(&o.managers, "managers", 1, "how many managers of ours share a --fleet")
	flags.IntVar(&o.workers, "workers", 100, "--worker-count of a manager of ours, with --fleet or --health")
	flags.BoolVar(&o.rollout, "rollout", false, "roll a MachineDeployment from one template to another, too")
	flags.BoolVar(&o.health, "health", false, "have a health check replace Machines in place of scaling")
	flags.BoolVar(&o.fleet, "fleet", false, "measure ten MachineDeployments, one of which is rolled out and deleted")
	flags.BoolVar(&o.floor, "floor", false, "run examples/lab/floor beside each manager")
	flags.BoolVar(&o.keep, "keep", false, "keep the directory with the audit log and the logs of all components")
	chosen := flags.String("arms", "", "comma-separated `names` of arms; the default is all")
	err := command.Parse(flags, args, usage, stdout)
	o.arms = arms.Names()
	if *chosen != "" {
		o.arms = nil
		for name := range strings.SplitSeq(*chosen, ",") {
			o.arms = append(o.arms, arms.Name(name))
		}
	}
	switch {
	case err != nil:
	case flags.NArg() > 0:
		err = fmt.Errorf("unexpected argument %q", flags.Arg(0))
	default:
		err = o.validate(*chosen)
	}
	if err != nil {
		return o, fmt.Errorf("%w: %w", bench.ErrUsage, err)
	}
	return o, nil
}

// validate returns an error for the first flag that is wrong.
func (o options) validate(chosen string) error {
	switch {
	case o.machines < 1 || o.machines > 5000 || o.rounds < 1:
		return errors.New("--machines must be 1 to 5000, and --rounds at least 1")
	case o.health && o.rollout, o.health && o.fleet, o.rollout && o.fleet:
		return errors.New("--health, --rollout and --fleet: choose one")
	case o.floor && o.machines > 1000:
		return errors.New("--floor: give at most 1000 --machines, because the audit log then has the bodies of all writes")
	case slices.ContainsFunc(o.arms, func(a arms.Name) bool { return !slices.Contains(arms.Names(), a) }):
		return fmt.Errorf("--arms %q: there are %v", chosen, arms.Names())
	}
	return o.validateFleet()
}

// validateFleet returns an error for the first flag that is wrong with --fleet, or without it.
func (o options) validateFleet() error {
	switch {
	case o.managers < 1 || o.managers > deployments || o.workers < 1:
		return fmt.Errorf("--managers must be 1 to %d, and --workers at least 1", deployments)
	case o.managers > 1 && (!o.fleet || o.floor || slices.Contains(o.arms, armCAPI)):
		return errors.New("--managers: choose --fleet and --arms ours, and not --floor")
	case o.fleet && o.machines%deployments != 0:
		return fmt.Errorf("--machines %d: --fleet has %d MachineDeployments of one size, so give a multiple of that", o.machines, deployments)
	}
	return nil
}
