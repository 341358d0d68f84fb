package cluster

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
)

// process is one run of a component.
type process struct {
	component Component
	logFile   string
	cmd       *exec.Cmd
	ended     chan struct{} // closed when the process is gone
	err       error         // how it ended; to be read after ended is closed
	ending    atomic.Bool   // set before this package kills it
}

// startProcess runs a component in the background. What it prints is appended to its log. onDeath is called when it ends although
// this process has not killed it.
func startProcess(c Component, cmd *exec.Cmd, logFile string, onDeath func(error)) (*process, error) {
	out, err := os.OpenFile(logFile, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the log of %s: %w", c, err)
	}
	defer func() { _ = out.Close() }()
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", c, err)
	}
	p := &process{component: c, logFile: logFile, cmd: cmd, ended: make(chan struct{})}
	go func() {
		p.err = cmd.Wait()
		close(p.ended)
		if !p.ending.Load() {
			onDeath(p.death())
		}
	}()
	return p, nil
}

// kill ends the process with SIGKILL, which leaves it no time for anything, and returns when it is gone. A frozen process needs no SIGCONT
// for that.
func (p *process) kill() {
	p.ending.Store(true)
	_ = p.cmd.Process.Kill()
	<-p.ended
}

// death describes how the process ended, with the end of its log, which mostly has the reason.
func (p *process) death() error {
	how := "ended"
	if exit, ok := errors.AsType[*exec.ExitError](p.err); ok {
		how = "ended with " + exit.String()
	}
	tail := logTail(p.logFile)
	if strings.Contains(tail, syscall.EADDRINUSE.Error()) {
		return fmt.Errorf("%s %s: %w; the end of its log:\n%s", p.component, how, errPortTaken, tail)
	}
	return fmt.Errorf("%s %s; the end of its log:\n%s", p.component, how, tail)
}

// errPortTaken is matched when a component ended because its port was in use.
var errPortTaken = errors.New("its port is in use")

const (
	tailBytes = 8 << 10
	tailLines = 20
)

// logTail returns the last lines of a log, indented.
func logTail(path string) string {
	file, err := os.Open(path)
	if err != nil {
		return fmt.Sprintf("  (no log %s: %v)", filepath.Base(path), err)
	}
	defer func() { _ = file.Close() }()
	if size, err := file.Seek(0, io.SeekEnd); err == nil {
		_, _ = file.Seek(max(0, size-tailBytes), io.SeekStart)
	}
	content, _ := io.ReadAll(file)
	content = bytes.TrimSpace(content)
	if len(content) == 0 {
		return "  (it is empty)"
	}
	lines := strings.Split(string(content), "\n")
	lines = lines[max(0, len(lines)-tailLines):]
	return "  " + strings.Join(lines, "\n  ")
}
