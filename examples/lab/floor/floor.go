package floor

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"time"

	"github.com/machinist-dev/machinist/examples/lab/cluster"
	"github.com/machinist-dev/machinist/examples/lab/measure"
)

// poll is how often the floor gets what a manager has requested.
const poll = 200 * time.Millisecond

// Floor is a process that makes the requests of a manager, and decides nothing.
type Floor struct {
	cmd     *exec.Cmd
	input   io.WriteCloser
	output  bytes.Buffer
	ended   context.CancelFunc
	fed     chan error
	answers *answers
}

// Start starts the floor of a client with a user agent, which began after a mark. The audit log has the bodies of its writes. This program
// calls Child when its first argument is Command. The caller must call Stop.
func Start(ctx context.Context, plane *cluster.ControlPlane, agent string, since cluster.AuditMark) (*Floor, error) {
	f := &Floor{fed: make(chan error, 1), answers: startAnswers()}
	if err := f.run(plane); err != nil {
		f.answers.server.Close()
		return nil, fmt.Errorf("start the floor: %w", err)
	}
	ctx, f.ended = context.WithCancel(ctx)
	go func() { f.fed <- f.feed(ctx, plane.Audit(), agent, since) }()
	return f, nil
}

// run starts the process.
func (f *Floor) run(plane *cluster.ControlPlane) error {
	answers, err := f.answers.kubeconfig(plane.Dir())
	if err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	f.cmd = exec.Command(self, Command, plane.Kubeconfig(), answers) //nolint:noctx // ended by the end of its input
	f.cmd.Stdout, f.cmd.Stderr = &f.output, &f.output
	measure.Tie(f.cmd)
	if f.input, err = f.cmd.StdinPipe(); err != nil {
		return err
	}
	return f.cmd.Start()
}

// feed passes on what the manager has requested, until ctx ends.
func (f *Floor) feed(ctx context.Context, audit *cluster.Audit, agent string, since cluster.AuditMark) error {
	lines := json.NewEncoder(f.input)
	for over := false; !over; {
		select {
		case <-ctx.Done():
			over = true // after one more look
		case <-time.After(poll):
		}
		events, next, err := audit.Next(since)
		if err != nil {
			return err
		}
		for _, e := range events.From(agent) {
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

// Stop ends the floor when it has made all requests, and returns its CPU seconds and its last words.
func (f *Floor) Stop() (cpu float64, words string, err error) {
	f.ended()
	err = errors.Join(<-f.fed, f.input.Close(), f.cmd.Wait())
	f.answers.server.Close()
	words = string(bytes.TrimSpace(f.output.Bytes()))
	if err != nil {
		return 0, words, fmt.Errorf("the floor: %w\n%s", err, words)
	}
	state := f.cmd.ProcessState
	return (state.UserTime() + state.SystemTime()).Seconds(), words, nil
}
