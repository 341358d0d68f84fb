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
	"github.com/machinist-dev/machinist/examples/controlplane/arms"
	"github.com/machinist-dev/machinist/examples/controlplane/bench"
	"github.com/machinist-dev/machinist/examples/controlplane/cluster"
	"github.com/machinist-dev/machinist/fake"
)

const (
	floorPackage = "github.com/machinist-dev/machinist/examples/controlplane/floor"
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
		{Group: infra.Group, Resource: "fakemachines"}, {Group: config.Group, Resource: "fakeconfigs"},
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
}

// startFloor starts the floor of a manager, which began after a mark. It is nil without --floor.
func (c *comparison) startFloor(ctx context.Context, m *arms.Manager, since cluster.AuditMark) (*floor, error) {
	if !c.floor {
		return nil, nil
	}
	f := &floor{manager: m, fed: make(chan error, 1)}
	f.cmd = exec.Command(c.floorProgram, "--kubeconfig="+c.plane.Kubeconfig()) //nolint:noctx // ended by the end of its input
	f.cmd.Stdout, f.cmd.Stderr = &f.said, &f.said
	bench.Tie(f.cmd)
	var err error
	if f.input, err = f.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	if err := f.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start the floor: %w", err)
	}
	ctx, f.ended = context.WithCancel(ctx)
	go func() { f.fed <- f.feed(ctx, c.plane.Audit(), since) }()
	return f, nil
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
			e.Answer, e.Sent = nil, withoutVersion(e.Sent)
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
	if err != nil {
		return 0, fmt.Errorf("the floor: %w\n%s", err, f.said.String())
	}
	say("floor: %s", bytes.TrimSpace(f.said.Bytes()))
	state := f.cmd.ProcessState
	return (state.UserTime() + state.SystemTime()).Seconds(), nil
}

// withoutVersion is a patch that does not expect a version of its object, which has another one when the floor sends it.
func withoutVersion(patch []byte) []byte {
	var merge map[string]any
	var operations []map[string]any
	switch {
	case json.Unmarshal(patch, &merge) == nil:
		if metadata, ok := merge["metadata"].(map[string]any); ok {
			delete(metadata, "resourceVersion")
			delete(metadata, "uid")
		}
		patch, _ = json.Marshal(merge)
	case json.Unmarshal(patch, &operations) == nil:
		kept := []map[string]any{}
		for _, o := range operations {
			if o["op"] != "test" {
				kept = append(kept, o)
			}
		}
		patch, _ = json.Marshal(kept)
	}
	return patch
}

// makeFloor builds the floor, where it is asked for.
func (c *comparison) makeFloor(ctx context.Context, dir string) (err error) {
	if c.floor {
		c.floorProgram, err = buildFloor(ctx, dir)
	}
	return err
}
