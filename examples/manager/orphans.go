package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"slices"
	"text/tabwriter"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/examples/manager/options"
	"github.com/machinist-dev/machinist/machineset/guard"
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
	o := settings{options.Defaults()}
	var c commandFlags
	flags := flag.NewFlagSet("manager orphans", flag.ContinueOnError)
	c.add(flags, "")
	o.Driver.AddFlags(flags)
	words, err := c.parse(flags, orphansUsage, args, stdout)
	switch {
	case err == nil && len(words) > 0:
		err = fmt.Errorf("unexpected argument %q: everything is a flag", words[0])
	case err == nil && o.Driver.Name == "":
		err = errors.New("--driver is missing: give " + options.DriverKwok)
	case err == nil:
		err = o.Driver.Validate()
	}
	return finish("orphans", err, stderr, func(ctx context.Context) error {
		o.Client.Kubeconfig, o.Kinds.Group = c.kubeconfig, c.group
		report, err := o.findOrphans(ctx)
		if err != nil {
			return err
		}
		return printOrphans(stdout, report, c.output)
	})
}

// findOrphans looks once.
func (o settings) findOrphans(ctx context.Context) (guard.Report, error) {
	o.Client.QPS = -1
	cfg, err := restConfig(o.Client)
	if err != nil {
		return guard.Report{}, err
	}
	scheme, err := newScheme(o.Kinds.Group)
	if err != nil {
		return guard.Report{}, err
	}
	c, err := client.New(cfg, client.Options{Scheme: scheme})
	if err != nil {
		return guard.Report{}, err
	}
	nodes, err := o.driverClientBeside(cfg, scheme)
	if err != nil {
		return guard.Report{}, err
	}
	o.Safety.Orphans = guard.OrphanLimits{StartDelay: time.Nanosecond}
	collector, err := guard.NewCollector(o.collector(c, o.driverCalls(nodes, c, nil)))
	if err != nil {
		return guard.Report{}, err
	}
	return collector.Pass(ctx)
}

func printOrphans(out io.Writer, r guard.Report, format string) error {
	if format == outputJSON {
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
