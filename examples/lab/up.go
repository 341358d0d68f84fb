package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/machinist-dev/machinist/examples/lab/cluster"
	"github.com/machinist-dev/machinist/examples/lab/internal/cli"
)

type upOptions struct {
	nodes       int
	output      string
	keep        bool
	termination time.Duration
}

func parseUp(args []string, stdout io.Writer) (upOptions, error) {
	var o upOptions
	flags := flag.NewFlagSet("up", flag.ContinueOnError)
	checkout(flags)
	flags.IntVar(&o.nodes, "nodes", 0, "create this many Nodes, node-0 and up, which kwok makes Ready")
	flags.StringVar(&o.output, "o", "text", "what to print on standard output when all is ready: "+
		"text, or json for one object with kubeconfig and server")
	flags.BoolVar(&o.keep, "keep", false, "keep the directory with the logs, the audit log and the data at the end")
	flags.DurationVar(&o.termination, "pod-termination", 0, "how long a deleted pod takes to go, such as 5s")
	usage := "lab up starts a control plane and stops it on Ctrl-C.\nProgress goes to standard error.\n\n"
	return o, cli.Parse(flags, args, usage, stdout, func() error {
		switch {
		case o.nodes < 0:
			return errors.New("-nodes must not be negative")
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
	ctx, cancel := withGoRun(ctx)
	defer cancel()
	plane, err := cluster.Start(ctx, cluster.Options{Log: stderr, KeepDir: options.keep, PodTermination: options.termination})
	if err != nil {
		return err
	}
	defer func() {
		if stopErr := plane.Stop(); err == nil {
			err = stopErr
		}
		reportEnd(stderr, plane, options.keep)
	}()
	if err := createNodes(ctx, plane.Config(), options.nodes); err != nil {
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

// createNodes creates n Nodes as kubelets would.
func createNodes(ctx context.Context, config *rest.Config, n int) error {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	for i := range n {
		name := fmt.Sprintf("node-%d", i)
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelHostname: name}}}
		if _, err := client.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("create the Node %s: %w", name, err)
		}
	}
	return nil
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
