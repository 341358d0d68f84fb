package main

import (
	"context"
	"os"
	"strings"
	"time"
)

const parentPoll = 500 * time.Millisecond

// goRun is what this program knows about a "go run" that started it.
type goRun struct {
	parent  int
	present bool // false when this program was not started by "go run"
}

// findGoRun recognises the places from which "go run" starts what it has built: the go command's work directory
// and its build cache.
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
// killed, or asked to end with SIGTERM, leaves its program running, which would surprise anybody who thinks to have
// stopped the control plane. A program that was built and started by itself runs on without its parent, as any
// other would.
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
