package main

import (
	"context"
	"os"
	"strings"
	"time"
)

const parentPoll = 500 * time.Millisecond

// withGoRun returns a context that also ends when the "go run" that started this program has ended. A "go run" that is killed, or ended
// with SIGTERM, does not end its program, but a user expects that it stops the control plane. A program that was started without "go run",
// which has a work directory and a build cache of that name, continues without its parent, as other programs do.
func withGoRun(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	if path, err := os.Executable(); err != nil || !strings.Contains(path, "go-build") {
		return ctx, cancel
	}
	parent := os.Getppid()
	go func() {
		for os.Getppid() == parent && ctx.Err() == nil {
			time.Sleep(parentPoll)
		}
		cancel()
	}()
	return ctx, cancel
}
