package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/examples/lab/arms"
	"github.com/machinist-dev/machinist/examples/lab/bench"
	"github.com/machinist-dev/machinist/examples/lab/cluster"
	"github.com/machinist-dev/machinist/fake"
)

const (
	floorPackage = "github.com/machinist-dev/machinist/examples/lab/floor"
	// floorPoll is how often the floor gets what a manager has requested.
	floorPoll = 200 * time.Millisecond
)

// written are the resources whose writes the floor repeats.
func written() []schema.GroupResource {
	infra, config := fake.InfraMachineGVK(contract.V1Beta2), fake.BootstrapConfigGVK(contract.V1Beta2)
	return []schema.GroupResource{
		{Resource: "nodes"}, {Resource: "pods"}, {Group: "events.k8s.io", Resource: "events"},
		{Group: fake.MachineGVK().Group, Resource: "machines"}, {Group: fake.MachineGVK().Group, Resource: "machinesets"},
		{Group: fake.MachineGVK().Group, Resource: "machinedeployments"},
		{Group: infra.Group, Resource: "fakemachines"}, {Group: infra.Group, Resource: "fakemachinetemplates"},
		{Group: config.Group, Resource: "fakeconfigs"}, {Group: config.Group, Resource: "fakeconfigtemplates"},
	}
}

func buildFloor(ctx context.Context, dir string) (string, error) {
	program := filepath.Join(dir, "floor")
	out, err := exec.CommandContext(ctx, "go", "build", "-o", program, floorPackage).CombinedOutput()
	if err != nil {
		return "", errors.Join(context.Cause(ctx), fmt.Errorf("go build %s: %w\n%s", floorPackage, err, out))
	}
	return program, nil
}

// floor is a process that makes the requests of a manager, and decides nothing.
type floor struct {
	cmd     *exec.Cmd
	input   io.WriteCloser
	said    bytes.Buffer
	ended   context.CancelFunc
	fed     chan error
	manager *arms.Manager
	answers *answers
}

// startFloor starts the floor of a manager, which began after a mark. It is nil without --floor.
func (c *comparison) startFloor(ctx context.Context, m *arms.Manager, since cluster.AuditMark) (*floor, error) {
	if !c.floor {
		return nil, nil
	}
	f := &floor{manager: m, fed: make(chan error, 1), answers: startAnswers()}
	if err := f.run(c.floorProgram, c.plane); err != nil {
		f.answers.server.Close()
		return nil, fmt.Errorf("start the floor: %w", err)
	}
	ctx, f.ended = context.WithCancel(ctx)
	go func() { f.fed <- f.feed(ctx, c.plane.Audit(), since) }()
	return f, nil
}

// run starts the process.
func (f *floor) run(program string, plane *cluster.ControlPlane) error {
	answers, err := f.answers.kubeconfig(plane.Dir())
	if err != nil {
		return err
	}
	//nolint:noctx // ended by the end of its input
	f.cmd = exec.Command(program, "--kubeconfig="+plane.Kubeconfig(), "--answers="+answers)
	f.cmd.Stdout, f.cmd.Stderr = &f.said, &f.said
	bench.Tie(f.cmd)
	if f.input, err = f.cmd.StdinPipe(); err != nil {
		return err
	}
	return f.cmd.Start()
}

// feed tells the floor what the manager has requested, until ctx ends.
func (f *floor) feed(ctx context.Context, audit *cluster.Audit, since cluster.AuditMark) error {
	lines := json.NewEncoder(f.input)
	for over := false; !over; {
		select {
		case <-ctx.Done():
			over = true // after one more look
		case <-time.After(floorPoll):
		}
		events, next, err := audit.Next(since)
		if err != nil {
			return err
		}
		for _, e := range events.From(f.manager.Agent) {
			if e.IsWrite() && !f.answers.keep(e) {
				continue
			}
			e.Answer = nil
			if err := lines.Encode(e); err != nil {
				return fmt.Errorf("feed the floor: %w", err)
			}
		}
		since = next
	}
	return nil
}

// stop ends the floor when it has made all requests, and returns its CPU seconds.
func (f *floor) stop(say bench.Say) (float64, error) {
	if f == nil {
		return 0, nil
	}
	f.ended()
	err := errors.Join(<-f.fed, f.input.Close(), f.cmd.Wait())
	f.answers.server.Close()
	if err != nil {
		return 0, fmt.Errorf("the floor: %w\n%s", err, f.said.String())
	}
	say("floor: %s", bytes.TrimSpace(f.said.Bytes()))
	state := f.cmd.ProcessState
	return (state.UserTime() + state.SystemTime()).Seconds(), nil
}

// makeFloor builds the floor, where it is asked for.
func (c *comparison) makeFloor(ctx context.Context, dir string) (err error) {
	if c.floor {
		c.floorProgram, err = buildFloor(ctx, dir)
	}
	return err
}
