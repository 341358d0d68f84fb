// Command controlplane runs a real Kubernetes control plane on this computer: etcd, kube-apiserver,
// kube-controller-manager, kube-scheduler, and kwok instead of kubelets, so that Nodes and pods need no machines. It
// needs no privileges, only git and Go.
//
//	go run ./examples/controlplane up
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

	"github.com/machinist-dev/machinist/examples/controlplane/cluster"
	"github.com/machinist-dev/machinist/examples/output"
)

const usage = `controlplane runs a real Kubernetes control plane on this computer.

  go run ./examples/controlplane up        start it, and stop it on Ctrl-C
  go run ./examples/controlplane demo      with Machinist's operator at work on it, and what to try
  go run ./examples/controlplane build     only build its programs, which happens once and takes minutes

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
	return output.Run("controlplane", output.Codes{Done: exitOK, Lost: exitFailed}, stdout, stderr, func(out io.Writer) int {
		return perform(ctx, args, out, stderr)
	})
}

// perform runs the command in the arguments and returns the exit code.
func perform(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	command, rest := "", args
	if len(args) > 0 {
		command, rest = args[0], args[1:]
	}
	var err error
	switch command {
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
		_, _ = fmt.Fprintf(stderr, "controlplane: unknown command %q: give up, demo or build\nRun with --help for help.\n", command)
		return exitUsage
	}
	switch {
	case err == nil, errors.Is(err, flag.ErrHelp):
		return exitOK
	case errors.Is(err, errUsage):
		return exitUsage
	case errors.Is(err, context.Canceled):
		_, _ = fmt.Fprintln(stderr, "controlplane: interrupted before all was ready; everything is removed")
		return exitFailed
	case errors.Is(err, cluster.ErrNoSource):
		_, _ = fmt.Fprintf(stderr, "controlplane: %v\nElsewhere, -C says where a checkout is: controlplane %s -C DIR\n", err, command)
		return exitFailed
	default:
		_, _ = fmt.Fprintf(stderr, "controlplane: %v\n", err)
		return exitFailed
	}
}

// errUsage is an error in the command line that was already printed.
var errUsage = errors.New("usage")

// parse accepts flags only. The flag package prints its errors itself, and help goes to stdout.
func parse(flags *flag.FlagSet, args []string, stdout, stderr io.Writer) error {
	flags.SetOutput(stderr)
	for _, arg := range args {
		if arg == "-h" || arg == "-help" || arg == "--help" {
			flags.SetOutput(stdout)
		}
	}
	if err := flags.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return err
		}
		return errUsage
	}
	if flags.NArg() > 0 {
		_, _ = fmt.Fprintf(stderr, "controlplane %s: unexpected argument %q\n", flags.Name(), flags.Arg(0))
		return errUsage
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
	flags.Usage = func() {
		_, _ = fmt.Fprintln(flags.Output(), "controlplane build builds the programs of the control plane into the user's "+
			"cache directory,\nunless they are there, and prints their paths.")
		flags.PrintDefaults()
	}
	if err := parse(flags, args, stdout, stderr); err != nil {
		return err
	}
	binaries, err := cluster.Build(ctx, stderr)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(stdout, "%s\n%s\n", binaries.ControlPlane, binaries.Kwok)
	return err
}
