package main

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/yaml"

	"github.com/machinist-dev/machinist/examples/lab/chaos"
	"github.com/machinist-dev/machinist/examples/lab/cluster"
	"github.com/machinist-dev/machinist/examples/lab/internal/cli"
	"github.com/machinist-dev/machinist/examples/lab/internal/progress"
	"github.com/machinist-dev/machinist/examples/lab/rights"
)

// demoObjects is what the demo creates: a MachineDeployment with its template, and an application with a budget.
//
//go:embed demo.yaml
var demoObjects string

const (
	demoTimeout = 5 * time.Minute
	demoPoll    = time.Second
	managerPath = "github.com/machinist-dev/machinist/examples/manager"
)

// demoProgram is a program of the demo: the manager with some flags.
type demoProgram struct {
	name  string
	flags []string
}

// demoPrograms are the operator, and the provider that makes Nodes for it.
func demoPrograms() []demoProgram {
	kinds := []string{"--api-group=machinist.dev", "--install-crds", "--health-probe-bind-address=0", "--metrics-bind-address=0"}
	return []demoProgram{
		{"provider", append(slices.Clip(kinds), "--driver=kwok", "--driver-as=inframachine", "--watch-filter=provider",
			"--driver-latency=200ms", "--driver-boot-time=3s")},
		{"manager", append(slices.Clip(kinds), "--machinesets", "--machinedeployments", "--machinehealthchecks")},
	}
}

type demoOptions struct {
	output string
	keep   bool
}

func parseDemo(args []string, stdout io.Writer) (demoOptions, error) {
	var o demoOptions
	flags := flag.NewFlagSet("demo", flag.ContinueOnError)
	checkout(flags)
	flags.StringVar(&o.output, "o", "text", "what to print on standard output when all is ready: "+
		"text, or json for one object with kubeconfig and the commands to try")
	flags.BoolVar(&o.keep, "keep", false, "keep the directory with the logs at the end")
	err := cli.Parse(flags, args, `lab demo shows the operator of examples/manager at work, and stops all on Ctrl-C:
a real control plane, the operator with its own CRDs, a provider whose Nodes kwok simulates,
a MachineDeployment of three Machines, and an application on them with a PodDisruptionBudget.
Progress goes to standard error.

`, stdout, func() error { return cli.Format(o.output) })
	return o, err
}

// demo runs until ctx ends, which is how to end it and no error, or until a component dies.
func demo(ctx context.Context, args []string, stdout, stderr io.Writer) (err error) {
	o, err := parseDemo(args, stdout)
	if err != nil {
		return err
	}
	ctx, cancel := withGoRun(ctx)
	defer cancel()
	plane, err := cluster.Start(ctx, cluster.Options{Log: stderr, KeepDir: o.keep, PodTermination: 2 * time.Second})
	if err != nil {
		return err
	}
	d := &demonstration{plane: plane, log: stderr, printf: progress.New(stderr, "demo")}
	defer func() {
		if stopErr := errors.Join(d.stop(), plane.Stop()); err == nil {
			err = stopErr
		}
		reportEnd(stderr, plane, o.keep)
	}()
	if err := d.start(ctx); err != nil {
		return err
	}
	if err := d.announce(stdout, o.output); err != nil {
		return err
	}
	select {
	case <-ctx.Done():
		return nil
	case err := <-plane.Died():
		return err
	}
}

// demonstration is a demo that runs.
type demonstration struct {
	plane    *cluster.ControlPlane
	log      io.Writer
	printf   progress.Printf
	bin      string // the folder with manager and kubectl
	programs []*chaos.Program
}

// start returns when the MachineDeployment is rolled out.
func (d *demonstration) start(ctx context.Context) error {
	d.printf("building the operator")
	if err := d.build(ctx); err != nil {
		return err
	}
	for _, p := range demoPrograms() {
		d.printf("starting the %s: manager %s", p.name, strings.Join(p.flags, " "))
		if err := d.run(ctx, p); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, demoTimeout)
	defer cancel()
	d.printf("creating the MachineDeployment workers and the Deployment web")
	err := d.until(ctx, "the objects of the demo to be created", func() error { return d.kubectl(ctx, demoObjects, "apply", "-f", "-") })
	if err != nil {
		return err
	}
	d.printf("waiting for its Machines; what happens is in %s/*.log", d.bin)
	return d.rolledOut(ctx)
}

// build puts the programs into a folder that goes with the control plane.
func (d *demonstration) build(ctx context.Context) error {
	d.bin = filepath.Join(d.plane.Dir(), "demo")
	if err := os.Mkdir(d.bin, 0o700); err != nil {
		return err
	}
	out, err := exec.CommandContext(ctx, "go", "build", "-buildvcs=false", "-o", filepath.Join(d.bin, "manager"), managerPath).CombinedOutput()
	if err != nil {
		return fmt.Errorf("build the operator: %w: %s", err, out)
	}
	binaries, err := cluster.Build(ctx, d.log)
	if err != nil {
		return err
	}
	script := fmt.Sprintf("#!/bin/sh\nexec '%s' kubectl \"$@\"\n", binaries.ControlPlane)
	return os.WriteFile(filepath.Join(d.bin, "kubectl"), []byte(script), 0o700) //nolint:gosec // it is a program
}

// run starts a program with the rights that it asks for, and no others.
func (d *demonstration) run(ctx context.Context, p demoProgram) error {
	manager := filepath.Join(d.bin, "manager")
	out, err := exec.CommandContext(ctx, manager, append(p.flags, "--print-rbac")...).Output()
	if err != nil {
		return fmt.Errorf("ask the %s for the rights that it needs: %w", p.name, err)
	}
	var role rbacv1.ClusterRole
	if err := yaml.Unmarshal(out, &role); err != nil {
		return fmt.Errorf("read the rights of the %s: %w", p.name, err)
	}
	user, err := rights.Grant(ctx, d.plane, "demo-"+p.name, rights.Asked{Cluster: role.Rules})
	if err != nil {
		return err
	}
	config := filepath.Join(d.bin, p.name+".kubeconfig")
	if err := cluster.WriteKubeconfig(config, user.Config()); err != nil {
		return err
	}
	program := chaos.NewProgram(p.name, filepath.Join(d.bin, p.name+".log"), manager, append([]string{"--kubeconfig", config}, p.flags...)...)
	d.programs = append(d.programs, program)
	return program.Start()
}

// stop ends the programs, the last one first.
func (d *demonstration) stop() error {
	var errs []error
	for _, p := range slices.Backward(d.programs) {
		errs = append(errs, p.Stop())
	}
	return errors.Join(errs...)
}

// kubectl runs kubectl as the administrator.
func (d *demonstration) kubectl(ctx context.Context, input string, args ...string) error {
	cmd := exec.CommandContext(ctx, filepath.Join(d.bin, "kubectl"), append([]string{"--kubeconfig", d.plane.Kubeconfig()}, args...)...)
	cmd.Stdin = strings.NewReader(input)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("kubectl %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(string(out)))
	}
	return nil
}

// until repeats an action that needs what another program does first.
func (d *demonstration) until(ctx context.Context, what string, do func() error) error {
	ticker := time.NewTicker(demoPoll)
	defer ticker.Stop()
	for {
		err := do()
		if err == nil {
			return nil
		}
		for _, p := range d.programs {
			if n := p.Endings(); n > 3 {
				return fmt.Errorf("wait for %s: a program ends again and again; its log is in %s", what, d.bin)
			}
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for %s: %w: %w", what, ctx.Err(), err)
		case <-ticker.C:
		}
	}
}

// rolledOut waits for the Machines, which the operator's own command follows, and for the application.
func (d *demonstration) rolledOut(ctx context.Context) error {
	cmd := exec.CommandContext(ctx, filepath.Join(d.bin, "manager"), "rollout", "status", "workers", "--watch", "--api-group=machinist.dev",
		"--kubeconfig", d.plane.Kubeconfig())
	cmd.Stdout, cmd.Stderr = d.log, d.log
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("wait for the Machines: %w", errors.Join(ctx.Err(), err))
	}
	clients, err := kubernetes.NewForConfig(d.plane.Config())
	if err != nil {
		return err
	}
	return d.until(ctx, "the application", func() error {
		web, err := clients.AppsV1().Deployments("default").Get(ctx, "web", metav1.GetOptions{})
		if err == nil && web.Status.AvailableReplicas < *web.Spec.Replicas {
			err = fmt.Errorf("%d of %d Pods are available", web.Status.AvailableReplicas, *web.Spec.Replicas)
		}
		return err
	})
}

// tries are commands that work as they are, with what each of them shows.
func tries() [][2]string {
	return [][2]string{
		{"kubectl get machinedeployments,machinesets,machines,nodes", "what there is"},
		{"kubectl scale machinedeployments workers --replicas=5", "two Machines more, each with a Node"},
		{`kubectl patch machinedeployments workers --type=merge -p '{"spec":{"template":{"spec":{"version":"v1.36.3"}}}}'`,
			"a rollout, which drains one Node after the other and keeps the budget of web"},
		{"manager rollout status workers --watch --api-group=machinist.dev", "until it is done"},
		{"kubectl delete machines --all --wait=false", "all Machines are drained, deleted and replaced"},
	}
}

func (d *demonstration) announce(out io.Writer, format string) error {
	type try struct {
		Command string `json:"command"`
		Shows   string `json:"shows"`
	}
	all := make([]try, 0, len(tries()))
	for _, t := range tries() {
		all = append(all, try{t[0], t[1]})
	}
	if format == "json" {
		return json.NewEncoder(out).Encode(map[string]any{"kubeconfig": d.plane.Kubeconfig(), "path": d.bin, "try": all})
	}
	var text strings.Builder
	fmt.Fprintf(&text, "\nThree Machines run, each with a Node and Pods of the Deployment web. In another terminal:\n\n"+
		"  export KUBECONFIG=%s PATH=%s:$PATH\n", d.plane.Kubeconfig(), d.bin)
	for _, t := range all {
		fmt.Fprintf(&text, "\n  # %s\n  %s\n", t.Shows, t.Command)
	}
	_, err := fmt.Fprintf(out, "%s\nLogs: %s/manager.log and provider.log\nCtrl-C stops it and removes everything.\n", text.String(), d.bin)
	return err
}
