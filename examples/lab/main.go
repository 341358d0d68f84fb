// Command controlplane runs a real Kubernetes control plane on this computer: etcd, kube-apiserver,
// kube-controller-manager, kube-scheduler, and kwok instead of kubelets, so that Nodes and pods need no machines. It
// needs no privileges, only git and Go.
//
//	go run -C examples/lab . up
//
// The same is available as Go package for tests in ./cluster.
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

	"github.com/machinist-dev/machinist/examples/command"
	"github.com/machinist-dev/machinist/examples/lab/cluster"
)

const usage = `controlplane runs a real Kubernetes control plane on this computer.

  go run -C examples/lab . up        start it, and stop it on Ctrl-C
  go run -C examples/lab . demo      with Machinist's operator at work on it, and what to try
  go run -C examples/lab . build     only build its programs, which happens once and takes minutes

etcd, kube-apiserver, kube-controller-manager and kube-scheduler are the real ones. kwok plays the kubelets:
every Node you create becomes Ready, every pod on it Running, and no container ever starts. All of them listen on
127.0.0.1. When "up" ends, however it ends, no process and no file stays behind but the built programs.

Try, in a second terminal, with the path that "up" prints:

  export KUBECONFIG=...
  kubectl get nodes
  kubectl create deployment web --image=web --replicas=3
  kubectl drain node-0 --ignore-daemonsets

"controlplane up -h" lists the flags of up. The programs are built from a checkout of this repository, and again when
their sources there change: a controlplane that was built and runs elsewhere needs Go, and -C DIR for the checkout.
`

// The exit codes.
const (
	exitOK     = 0
	exitFailed = 1
	exitUsage  = 2
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	// A second signal ends this process at once; the components still end with it.
	context.AfterFunc(ctx, stop)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// run is main without os.Exit.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	return command.Run("controlplane", command.Codes{Done: exitOK, Lost: exitFailed}, stdout, stderr, func(out io.Writer) int {
		return perform(ctx, args, out, stderr)
	})
}

// perform runs the command in the arguments and returns the exit code.
func perform(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	word, rest := "", args
	if len(args) > 0 {
		word, rest = args[0], args[1:]
	}
	var err error
	switch word {
	case "up":
		err = up(ctx, rest, stdout, stderr)
	case "demo":
		err = demo(ctx, rest, stdout, stderr)
	case "build":
		err = build(ctx, rest, stdout, stderr)
	case "help", "-h", "-help", "--help":
		_, _ = io.WriteString(stdout, usage)
	case "":
		_, _ = io.WriteString(stderr, usage)
		return exitUsage
	default:
		_, _ = fmt.Fprintf(stderr, "controlplane: unknown command %q: give up, demo or build\nRun with --help for help.\n", word)
		return exitUsage
	}
	switch {
	case err == nil:
		return exitOK
	case errors.Is(err, errUsage):
		code, _ := command.Refused("controlplane "+word, err, stderr)
		return code
	case errors.Is(err, context.Canceled):
		_, _ = fmt.Fprintln(stderr, "controlplane: interrupted before all was ready; everything is removed")
		return exitFailed
	case errors.Is(err, cluster.ErrNoSource):
		_, _ = fmt.Fprintf(stderr, "controlplane: %v\nElsewhere, -C says where a checkout is: controlplane %s -C DIR\n", err, word)
		return exitFailed
	default:
		_, _ = fmt.Fprintf(stderr, "controlplane: %v\n", err)
		return exitFailed
	}
}

// errUsage matches errors in the command line, and the wish for help.
var errUsage = errors.New("wrong usage")

// parse accepts flags only. Help goes to stdout.
func parse(flags *flag.FlagSet, args []string, usage string, stdout io.Writer) error {
	err := command.Parse(flags, args, usage, stdout)
	if err == nil && flags.NArg() > 0 {
		err = fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	if err != nil {
		return fmt.Errorf("%w: %w", errUsage, err)
	}
	return nil
}

// checkout adds the flag for the folder of a checkout, which becomes the working directory.
func checkout(flags *flag.FlagSet) {
	flags.Func("C", "`folder` of a checkout of this repository; the default is the current one", os.Chdir)
}

func build(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	flags := flag.NewFlagSet("build", flag.ContinueOnError)
	checkout(flags)
	usage := "controlplane build builds the programs of the control plane into the user's cache directory,\n" +
		"unless they are there, and prints their paths.\n"
	if err := parse(flags, args, usage, stdout); err != nil {
		return err
	}
	binaries, err := cluster.Build(ctx, stderr)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(stdout, "%s\n%s\n", binaries.ControlPlane, binaries.Kwok)
	return err
}
