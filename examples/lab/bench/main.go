package bench

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

	"github.com/machinist-dev/machinist/examples/command"
	"github.com/machinist-dev/machinist/examples/lab/cluster"
)

// The exit codes.
const (
	ExitOK     = 0
	ExitFailed = 1
	ExitUsage  = 2
)

// ErrUsage is matched by errors in the command line.
var ErrUsage = errors.New("wrong usage")

// Main runs a benchmark as this process and ends it. The first signal ends run's context, the second one the process.
func Main(run func(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	context.AfterFunc(ctx, stop)
	ctrl.SetLogger(logr.Discard()) // logs of libraries would mix with the progress
	klog.SetLogger(logr.Discard())
	code := command.Run("", command.Codes{Done: ExitOK, Lost: ExitFailed}, os.Stdout, os.Stderr, func(out io.Writer) int {
		return run(ctx, os.Args[1:], os.Stdin, out, os.Stderr)
	})
	stop()
	os.Exit(code)
}

// Finish prints an error, if there is one, and returns the exit code. Help (flag.ErrHelp) is not an error.
func Finish(ctx context.Context, name string, err error, stderr io.Writer) int {
	switch {
	case err == nil, errors.Is(err, flag.ErrHelp):
		return ExitOK
	case errors.Is(err, ErrUsage):
		fmt.Fprintf(stderr, "%s: %v\nRun with --help for help.\n", name, err)
		return ExitUsage
	case ctx.Err() != nil:
		fmt.Fprintf(stderr, "%s: interrupted; everything is stopped and removed\n", name)
		return ExitFailed
	default:
		fmt.Fprintf(stderr, "%s: %v\n", name, err)
		return ExitFailed
	}
}

// OnControlPlane starts a control plane, calls f, and stops the control plane. The context of f also ends when a
// component exits; the reason is its cause.
func OnControlPlane(ctx context.Context, say Say, o cluster.Options, f func(context.Context, *cluster.ControlPlane) error) (err error) {
	o.Log = Progress{say}
	plane, err := cluster.Start(ctx, o)
	if err != nil {
		return err
	}
	defer func() {
		err = errors.Join(err, plane.Stop())
		if o.KeepDir {
			say("the logs are in %s", plane.Dir())
		}
	}()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		select {
		case err := <-plane.Died():
			cancel(err)
		case <-ctx.Done():
		}
	}()
	return f(ctx, plane)
}
