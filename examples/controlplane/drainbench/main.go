// Command drainbench drains the same Nodes with this library, with kubectl's drain helper and with Cluster API's manager,
// on a real control plane on this computer, and prints side by side what each of them cost.
//
//	go run ./examples/controlplane/drainbench
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
	"os"
	"os/signal"
	"syscall"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
)

// The exit codes.
const (
	exitOK     = 0
	exitFailed = 1
	exitUsage  = 2
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	// The first signal ends everything in order, the second one this process; what it has started ends with it.
	context.AfterFunc(ctx, stop)
	ctrl.SetLogger(logr.Discard()) // what libraries log would be mixed with the progress
	klog.SetLogger(logr.Discard())
	code := run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// run is main without the process.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	var err error
	if len(args) > 0 && args[0] == childCommand {
		err = child(ctx, args[1:], stdin)
	} else {
		err = compare(ctx, args, stdout, stderr)
	}
	switch {
	case err == nil, errors.Is(err, flag.ErrHelp):
		return exitOK
	case errors.Is(err, errUsage):
		fmt.Fprintf(stderr, "drain-bench: %v\nRun with --help for help.\n", err)
		return exitUsage
	case ctx.Err() != nil:
		fmt.Fprintln(stderr, "drain-bench: interrupted; everything is stopped and removed")
		return exitFailed
	default:
		fmt.Fprintf(stderr, "drain-bench: %v\n", err)
		return exitFailed
	}
}

// compare runs the benchmark and prints what there is to print, also when it was interrupted half way.
func compare(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	o, err := parse(args, stdout)
	if err != nil {
		return err
	}
	b := &bench{options: o, say: newSay(stderr)}
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
