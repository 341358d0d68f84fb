package cluster

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// The pipes' other ends are in ../bin/lifeline, which another module cannot import; these two and the
// numbers of the descriptors must stay the same there.
const (
	lifelineEnv  = "MACHINIST_LIFELINE=1"
	sweepMarker  = "machinist-controlplane"
	sweepTimeout = 30 * time.Second
)

// lifeline is how the kernel notifies the components that this process is gone, and the sweeper that the
// components are gone too. Nothing is ever written to either pipe.
type lifeline struct {
	alive, aliveEnd *os.File // components read alive; only this process holds aliveEnd
	last, lastEnd   *os.File // the sweeper reads last; this process and all components hold lastEnd
	sweeper         *exec.Cmd
	dir             string
}

// newLifeline makes the pipes and, unless the directory is to be kept, starts the sweeper for it.
func newLifeline(dir, controlPlaneBinary string, keep bool) (*lifeline, error) {
	l := &lifeline{dir: dir}
	var err error
	if l.alive, l.aliveEnd, err = os.Pipe(); err != nil {
		return nil, fmt.Errorf("make a pipe: %w", err)
	}
	if l.last, l.lastEnd, err = os.Pipe(); err != nil {
		return nil, errors.Join(fmt.Errorf("make a pipe: %w", err), l.alive.Close(), l.aliveEnd.Close())
	}
	if keep {
		return l, nil
	}
	if err := os.WriteFile(filepath.Join(dir, sweepMarker), nil, 0o600); err != nil {
		return nil, errors.Join(err, l.close())
	}
	sweeper := exec.Command(controlPlaneBinary, "sweep", dir)
	sweeper.Dir = string(filepath.Separator)
	sweeper.ExtraFiles = []*os.File{l.last}
	ownGroup(sweeper)
	if err := sweeper.Start(); err != nil {
		return nil, errors.Join(fmt.Errorf("start the sweeper: %w", err), l.close())
	}
	l.sweeper = sweeper
	return l, nil
}

// tie makes a component that is not started yet hang on the lifeline.
func (l *lifeline) tie(cmd *exec.Cmd) {
	cmd.Stdin = l.alive
	cmd.ExtraFiles = []*os.File{l.lastEnd}
	cmd.Env = append(cmd.Env, lifelineEnv)
	ownGroup(cmd)
}

// close lets go of the pipes, so that the sweeper deletes the directory, and waits for that. All
// components have ended.
func (l *lifeline) close() error {
	err := errors.Join(l.aliveEnd.Close(), l.alive.Close(), l.lastEnd.Close(), l.last.Close())
	if l.sweeper == nil {
		return err
	}
	timer := time.AfterFunc(sweepTimeout, func() { _ = l.sweeper.Process.Kill() })
	defer timer.Stop()
	// If the sweeper was killed, this process does its work.
	_ = l.sweeper.Wait()
	return errors.Join(err, os.RemoveAll(l.dir))
}
