package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/machinist-dev/machinist/examples/command"
)

// Exit codes.
const (
	exitDone        = 0
	exitFailed      = 1
	exitUsage       = 2
	exitInterrupted = 130
)

const (
	minMachines = 2
	maxMachines = 100
	// automatic makes the script choose the budget: all pods but one.
	automatic = -1
)

// options are the flags, and the pace, which only tests change.
type options struct {
	machines     int
	seed         uint64
	minAvailable int
	timeout      time.Duration
	output       string
	timeline     string
	verbose      bool
	pace         pace
	log          logr.Logger
}

const usage = `quickstart shows Machines from creation to deletion without a cluster: created, Running, drained, gone, and a
MachineDeployment that replaces its Machines by ones of another version.

It runs Machinist's reconcilers in a real controller-runtime manager over an in-memory API server, with fake
infrastructure and bootstrap providers, and ends by itself.

  go run ./examples/quickstart                             three Machines, a table when stdout is a terminal
  go run ./examples/quickstart -machines 6 -seed 7         another story; the same seed tells the same one
  go run ./examples/quickstart -o json | jq .              one JSON object per change, a summary as the last one
  go run ./examples/quickstart -timeline story.svg         a picture of it, for a browser
  go run ./examples/quickstart -budget-min-available 99    a budget that can never open: see what the drain says

Exit codes: 0 done, 1 failed (a budget that cannot open, a timeout), 2 wrong flags, 130 interrupted.

Flags:
`

func main() { os.Exit(execute(os.Args[1:], os.Stdout, os.Stderr)) }

// execute is main without os.Exit.
func execute(args []string, stdout, stderr io.Writer) int {
	return command.Run("quickstart", command.Codes{Done: exitDone, Lost: exitFailed}, stdout, stderr, func(out io.Writer) int {
		return perform(args, out, stderr)
	})
}

// perform runs what the arguments select and returns the exit code.
func perform(args []string, stdout, stderr io.Writer) int {
	o, err := parse(args, stdout)
	if code, refused := command.Refused("quickstart", err, stderr); refused {
		return code
	}
	if o.verbose {
		o.log = logr.FromSlogHandler(slog.NewTextHandler(stderr, nil))
	}
	ctrllog.SetLogger(o.log)
	klog.SetLogger(o.log)

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	return run(ctx, o, stdout, stderr)
}

// parse reads the flags. Help goes to out, and the error is flag.ErrHelp.
func parse(args []string, out io.Writer) (options, error) {
	o := options{pace: steady(), log: logr.Discard()}
	flags := flag.NewFlagSet("quickstart", flag.ContinueOnError)
	flags.IntVar(&o.machines, "machines", 3, "number of Machines, 2 to 100")
	flags.Uint64Var(&o.seed, "seed", 1, "decides names, delays, the number of pods and which Machine is deleted")
	flags.IntVar(&o.minAvailable, "budget-min-available", automatic,
		"pods that the PodDisruptionBudget wants ready; -1 is all but one; as many as there are, or more, can never open")
	flags.DurationVar(&o.timeout, "timeout", time.Minute, "give up after this time")
	flags.StringVar(&o.output, "o", "", "output: lines or json; a live table on a terminal and lines elsewhere when empty")
	flags.StringVar(&o.timeline, "timeline", "", "draw who was in which phase when into this `file`, as SVG")
	flags.BoolVar(&o.verbose, "v", false, "show the logs of the controllers on stderr")
	if err := command.Parse(flags, args, usage, out); err != nil {
		return options{}, err
	}
	if flags.NArg() > 0 {
		return options{}, fmt.Errorf("unexpected argument %q: everything is a flag", flags.Arg(0))
	}
	return o, o.validate()
}

// validate reports all errors at once.
func (o options) validate() error {
	var errs []error
	if o.machines < minMachines || o.machines > maxMachines {
		errs = append(errs, fmt.Errorf("-machines %d: give %d to %d; one is deleted, and its pods need another Node to go to",
			o.machines, minMachines, maxMachines))
	}
	if o.minAvailable < automatic {
		errs = append(errs, fmt.Errorf("-budget-min-available %d: give a number of pods, or -1 for all but one", o.minAvailable))
	}
	if o.timeout <= 0 {
		errs = append(errs, fmt.Errorf("-timeout %s: give a positive time such as 60s", o.timeout))
	}
	if o.output != "" && o.output != outputLines && o.output != outputJSON {
		errs = append(errs, fmt.Errorf("-o %q: give lines or json", o.output))
	}
	return errors.Join(errs...)
}

// run performs the story once and returns the exit code. When it returns, everything that it started has ended.
func run(ctx context.Context, o options, stdout, stderr io.Writer) int {
	start := time.Now()
	known := newPicture(start)
	shown := &recorder{view: newView(o.output, stdout, known)}
	var drawing *timelineFile
	if o.timeline != "" {
		var err error
		if drawing, err = openTimeline(o.timeline); err != nil {
			fmt.Fprintf(stderr, "quickstart: %v\n", err)
			return exitUsage
		}
	}
	tale := &story{script: newScript(o), picture: known, view: shown, start: start}
	err := tale.perform(ctx, o)
	if drawing != nil { // also of a story that was interrupted, or has failed
		err = errors.Join(err, drawing.write(shown.events))
	}
	result := tale.summarise(err, o)
	shown.finish(result)
	if err != nil {
		fmt.Fprintf(stderr, "quickstart: %v\n", err)
	}
	return result.exitCode()
}
