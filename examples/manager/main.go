package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/machinist-dev/machinist/examples/command"
)

// Exit codes.
const (
	exitDone   = 0
	exitFailed = 1
	exitUsage  = 2
)

func main() { os.Exit(execute(os.Args[1:], os.Stdout, os.Stderr)) }

// execute is main without os.Exit.
func execute(args []string, stdout, stderr io.Writer) int {
	return command.Run("manager", command.Codes{Done: exitDone, Lost: exitFailed}, stdout, stderr, func(out io.Writer) int {
		return perform(args, out, stderr)
	})
}

// commands are what the first argument can be in place of a flag.
func commands() map[string]func(args []string, stdout, stderr io.Writer) int {
	return map[string]func(args []string, stdout, stderr io.Writer) int{
		"rollout": rolloutCommand, "orphans": orphansCommand, "describe": describeCommand,
	}
}

// perform runs what the arguments select and returns the exit code.
func perform(args []string, stdout, stderr io.Writer) int {
	if len(args) > 0 && commands()[args[0]] != nil {
		return commands()[args[0]](args[1:], stdout, stderr)
	}
	o, err := parse(args, stdout)
	if code, refused := command.Refused("manager", err, stderr); refused {
		return code
	}
	switch {
	case o.Config.Print:
		err = printConfig(stdout, o)
	case o.Printing.RBAC || o.Printing.NodeRBAC:
		err = printRBAC(stdout, o)
	case o.Printing.CRDs:
		_, err = io.WriteString(stdout, printedCRDs(o))
	default:
		err = serve(o, stderr)
	}
	if err != nil {
		fmt.Fprintf(stderr, "manager: %v\n", err)
		return exitFailed
	}
	return exitDone
}

// serve runs the manager until a signal ends it.
func serve(o settings, stderr io.Writer) error {
	cfg, err := restConfig(o.Client)
	if err != nil {
		return err
	}
	log := logr.FromSlogHandler(o.Logging.Handler(stderr))
	ctrllog.SetLogger(log)
	klog.SetLogger(log)

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	if o.Kinds.InstallCRDs {
		if err := installCRDs(ctx, cfg, ownCRDs(o)); err != nil {
			return err
		}
		log.Info("CustomResourceDefinitions are installed")
	}
	mgr, err := newManager(ctx, cfg, o, log)
	if err != nil {
		return err
	}
	log.Info("starting", "leaderElection", o.LeaderElection.Enabled, "concurrency", o.Machines.Workers,
		"statusDelay", o.Machines.StatusDelay.String())
	if err := mgr.Start(ctx); err != nil {
		return fmt.Errorf("run: %w", err)
	}
	log.Info("stopped")
	return nil
}
