package arm

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"

	"k8s.io/client-go/tools/clientcmd"
)

// ChildCommand is the first argument of a process of this program that calls DrainChild.
const ChildCommand = "drain-child"

// DrainChild drains in a process of its own, and ends when its standard input does: its parent is gone then. The arguments are an arm, a
// kubeconfig file, a user agent, and Nodes.
func DrainChild(ctx context.Context, args []string, stdin io.Reader) error {
	if len(args) < 4 {
		return errors.New("wrong arguments: give an arm, a kubeconfig file, a user agent, and Nodes")
	}
	config, err := clientcmd.BuildConfigFromFlags("", args[1])
	if err != nil {
		return err
	}
	config.QPS, config.UserAgent = -1, args[2]
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		_, _ = io.Copy(io.Discard, stdin)
		cancel(errors.New("the parent process is gone"))
	}()
	d, err := StartDrainer(ctx, args[0], config)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Drain(ctx, args[3:])
}

// KilledHalfWay is an arm that runs in a child process, which is killed without warning and started again.
type KilledHalfWay struct {
	Arm, Agent, Kubeconfig string
	// HalfWay returns when half of the pods are terminating.
	HalfWay func(ctx context.Context) error
}

// Drain implements Drainer.
func (k *KilledHalfWay) Drain(ctx context.Context, nodes []string) error {
	first, err := k.start(ctx, nodes)
	if err != nil {
		return err
	}
	if err := k.HalfWay(ctx); err != nil {
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

// Close implements Drainer.
func (k *KilledHalfWay) Close() {}

// child is a running process.
type child struct {
	cmd      *exec.Cmd
	lifeline io.Closer // the child's standard input
	stderr   bytes.Buffer
}

func (k *KilledHalfWay) start(ctx context.Context, nodes []string) (*child, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	args := append([]string{ChildCommand, k.Arm, k.Kubeconfig, k.Agent}, nodes...)
	p := &child{cmd: exec.CommandContext(ctx, self, args...)}
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
func (p *child) kill() {
	_ = p.cmd.Process.Kill()
	_ = p.wait()
}

func (p *child) wait() error {
	err := p.cmd.Wait()
	_ = p.lifeline.Close()
	return err
}

// problem is what the child had to say; it is read after its end.
func (p *child) problem() error {
	if said := strings.TrimSpace(p.stderr.String()); said != "" {
		return fmt.Errorf("the child process: %s", said)
	}
	return nil
}
