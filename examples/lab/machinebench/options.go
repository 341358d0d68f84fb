package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/machinist-dev/machinist/examples/command"
	"github.com/machinist-dev/machinist/examples/lab/arms"
	"github.com/machinist-dev/machinist/examples/lab/bench"
)

const usage = `machinebench leads the same Machines with this library and with Cluster API's manager, on a real control plane on this
computer (etcd, kube-apiserver, kube-controller-manager, kube-scheduler; kwok plays the kubelets), and prints what each of them cost.

  go run -C examples/lab ./machinebench                            500 Machines, both arms, with and without client limits
  go run -C examples/lab ./machinebench --machines 50 --limits default   a quick look
  go run -C examples/lab ./machinebench --steady 5m                also count what Running Machines cost
  go run -C examples/lab ./machinebench --rounds 3 -o json | jq .lines   medians of three rounds, as JSON

Arms:
  ours   examples/manager in a process of its own, with the Nodes of the Cluster that Machines name
  capi   the manager of Cluster API v1.13.6

Both lead Machines of the same Cluster, reach its Nodes by the same kubeconfig Secret, and wait for the same contract provider: it
answers at once when a Machine has its bootstrap data, and then a Node with the provider ID joins, which kwok makes Ready.

Limits:
  default   100 requests a second towards the cluster of the Machines and 20 towards that of their Nodes: Cluster API's own
            limits, given to both
  off       no client limits on either side

One run is: InfraMachines and BootstrapConfigs are created, the manager starts and comes to rest; Machines are created, until all are
Running and the manager writes no more; they are deleted, until all are gone and the manager writes no more. Wall is the time until
the last Machine is Running or gone. Requests and CPU are counted until the manager is at rest. Leases are not counted;
reads are gets and lists, and watches are counted by themselves when they begin. Live heap is measured after a garbage collection:
once before the first Machine, once when all are Running and their Nodes have --pods pods each, in the first of the limits only.
The pods go before Machines are deleted; what drains cost is drain-bench's matter.

Targets, of both halves of a Machine's life together, at default limits: at most half of Cluster API's writes, a fifth of its
CPU, half of its memory per Machine, and twice its rate; without limits, our own writes and reads as with them.

The last lines of standard output (of standard error with -o json) are, one for each limit,
  machine-bench: limits=default writes/machine ours=… capi=… ratio=… (<=0.50 met) | cpu … | heap … | rate …
medians of all rounds; "-" is what was not measured. A target that was missed is said and is no failure of the run.

Progress goes to standard error. Ctrl-C stops and removes everything, and prints what was measured so far. The first run
builds the control plane and Cluster API's manager, which takes minutes; both are kept in the user's cache directory.
Exit codes: 0 all was measured, 1 something failed, 2 wrong flags.

Flags:
`

type armName = arms.Name

const (
	armOurs = arms.Ours
	armCAPI = arms.CAPI
)

// limitName names the client limits of a run.
type limitName string

// The limits, in the order in which they are measured.
const (
	limitDefault limitName = "default"
	limitOff     limitName = "off"
)

// flags are those of an arm for the limits.
func (l limitName) flags(a armName) []string {
	if l == limitOff {
		return arms.NoLimits(a)
	}
	return arms.DefaultLimits(a)
}

func limitNames() []limitName { return []limitName{limitDefault, limitOff} }

// maxMachines is the limit for a control plane on one computer with pods, and for the digits of names.
const maxMachines = 9999

// options are the flags.
type options struct {
	output   string
	machines int
	pods     int
	rounds   int
	arms     []armName
	limits   []limitName
	steady   time.Duration
	keep     bool
}

func parse(args []string, stdout io.Writer) (options, error) {
	var o options
	flags := flag.NewFlagSet("machinebench", flag.ContinueOnError)
	flags.StringVar(&o.output, "o", "text", "format of the result: text or json")
	flags.IntVar(&o.machines, "machines", 500, "how many Machines are created at once")
	flags.IntVar(&o.pods, "pods", 30, "pods on each Node while live heap is measured; 0 for none")
	flags.IntVar(&o.rounds, "rounds", 1, "how often everything is measured; medians are printed")
	flags.DurationVar(&o.steady, "steady", 0,
		"how long the requests of Running Machines are counted, for the first of the limits; 0 for not at all")
	flags.BoolVar(&o.keep, "keep", false, "keep the directory with the audit log and the logs of all components")
	chosen := flags.String("arms", "", "comma-separated `names` of arms; the default is all")
	limits := flags.String("limits", "", "comma-separated `names` of limits; the default is all")
	err := command.Parse(flags, args, usage, stdout)
	if err == nil && flags.NArg() > 0 {
		err = fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	if err == nil {
		o.arms, err = choose("arm", *chosen, arms.Names())
	}
	if err == nil {
		o.limits, err = choose("limit", *limits, limitNames())
	}
	if err == nil {
		err = o.validate()
	}
	if err != nil {
		return o, fmt.Errorf("%w: %w", bench.ErrUsage, err)
	}
	return o, nil
}

func (o options) validate() error {
	switch {
	case o.output != "text" && o.output != "json":
		return fmt.Errorf("-o is text or json, not %q", o.output)
	case o.machines < 1 || o.machines > maxMachines:
		return fmt.Errorf("--machines must be 1 to %d", maxMachines)
	case o.pods < 0:
		return errors.New("--pods must be 0 or more")
	case o.rounds < 1:
		return errors.New("--rounds must be at least 1")
	case o.steady < 0:
		return errors.New("--steady must be a time such as 5m, or 0")
	}
	return nil
}

// choose returns what was named, in the order of all, and all when nothing was.
func choose[T ~string](what, named string, all []T) ([]T, error) {
	if named == "" {
		return all, nil
	}
	var chosen []T
	for name := range strings.SplitSeq(named, ",") {
		one := T(strings.TrimSpace(name))
		if !slices.Contains(all, one) {
			return nil, fmt.Errorf("no %s %q; there are %v", what, name, all)
		}
		chosen = append(chosen, one)
	}
	return slices.DeleteFunc(slices.Clone(all), func(one T) bool { return !slices.Contains(chosen, one) }), nil
}
