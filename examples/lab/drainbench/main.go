// Command drainbench drains the same Nodes with this library, with kubectl's drain helper and with Cluster API's manager,
// on a real control plane on this computer, and prints side by side what each of them cost.
//
//	go run -C examples/lab ./drainbench
//
// Requests are counted from the API server's audit log, so they are exact. Times depend on the computer and hold only beside
// the other times of the same run.
package main

import (
	"context"
	"errors"
	"io"

	"github.com/machinist-dev/machinist/examples/lab/bench"
)

// name is what every line of progress and of trouble begins with.
const ownName = "drain-bench"

func main() { bench.Main(run) }

// run is main without the process.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	var err error
	if len(args) > 0 && args[0] == childCommand {
		err = child(ctx, args[1:], stdin)
	} else {
		err = compare(ctx, args, stdout, stderr)
	}
	return bench.Finish(ctx, ownName, err, stderr)
}

// compare runs the benchmark and prints what there is to print, also when it was interrupted half way.
func compare(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	o, err := parse(args, stdout)
	if err != nil {
		return err
	}
	b := &comparison{options: o, say: bench.NewSay(stderr, ownName)}
	runs, err := b.measure(ctx)
	if len(runs) == 0 {
		return err
	}
	report := newReport(o, runs)
	if printErr := report.write(stdout, stderr, o.output, err == nil); printErr != nil {
		return errors.Join(err, printErr)
	}
	return errors.Join(err, report.failure())
}
