package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/machinist-dev/machinist/examples/command"
)

// Exit codes.
const (
	exitDone   = 0
	exitFailed = 1
)

// options are the flags.
type options struct {
	minAvailable int
	timeout      time.Duration
	timeline     string
}

const usage = `quickstart shows Machines from creation to deletion without a cluster: created, Running, drained, gone, replaced,
and all rolled to another version.
  go run ./examples/quickstart -timeline story.svg         a picture of it, for a browser
  go run ./examples/quickstart -budget-min-available 99    a budget that can never open: see what the drain reports
Exit codes: 0 done, 1 failed (a budget that cannot open, a timeout), 2 wrong flags. Flags:
`

func main() {
	ctrllog.SetLogger(logr.Discard())
	klog.SetLogger(logr.Discard())
	os.Exit(execute(os.Args[1:], os.Stdout, os.Stderr))
}

// execute is main without the process.
func execute(args []string, stdout, stderr io.Writer) int {
	return command.Run("quickstart", command.Codes{Done: exitDone, Lost: exitFailed}, stdout, stderr, func(out io.Writer) int {
		o, err := parse(args, out)
		if code, refused := command.Refused("quickstart", err, stderr); refused {
			return code
		}
		return run(context.Background(), o, command.NewProgress(out), stderr)
	})
}

// parse reads the flags. Help goes to out, and the error is flag.ErrHelp.
func parse(args []string, out io.Writer) (options, error) {
	var o options
	flags := flag.NewFlagSet("quickstart", flag.ContinueOnError)
	flags.IntVar(&o.minAvailable, "budget-min-available", pods-1,
		fmt.Sprintf("pods of %d that the PodDisruptionBudget wants ready; with %d or more it can never open", pods, pods))
	flags.DurationVar(&o.timeout, "timeout", time.Minute, "give up after this time")
	flags.StringVar(&o.timeline, "timeline", "", "draw who was in which phase when into this `file`, as SVG")
	if err := command.Parse(flags, args, usage, out); err != nil {
		return options{}, err
	}
	if flags.NArg() > 0 {
		return options{}, fmt.Errorf("unexpected argument %q: everything is a flag", flags.Arg(0))
	}
	return o, nil
}

// run performs the story once and returns the exit code. When it returns, everything that it started has ended.
func run(ctx context.Context, o options, out *command.Progress, stderr io.Writer) int {
	tale := &story{options: o, view: out, start: time.Now()}
	err := tale.perform(ctx)
	if o.timeline != "" { // also of a story that has failed
		err = errors.Join(err, os.WriteFile(o.timeline, timeline(&tale.picture), 0o644))
	}
	out.Show("")
	out.Line("\n" + tale.summary(err))
	if err != nil {
		fmt.Fprintf(stderr, "quickstart: %v\n", err)
		return exitFailed
	}
	return exitDone
}
