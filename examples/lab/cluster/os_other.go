//go:build !unix

package cluster

import (
	"context"
	"errors"
	"os/exec"
	"syscall"
)

// signal is a signal of this system, which has none that stop a process.
type signal = syscall.Signal

const (
	signalStop     signal = 0
	signalContinue signal = 0
)

func ownGroup(*exec.Cmd) {}

// lockFile refuses: without inherited pipes no promise of this package could be kept.
func lockFile(context.Context, string, say) (func(), error) {
	return nil, errors.New("a control plane can be run on Unix only")
}
