package measure

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

const (
	endTime   = 20 * time.Second // for an orderly end, before it is killed
	keptLines = 20
)

// Process is a program that runs in the background and writes into a log. Its methods are safe for concurrent use.
type Process struct {
	name   string
	log    string
	cmd    *exec.Cmd
	exited chan struct{} // closed when it has ended
	err    error         // the result; read it after exited is closed
}

// StartProcess starts a program whose output goes to a log. name is used in messages, for example "the manager". env is
// added to this process's own. The caller must call Stop; if this process is killed, the program ends too.
func StartProcess(name, log string, env []string, program string, args ...string) (*Process, error) {
	out, err := os.OpenFile(log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	defer func() { _ = out.Close() }()
	p := &Process{name: name, log: log, exited: make(chan struct{})}
	p.cmd = exec.Command(program, args...) //nolint:noctx // ended in Stop, and by this process's death
	p.cmd.Env = append(os.Environ(), env...)
	p.cmd.Stdout, p.cmd.Stderr = out, out
	Tie(p.cmd)
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	go func() {
		p.err = p.cmd.Wait()
		close(p.exited)
	}()
	return p, nil
}

// While calls f with a context that also ends with the process. Then the error has that, and the end of the log.
func (p *Process) While(ctx context.Context, f func(context.Context) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		select {
		case <-p.exited:
			cancel(errors.Join(fmt.Errorf("%s ended unexpectedly", p.name), p.err))
		case <-ctx.Done():
		}
	}()
	err := f(ctx)
	if err != nil {
		if ctx.Err() != nil {
			err = errors.Join(context.Cause(ctx), err)
		}
		err = errors.Join(err, p.lastWords())
	}
	cancel(nil)
	<-watched
	return err
}

// lastWords returns the end of the log.
func (p *Process) lastWords() error {
	content, err := os.ReadFile(p.log)
	if err != nil {
		return nil //nolint:nilerr // there is nothing to report
	}
	all := strings.Split(strings.TrimSpace(string(content)), "\n")
	return fmt.Errorf("the end of the log of %s:\n  %s", p.name, strings.Join(all[max(0, len(all)-keptLines):], "\n  "))
}

// Exited returns a channel that is closed when the process has ended.
func (p *Process) Exited() <-chan struct{} { return p.exited }

// Signal sends a signal to the process, if it has not ended.
func (p *Process) Signal(sig os.Signal) error {
	if err := p.cmd.Process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("signal %s: %w", p.name, err)
	}
	return nil
}

// Kill ends the process with SIGKILL and returns when it is gone.
func (p *Process) Kill() {
	_ = p.cmd.Process.Kill()
	<-p.exited
}

// Stop ends the process, in an orderly way if it can, and returns when it is gone.
func (p *Process) Stop() { _ = p.End() }

// End is Stop with an error when the process had to be killed. One that is frozen goes on for that.
func (p *Process) End() error {
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	_ = p.cmd.Process.Signal(syscall.SIGCONT)
	select {
	case <-p.exited:
		return nil
	case <-time.After(endTime):
		p.Kill()
		return fmt.Errorf("%s did not end within %s", p.name, endTime)
	}
}

// CPU returns the CPU time that the process and its children took in all. Call it after Stop.
func (p *Process) CPU() time.Duration {
	<-p.exited
	return p.cmd.ProcessState.UserTime() + p.cmd.ProcessState.SystemTime()
}

// PeakMemory returns the most bytes of memory that the process has occupied so far (its peak resident set), and whether the
// system reports that. Call it before Stop.
func (p *Process) PeakMemory() (bytes float64, known bool) {
	content, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	if err != nil {
		return 0, false
	}
	for line := range strings.Lines(string(content)) {
		var kib float64
		if n, _ := fmt.Sscanf(line, "VmHWM: %f kB", &kib); n == 1 {
			return 1024 * kib, true
		}
	}
	return 0, false
}

// FreePort returns an unused TCP port of the loopback interface.
func FreePort() (int, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // is there at once, or fails at once
	if err != nil {
		return 0, err
	}
	address, ok := listener.Addr().(*net.TCPAddr)
	if !ok {
		return 0, errors.Join(errors.New("no TCP address"), listener.Close())
	}
	return address.Port, listener.Close()
}
