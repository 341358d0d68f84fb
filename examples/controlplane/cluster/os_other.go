//go:build !unix

package cluster

import (
	"context"
	"errors"
	"os/exec"
)

func ownGroup(*exec.Cmd) {}

// lockFile refuses: without inherited pipes no promise of this package could be kept.
func lockFile(context.Context, string, say) (func(), error) {
	return nil, errors.New("a control plane can be run on Unix only")
}
