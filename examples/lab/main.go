// Command lab is the laboratory of this library: a real Kubernetes control plane on this computer (etcd, kube-apiserver,
// kube-controller-manager, kube-scheduler, and kwok instead of kubelets, so that Nodes and pods need no machines), a demonstration on it,
// benchmarks beside peers, and the table of versions. It needs no privileges, only git and Go.
//
//	go run -C examples/lab . up
//
// The control plane is available as Go package for tests in ./cluster.
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
	"github.com/machinist-dev/machinist/examples/command"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/machinist-dev/machinist/examples/lab/bench"
	"github.com/machinist-dev/machinist/examples/lab/cluster"
	"github.com/machinist-dev/machinist/examples/lab/floor"
	"github.com/machinist-dev/machinist/examples/lab/internal/cli"
	"github.com/machinist-dev/machinist/examples/lab/skew"
)

const usage = `lab runs a real Kubernetes control plane on this computer, and measures this library on it.

  go run -C examples/lab . up             start a control plane, and stop it on Ctrl-C
  go run -C examples/lab . demo           with Machinist's operator at work on it, and what to try
  go run -C examples/lab . build          only build its programs, which happens once and takes minutes
  go run -C examples/lab . bench KIND     what this library costs beside its peers: machine, set, rollout, health, fleet, pool, drain,
                                          gardener
  go run -C examples/lab . skew           with which releases of Kubernetes and controller-runtime this library works

etcd, kube-apiserver, kube-controller-manager and kube-scheduler are the real ones. kwok plays the kubelets:
every Node you create becomes Ready, every pod on it Running, and no container ever starts. All of them listen on
127.0.0.1. When "up" ends, however it ends, no process and no file stays behind but the built programs.

Try, in a second terminal, with the path that "up" prints:

  export KUBECONFIG=...
  kubectl get nodes
  kubectl create deployment web --image=web --replicas=3

"lab up -h" lists its flags. The programs are built from a checkout of this repository, and again when their sources change: a lab that was
built and runs elsewhere needs Go, and -C DIR for the folder of examples/lab.
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
	ctrl.SetLogger(logr.Discard()) // logs of libraries would mix with the progress
	klog.SetLogger(logr.Discard())
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// run is main without os.Exit.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	return command.Run("lab", command.Codes{Done: exitOK, Lost: exitFailed}, stdout, stderr, func(out io.Writer) int {
		word, rest := "", args
		if len(args) > 0 {
			word, rest = args[0], args[1:]
		}
		return exitCode(ctx, word, perform(ctx, word, rest, out, stderr), stderr)
	})
}

// perform runs a command.
func perform(ctx context.Context, word string, args []string, stdout, stderr io.Writer) error {
	switch word {
	case "up":
		return up(ctx, args, stdout, stderr)
	case "demo":
		return demo(ctx, args, stdout, stderr)
	case "build":
		return build(ctx, args, stdout, stderr)
	case "bench":
		return bench.Run(ctx, args, stdout, stderr)
	case "skew":
		return skew.Run(ctx, args, stdout, stderr)
	case floor.Command: // a process of bench, which people have no use for
		return floor.Child(ctx, args, os.Stdin, stderr)
	case "help", "-h", "-help", "--help":
		_, err := io.WriteString(stdout, usage)
		return err
	}
	return fmt.Errorf("%w: unknown command %q: give up, demo, build, bench or skew", cli.ErrUsage, word)
}

// exitCode prints an error, if there is one, and returns the exit code.
func exitCode(ctx context.Context, word string, err error, stderr io.Writer) int {
	switch {
	case err == nil, errors.Is(err, flag.ErrHelp):
		return exitOK
	case errors.Is(err, cli.ErrUsage):
		_, _ = fmt.Fprintf(stderr, "lab %s: %v\nRun with --help for help.\n", word, err)
		return exitUsage
	case errors.Is(err, context.Canceled), ctx.Err() != nil:
		_, _ = fmt.Fprintf(stderr, "lab %s: interrupted; everything is stopped and removed\n", word)
	case errors.Is(err, cluster.ErrNoSource):
		_, _ = fmt.Fprintf(stderr, "lab %[1]s: %[2]v\nElsewhere, -C names the folder of examples/lab: lab %[1]s -C DIR\n", word, err)
	default:
		_, _ = fmt.Fprintf(stderr, "lab %s: %v\n", word, err)
	}
	return exitFailed
}

// checkout adds the flag for the folder of the laboratory, which becomes the working directory.
func checkout(flags *flag.FlagSet) {
	flags.Func("C", "`folder` of examples/lab in a checkout of this repository; the default is the current one", os.Chdir)
}

func build(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	flags := flag.NewFlagSet("build", flag.ContinueOnError)
	checkout(flags)
	usage := "lab build builds the programs of the control plane into the user's cache directory,\n" +
		"unless they are there, and prints their paths.\n"
	if err := cli.Parse(flags, args, usage, stdout, nil); err != nil {
		return err
	}
	binaries, err := cluster.Build(ctx, stderr)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(stdout, "%s\n%s\n", binaries.ControlPlane, binaries.Kwok)
	return err
}
