package chaos

import (
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/machinist-dev/machinist/examples/lab/measure"
)

// backOff is the pause before a program that has ended by itself starts again.
const backOff = time.Second

// Program is a program that runs until it is stopped: when it ends by itself, it starts again after a second, as in a container. Its
// methods are safe for concurrent use. It ends with this process, also while it is frozen.
type Program struct {
	name, log, path string
	args            []string

	mu      sync.Mutex
	run     *measure.Process // nil while it is not to run
	endings int
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
	r, err := measure.StartProcess(p.name, p.log, nil, p.path, p.args...)
	if err != nil {
		return err
	}
	p.run = r
	go func() {
		<-r.Exited() // how it ended is in its log
		p.hasEnded(r)
	}()
	return nil
}

// hasEnded starts the program again if its end was not asked for.
func (p *Program) hasEnded(r *measure.Process) {
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
		r.Kill()
	}
}

// Stop ends the program in an orderly way, within 20 seconds, and returns when it is gone. One that is frozen goes on for that. An error
// reports that it had to be killed.
func (p *Program) Stop() error {
	if r := p.take(); r != nil {
		return r.End()
	}
	return nil
}

// take has the program not start again.
func (p *Program) take() *measure.Process {
	p.mu.Lock()
	defer p.mu.Unlock()
	r := p.run
	p.run = nil
	return r
}

// Freeze stops the program with SIGSTOP until Thaw. It does nothing for one that is not running, also when it is about to start again.
func (p *Program) Freeze() error { return p.signal(syscall.SIGSTOP) }

// Thaw continues the program with SIGCONT. It does nothing for one that runs or does not run.
func (p *Program) Thaw() error { return p.signal(syscall.SIGCONT) }

func (p *Program) signal(sig os.Signal) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.run == nil {
		return nil
	}
	return p.run.Signal(sig)
}
