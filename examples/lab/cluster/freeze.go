package cluster

import (
	"errors"
	"fmt"
	"syscall"
)

// ErrNotRunning is matched when a component that is not running is to be frozen or thawed.
var ErrNotRunning = errors.New("the component is not running")

// Freeze stops a component with SIGSTOP, as a computer does that has no time for it. Its sockets stay open: the kernel accepts connections
// that it does not answer. It may still do a little after Freeze has returned, because a signal takes a moment. The component can be
// killed, restarted and stopped as if it ran. If this process ends without Stop, the kernel continues the component, which then ends.
// Errors match ErrUnknownComponent, ErrStopped and ErrNotRunning.
func (cp *ControlPlane) Freeze(c Component) error { return cp.signal("freeze", c, (*process).freeze) }

// Thaw continues a frozen component with SIGCONT. It does nothing for one that is not frozen. Errors are those of Freeze.
func (cp *ControlPlane) Thaw(c Component) error { return cp.signal("thaw", c, (*process).thaw) }

func (cp *ControlPlane) signal(verb string, c Component, send func(*process) error) error {
	cp.mu.Lock()
	defer cp.mu.Unlock()
	if !cp.has(c) {
		return fmt.Errorf("%s %q: %w", verb, c, ErrUnknownComponent)
	}
	if cp.running == nil {
		return fmt.Errorf("%s %s: %w", verb, c, ErrStopped)
	}
	p, ok := cp.running[c]
	if !ok {
		return fmt.Errorf("%s %s: %w", verb, c, ErrNotRunning)
	}
	if err := send(p); err != nil {
		return fmt.Errorf("%s %s: %w", verb, c, err)
	}
	return nil
}

func (p *process) freeze() error { return p.signal(syscall.SIGSTOP) }

func (p *process) thaw() error { return p.signal(syscall.SIGCONT) }

// signal sends a signal to a process that has not ended.
func (p *process) signal(send syscall.Signal) error {
	select {
	case <-p.ended:
		return fmt.Errorf("%w: %w", ErrNotRunning, p.death())
	default:
		return p.cmd.Process.Signal(send)
	}
}
