// Command poolbench reconciles the same MachinePool with examples/manager and with Cluster API's manager, from its
// creation until all its instances have a node reference and are ready, on a real control plane on this computer, and
// prints the costs side by side.
//
//	go run -C examples/lab ./poolbench --instances 1000
//
// Requests are counted from the API server's audit log, so they are exact. Times depend on the computer and are
// comparable only within one run.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/machinist-dev/machinist/examples/command"
	"github.com/machinist-dev/machinist/examples/lab/arms"
	"github.com/machinist-dev/machinist/examples/lab/bench"
)

// ownName starts every line of progress and every error.
const ownName = "pool-bench"

type armName = arms.Name

const (
	armOurs = arms.Ours
	armCAPI = arms.CAPI
)

type options struct {
	instances int
	machines  bool
	arms      []armName
	steady    time.Duration
	output    string
}

const usage = `poolbench compares how a pool of instances is looked after.

  go run -C examples/lab ./poolbench --instances 1000 --arms ours,capi
  go run -C examples/lab ./poolbench --instances 100 --machines            with a Machine for each instance

Both reach the Nodes by the same kubeconfig Secret, without limits for their clients, and wait for the same contract provider. A target
that was missed is said and is no failure of the run. Exit codes: 0 measured, 1 failed, 2 wrong flags.

Flags:
`

// parse reads the flags. Help goes to out, and flag.ErrHelp is returned.
func parse(args []string, out io.Writer) (options, error) {
	var o options
	var chosen string
	flags := flag.NewFlagSet("poolbench", flag.ContinueOnError)
	flags.IntVar(&o.instances, "instances", 1000, "instances of the pool")
	flags.BoolVar(&o.machines, "machines", false, "the provider makes an InfraMachine for each instance, so that each has a Machine")
	flags.StringVar(&chosen, "arms", "ours,capi", "comma-separated arms: ours, capi")
	flags.DurationVar(&o.steady, "steady", 30*time.Second, "how long requests are counted after the pool is complete")
	flags.StringVar(&o.output, "output", "text", "text or json")
	if err := command.Parse(flags, args, usage, out); err != nil {
		return o, fmt.Errorf("%w: %w", bench.ErrUsage, err)
	}
	if chosen == "" {
		chosen = "ours,capi"
	}
	for arm := range strings.SplitSeq(chosen, ",") {
		if a := armName(arm); a == armOurs || a == armCAPI {
			o.arms = append(o.arms, a)
			continue
		}
		return o, fmt.Errorf("%w: --arms %q: give ours, capi or both", bench.ErrUsage, chosen)
	}
	if o.instances < 1 || o.instances > 10000 {
		return o, fmt.Errorf("%w: --instances %d: give 1 to 10000", bench.ErrUsage, o.instances)
	}
	if o.output != "text" && o.output != "json" {
		return o, fmt.Errorf("%w: --output %q: give text or json", bench.ErrUsage, o.output)
	}
	return o, nil
}

func main() { bench.Main(run) }

// run is main without os.Exit.
func run(ctx context.Context, args []string, _ io.Reader, stdout, stderr io.Writer) int {
	return bench.Finish(ctx, ownName, compare(ctx, args, stdout, stderr), stderr)
}

// compare measures the arms one after the other, each on a new control plane.
func compare(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	o, err := parse(args, stdout)
	if err != nil {
		return err
	}
	say := bench.NewSay(stderr, ownName)
	result := report{Host: bench.ThisHost(), Instances: o.instances, Machines: o.machines}
	for _, a := range o.arms {
		f, err := measure(ctx, o, a, say)
		if err != nil {
			return fmt.Errorf("%s: %w", a, err)
		}
		say("%s: %s", a, f)
		result.Arms = append(result.Arms, f)
	}
	return bench.Print(stdout, stderr, o.output, result, result.table, result.target())
}
