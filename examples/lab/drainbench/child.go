package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"

	"k8s.io/client-go/tools/clientcmd"

	"github.com/machinist-dev/machinist/examples/lab/bench"
)

// childCommand is the first argument of a process that drains and nothing else; people have no use for it.
const childCommand = "drain-child"

// child drains in a process of its own, and ends when its standard input does: its parent is gone then.
func child(ctx context.Context, args []string, stdin io.Reader) error {
	flags := flag.NewFlagSet(childCommand, flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	arm, kubeconfig, agent := flags.String("arm", "", ""), flags.String("kubeconfig", "", ""), flags.String("agent", "", "")
	if err := flags.Parse(args); err != nil {
		return fmt.Errorf("%w: %w", bench.ErrUsage, err)
	}
	config, err := clientcmd.BuildConfigFromFlags("", *kubeconfig)
	if err != nil {
		return err
	}
	config.QPS, config.UserAgent = -1, *agent
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		_, _ = io.Copy(io.Discard, stdin)
		cancel(errors.New("the parent process is gone"))
	}()
	d, err := startInProcess(ctx, armName(*arm), config)
	if err != nil {
		return err
	}
	defer d.close()
	return d.drain(ctx, flags.Args())
}

// killedHalfWay is an arm that runs in a child process, which is killed without warning and started again.
type killedHalfWay struct {
	arm        armName
	agent      string
	kubeconfig string
	// halfWay returns when half of the pods are terminating.
	halfWay func(ctx context.Context) error
}

func (k *killedHalfWay) drain(ctx context.Context, nodes []string) error {
	first, err := k.start(ctx, nodes)
	if err != nil {
		return err
	}
	if err := k.halfWay(ctx); err != nil {
		first.kill()
		return errors.Join(err, first.problem())
	}
	first.kill()
	second, err := k.start(ctx, nodes)
	if err != nil {
		return err
	}
	if err := second.wait(); err != nil {
		return errors.Join(err, second.problem())
	}
	return nil
}

func (k *killedHalfWay) close() {}

// process is a running child.
type process struct {
	cmd      *exec.Cmd
	lifeline io.Closer // the child's standard input
	stderr   bytes.Buffer
}

func (k *killedHalfWay) start(ctx context.Context, nodes []string) (*process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	args := append([]string{childCommand, "--arm", string(k.arm), "--kubeconfig", k.kubeconfig, "--agent", k.agent}, nodes...)
	p := &process{cmd: exec.CommandContext(ctx, self, args...)}
	p.cmd.Stderr = &p.stderr
	if p.lifeline, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start a child process: %w", err)
	}
	return p, nil
}

// kill ends the child with SIGKILL, which leaves it no time for anything.
func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	_ = p.wait()
}

func (p *process) wait() error {
	err := p.cmd.Wait()
	_ = p.lifeline.Close()
	return err
}

// problem is what the child had to say; it is read after its end.
func (p *process) problem() error {
	if said := strings.TrimSpace(p.stderr.String()); said != "" {
		return fmt.Errorf("the child process: %s", said)
	}
	return nil
}
