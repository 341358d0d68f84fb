// Command edge is an operator for servers and gateways at the edge, as a project outside of this one would write it: with a module,
// an API, controllers and words of its own. machines.go embeds Machinist, which reconciles them from power-on to drain. README.md
// describes the files.
package main

import (
	"context"
	_ "embed"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

// crds are the CustomResourceDefinitions of the operator.
//
//go:embed config/crds.yaml
var crds string

const usage = `edge reconciles EdgeServers and EdgeGateways (edge.example.com/v1): power, Node, drain, power off.
It simulates the boxes and their consoles: a box that is switched on becomes a Node.

  edge --print-crds | kubectl apply -f -
  edge --print-rbac | kubectl apply -f -
  edge --kubeconfig FILE

Flags:
`

// flags are the command-line flags.
type flags struct {
	kubeconfig            string
	printCRDs, printRBAC  bool
	verbosity             int
	probeAddress, metrics string
}

func main() { os.Exit(execute(os.Args[1:], os.Stdout, os.Stderr)) }

// execute is main without os.Exit. Exit codes: 0 ended by a signal, 1 failed, 2 wrong flags.
func execute(args []string, stdout, stderr io.Writer) int {
	return withOutput(stdout, stderr, func(out io.Writer) int { return perform(args, out, stderr) })
}

// perform runs what the arguments select and returns the exit code.
func perform(args []string, stdout, stderr io.Writer) int {
	f, err := parse(args, stdout)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		fmt.Fprintf(stderr, "edge: %v\nRun with --help for help.\n", err)
		return 2
	case f.printCRDs:
		_, err = io.WriteString(stdout, crds)
	case f.printRBAC:
		err = printRBAC(stdout, true)
	default:
		err = serve(f, stderr)
	}
	if err != nil {
		fmt.Fprintf(stderr, "edge: %v\n", err)
		return 1
	}
	return 0
}

// parse reads the flags. Help goes to out, and flag.ErrHelp is returned.
func parse(args []string, out io.Writer) (flags, error) {
	var f flags
	set := flag.NewFlagSet("edge", flag.ContinueOnError)
	set.SetOutput(io.Discard)
	set.StringVar(&f.kubeconfig, "kubeconfig", "", "kubeconfig `file`; empty: KUBECONFIG, ~/.kube/config, or the pod's service account")
	set.BoolVar(&f.printCRDs, "print-crds", false, "print the CustomResourceDefinitions, and end")
	set.BoolVar(&f.printRBAC, "print-rbac", false, "print the ClusterRole that is needed, and end")
	set.StringVar(&f.probeAddress, "health-probe-bind-address", "0", "`address` of /healthz; 0 serves none")
	set.StringVar(&f.metrics, "metrics-bind-address", "0", "`address` of /metrics; 0 serves none")
	set.IntVar(&f.verbosity, "v", 0, "log verbosity; 1 logs each change of a stage")
	err := set.Parse(args)
	if errors.Is(err, flag.ErrHelp) {
		fmt.Fprint(out, usage)
		set.SetOutput(out)
		set.PrintDefaults()
	}
	if err == nil && set.NArg() > 0 {
		err = fmt.Errorf("unexpected argument %q: everything is a flag", set.Arg(0))
	}
	return f, err
}

func serve(f flags, stderr io.Writer) error {
	cfg, err := restConfig(f.kubeconfig)
	if err != nil {
		return err
	}
	scheme, err := newScheme()
	if err != nil {
		return err
	}
	ctrl.SetLogger(logr.FromSlogHandler(slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: slog.Level(-f.verbosity)})))
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	mgr, err := newManager(ctx, cfg, ctrl.Options{
		Scheme: scheme, Metrics: server.Options{BindAddress: f.metrics}, HealthProbeBindAddress: f.probeAddress,
		Controller: config.Controller{UsePriorityQueue: new(false)}, // it can hang when it is shut down: kubernetes-sigs/controller-runtime#3538
	}, nil)
	if err != nil {
		return err
	}
	return mgr.Start(ctx)
}

func restConfig(kubeconfig string) (*rest.Config, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = kubeconfig
	cfg, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, nil).ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("kubeconfig: %w", unusable(rules, err))
	}
	cfg.QPS = -1 // no limit: the API server has priority and fairness
	return cfg, nil
}

// unusable names which kubeconfig files are missing or empty, because clientcmd's own error names only a variable.
func unusable(rules *clientcmd.ClientConfigLoadingRules, err error) error {
	var files []string
	for _, path := range rules.GetLoadingPrecedence() {
		if _, wrong := os.Stat(path); errors.Is(wrong, fs.ErrNotExist) {
			files = append(files, path+" does not exist")
		} else if clientcmd.IsEmptyConfig(err) {
			files = append(files, path+" names no cluster")
		}
	}
	switch {
	case len(files) == 0:
		return err
	case clientcmd.IsEmptyConfig(err):
		return errors.New(strings.Join(files, ", "))
	default:
		return fmt.Errorf("%w; %s", err, strings.Join(files, ", "))
	}
}

// withOutput runs f, and fails if output was lost, for example because a disk is full.
func withOutput(stdout, stderr io.Writer, f func(out io.Writer) int) int {
	out := &output{Writer: stdout}
	code := f(out)
	if out.err != nil && code == 0 {
		fmt.Fprintf(stderr, "edge: write output: %v\n", out.err)
		return 1
	}
	return code
}

// output remembers the first write that failed.
type output struct {
	io.Writer
	err error
}

// Write implements io.Writer.
func (o *output) Write(p []byte) (int, error) {
	n, err := o.Writer.Write(p)
	if o.err == nil {
		o.err = err
	}
	return n, err
}
