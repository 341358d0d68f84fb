package main

import (
	"context"
	"os"
	"strings"
	"time"
)

const parentPoll = 500 * time.Millisecond

// goRun describes the "go run" that started this program, if there is one.
type goRun struct {
	parent  int
	present bool // false when this program was not started by "go run"
}

// findGoRun recognises the directories from which "go run" starts programs: the go command's work directory and its
// build cache.
func findGoRun() goRun {
	path, err := os.Executable()
	if err != nil {
		return goRun{}
	}
	cache := os.Getenv("GOCACHE")
	if !strings.Contains(path, "go-build") && (cache == "" || !strings.HasPrefix(path, cache)) {
		return goRun{}
	}
	return goRun{parent: os.Getppid(), present: true}
}

func (g goRun) ended() bool { return g.present && os.Getppid() != g.parent }

// endWith returns a context that also ends when the "go run" that started this program has ended. A "go run" that is
// killed, or ended with SIGTERM, does not end its program, but a user expects that it stops the control plane. A
// program that was started without "go run" continues without its parent, as other programs do.
func (g goRun) endWith(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	if !g.present {
		return ctx, cancel
	}
	go func() {
		ticker := time.NewTicker(parentPoll)
		defer ticker.Stop()
		for !g.ended() {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
			}
		}
		cancel()
	}()
	return ctx, cancel
}
