package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"text/tabwriter"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/machineset/guard"
	"github.com/machinist-dev/machinist/machineset/safety"
)

const orphansUsage = `manager orphans lists the instances of a driver that have no Machine. It deletes nothing, and looks once:
the manager deletes them with --machine-safety-collect-orphans, after several looks.

  manager orphans --driver=kwok             as a table
  manager orphans --driver=kwok -o json     as JSON

Exit codes: 0 done, 1 failed, 2 wrong flags.

Flags:
`

// orphansCommand is manager orphans. It returns the exit code.
func orphansCommand(args []string, stdout, stderr io.Writer) int {
	var o options
	var format string
	flags := flag.NewFlagSet("manager orphans", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.StringVar(&o.kubeconfig, "kubeconfig", "", "kubeconfig `file`; empty: KUBECONFIG, ~/.kube/config, or the pod's service account")
	flags.StringVar(&format, "o", "", "json, or empty for a table")
	o.driver.flags(flags)
	err := flags.Parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		fmt.Fprint(stdout, orphansUsage)
		flags.SetOutput(stdout)
		flags.PrintDefaults()
		return exitDone
	case err == nil && flags.NArg() > 0:
		err = fmt.Errorf("unexpected argument %q: everything is a flag", flags.Arg(0))
	case err == nil && o.driver.name == "":
		err = errors.New("--driver is missing: give " + driverKwok)
	case err == nil && format != "" && format != logJSON:
		err = fmt.Errorf("-o %q: give json, or nothing for a table", format)
	case err == nil:
		err = o.driver.validate()
	}
	if err != nil {
		fmt.Fprintf(stderr, "manager orphans: %v\nRun with --help for help.\n", err)
		return exitUsage
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	report, err := o.findOrphans(ctx)
	if err == nil {
		err = printOrphans(stdout, report, format)
	}
	if err != nil {
		fmt.Fprintf(stderr, "manager orphans: %v\n", err)
		return exitFailed
	}
	return exitDone
}

// findOrphans looks once.
func (o options) findOrphans(ctx context.Context) (guard.Report, error) {
	o.qps = -1
	cfg, err := restConfig(o)
	if err != nil {
		return guard.Report{}, err
	}
	scheme, err := newScheme()
	if err != nil {
		return guard.Report{}, err
	}
	c, err := client.New(cfg, client.Options{Scheme: scheme})
	if err != nil {
		return guard.Report{}, err
	}
	nodes, err := o.driver.clientBeside(cfg, scheme)
	if err != nil {
		return guard.Report{}, err
	}
	o.safety.orphans = safety.OrphanLimits{StartDelay: time.Nanosecond}
	collector, err := guard.NewCollector(o.collector(c, o.driver.calls(nodes, nil)))
	if err != nil {
		return guard.Report{}, err
	}
	return collector.Pass(ctx)
}

func printOrphans(out io.Writer, r guard.Report, format string) error {
	if format == logJSON {
		return json.NewEncoder(out).Encode(r)
	}
	for _, cluster := range slices.Sorted(maps.Keys(r.Blocked)) {
		fmt.Fprintf(out, "%s: %s\n", cluster, r.Blocked[cluster])
	}
	w := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
	fmt.Fprintln(w, "CLUSTER\tPROVIDER-ID\tNAME\tTOKEN\tWAITS")
	for _, i := range r.Orphans {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", i.Cluster, i.ProviderID, i.Name, i.Token, i.Waits)
	}
	return w.Flush()
}
