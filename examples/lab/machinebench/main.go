// Command machinebench reconciles the same Machines with examples/manager and with Cluster API's manager, from creation
// to Running and from deletion to gone, on a real control plane on this computer, and prints the costs side by side.
//
//	go run -C examples/lab ./machinebench
//
// Requests are counted from the API server's audit log, so they are exact. Times depend on the computer and are
// comparable only within one run.
package main

import (
	"context"
	"errors"
	"io"

	"github.com/machinist-dev/machinist/examples/lab/bench"
)

// ownName starts every line of progress and every error.
const ownName = "machine-bench"

func main() { bench.Main(run) }

// run is main without os.Exit.
func run(ctx context.Context, args []string, _ io.Reader, stdout, stderr io.Writer) int {
	return bench.Finish(ctx, ownName, compare(ctx, args, stdout, stderr), stderr)
}

// compare runs the benchmark and prints the results, even partial ones after an interruption.
func compare(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	o, err := parse(args, stdout)
	if err != nil {
		return err
	}
	c := &comparison{options: o, say: bench.NewSay(stderr, ownName)}
	runs, err := c.measure(ctx)
	if len(runs) == 0 {
		return err
	}
	report := newReport(o, runs)
	if printErr := report.write(stdout, stderr, o.output, err == nil); printErr != nil {
		return errors.Join(err, printErr)
	}
	return errors.Join(err, report.failure())
}
