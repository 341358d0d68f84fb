package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"time"

	"github.com/machinist-dev/machinist/examples/lab/cluster"
	"github.com/machinist-dev/machinist/examples/lab/internal/cli"
)

type upOptions struct {
	nodes       int
	hollow      int
	output      string
	keep        bool
	termination time.Duration
}

func parseUp(args []string, stdout io.Writer) (upOptions, error) {
	var o upOptions
	flags := flag.NewFlagSet("up", flag.ContinueOnError)
	checkout(flags)
	flags.IntVar(&o.nodes, "nodes", 0, "create this many Nodes, node-0 and up, and wait until they are Ready")
	flags.IntVar(&o.hollow, "hollow-nodes", 0, "start this many kubelets without a host, hollow-0 and up, and wait until their Nodes are "+
		"Ready: they boot from rendered first-boot data, as machines do")
	flags.StringVar(&o.output, "o", "text", "what to print on standard output when all is ready: "+
		"text, or json for one object with kubeconfig and server")
	flags.BoolVar(&o.keep, "keep", false, "keep the directory with the logs, the audit log and the data at the end")
	flags.DurationVar(&o.termination, "pod-termination", 0, "how long a deleted pod takes to go, such as 5s")
	usage := "lab up starts a control plane and stops it on Ctrl-C.\nProgress goes to standard error.\n\n"
	return o, cli.Parse(flags, args, usage, stdout, func() error {
		switch {
		case o.nodes < 0 || o.hollow < 0:
			return errors.New("-nodes and -hollow-nodes must not be negative")
		case o.termination < 0:
			return errors.New("-pod-termination must not be negative")
		}
		return cli.Format(o.output)
	})
}

// up runs a control plane until ctx ends, which is how to end it and no error, or until a component dies.
func up(ctx context.Context, args []string, stdout, stderr io.Writer) (err error) {
	options, err := parseUp(args, stdout)
	if err != nil {
		return err
	}
	ctx, cancel := findGoRun().endWith(ctx)
	defer cancel()
	settings := cluster.Options{Log: stderr, KeepDir: options.keep, PodTermination: options.termination}
	if options.hollow > 0 {
		settings.ManagedNodes = cluster.OtherNodes
	}
	plane, err := cluster.Start(ctx, settings)
	if err != nil {
		return err
	}
	defer func() {
		if stopErr := plane.Stop(); err == nil {
			err = stopErr
		}
		reportEnd(stderr, plane, options.keep)
	}()
	if err := startKubelets(ctx, plane, options.hollow); err != nil {
		return err
	}
	if err := createNodes(ctx, plane.Config(), options.nodes, options.hollow); err != nil {
		return err
	}
	if err := announce(stdout, plane, options.output); err != nil {
		return err
	}
	select {
	case <-ctx.Done():
		return nil
	case err := <-plane.Died():
		return err
	}
}

func announce(w io.Writer, plane *cluster.ControlPlane, output string) error {
	kubeconfig, server := plane.Kubeconfig(), plane.Config().Host
	if output == "json" {
		return json.NewEncoder(w).Encode(map[string]string{"kubeconfig": kubeconfig, "server": server})
	}
	_, err := fmt.Fprintf(w, `
The control plane is up. In another terminal:

  export KUBECONFIG=%[1]s
  kubectl get nodes

or: kubectl --kubeconfig %[1]s get nodes
Server: %[2]s
Logs:   %[3]s

Ctrl-C stops it and removes everything.
`, kubeconfig, server, plane.Dir())
	return err
}

func reportEnd(w io.Writer, plane *cluster.ControlPlane, kept bool) {
	if kept {
		_, _ = fmt.Fprintf(w, "lab: stopped; its files are in %s\n", plane.Dir())
		return
	}
	_, _ = fmt.Fprintln(w, "lab: stopped, everything is removed")
}
