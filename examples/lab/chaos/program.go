package chaos

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"github.com/machinist-dev/machinist/examples/lab/measure"
)

// Times of a Program.
const (
	// backOff is the pause before a program that has ended by itself starts again.
	backOff = time.Second
	// endTime is for an orderly end, before it is killed.
	endTime = 20 * time.Second
)

// Program is a program that runs until it is stopped: when it ends by itself, it starts again after a second, as in a container. Its
// methods are safe for concurrent use. It ends with this process, also while it is frozen.
type Program struct {
	name, log, path string
	args            []string

	mu      sync.Mutex
	run     *run // nil while it is not to run
	endings int
}

// run is the time from one start to its end.
type run struct {
	cmd   *exec.Cmd
	ended chan struct{}
}

// NewProgram returns a program that is not started yet. The name is for messages; what it prints is appended to the file log.
func NewProgram(name, log, path string, args ...string) *Program {
	return &Program{name: name, log: log, path: path, args: args}
}

// Start starts the program if it is not running.
func (p *Program) Start() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.run != nil {
		return nil
	}
	return p.start()
}

// start is called with the lock.
func (p *Program) start() error {
	out, err := os.OpenFile(p.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("start %s: %w", p.name, err)
	}
	defer func() { _ = out.Close() }()
	r := &run{cmd: exec.Command(p.path, p.args...), ended: make(chan struct{})} //nolint:noctx // ended by Stop, and by this process's death
	r.cmd.Stdout, r.cmd.Stderr = out, out
	measure.Tie(r.cmd)
	if err := r.cmd.Start(); err != nil {
		return fmt.Errorf("start %s: %w", p.name, err)
	}
	p.run = r
	go func() {
		_ = r.cmd.Wait() // how it ended is in its log
		close(r.ended)
		p.hasEnded(r)
	}()
	return nil
}

// hasEnded starts the program again if its end was not asked for.
func (p *Program) hasEnded(r *run) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.run != r {
		return
	}
	p.endings++
	time.AfterFunc(backOff, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.run == r {
			_ = p.start() // it has started before
		}
	})
}

// Endings returns how often the program has ended although neither Kill nor Stop ended it.
func (p *Program) Endings() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.endings
}

// Kill ends the program with SIGKILL and returns when it is gone. It does nothing for one that is not running.
func (p *Program) Kill() {
	if r := p.take(); r != nil {
		_ = r.cmd.Process.Kill()
		<-r.ended
	}
}

// Stop ends the program in an orderly way, within 20 seconds, and returns when it is gone. One that is frozen goes on for that. An error
// says that it had to be killed.
func (p *Program) Stop() error {
	r := p.take()
	if r == nil {
		return nil
	}
	_ = r.cmd.Process.Signal(syscall.SIGTERM)
	_ = r.cmd.Process.Signal(syscall.SIGCONT)
	timer := time.NewTimer(endTime)
	defer timer.Stop()
	select {
	case <-r.ended:
		return nil
	case <-timer.C:
		_ = r.cmd.Process.Kill()
		<-r.ended
		return fmt.Errorf("%s did not end within %s", p.name, endTime)
	}
}

// take has the program not start again.
func (p *Program) take() *run {
	p.mu.Lock()
	defer p.mu.Unlock()
	r := p.run
	p.run = nil
	return r
}

// Freeze stops the program with SIGSTOP until Thaw. It does nothing for one that is not running, also when it is about to start again.
func (p *Program) Freeze() error { return p.signal("freeze", syscall.SIGSTOP) }

// Thaw continues the program with SIGCONT. It does nothing for one that runs or does not run.
func (p *Program) Thaw() error { return p.signal("thaw", syscall.SIGCONT) }

func (p *Program) signal(verb string, send os.Signal) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.run == nil {
		return nil
	}
	if err := p.run.cmd.Process.Signal(send); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("%s %s: %w", verb, p.name, err)
	}
	return nil
}
