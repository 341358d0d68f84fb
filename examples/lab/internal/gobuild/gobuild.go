// Package gobuild runs long builds of the go command, and reports their progress.
package gobuild

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"

	"github.com/machinist-dev/machinist/examples/lab/internal/progress"
)

const (
	// aliveEvery is the interval of progress lines during a build.
	aliveEvery = 10 * time.Second
	// stopWait is how long the go command may take to stop and to remove its work directory.
	stopWait  = 20 * time.Second
	keptLines = 30
)

// Run runs a go command with -v, because the names of compiled packages show the progress, and prints a line every ten seconds. what names
// the program that is built. It ends with ctx, or with this process.
func Run(ctx context.Context, cmd *exec.Cmd, what string, printf progress.Printf) error {
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = stopWait
	stderr, err := cmd.StderrPipe()
	if err != nil {
		return err
	}
	var seen compiled
	stop := Every(aliveEvery, func(elapsed time.Duration) {
		printf("still building %s: %s, %s", what, elapsed.Round(time.Second), &seen)
	})
	defer stop()
	if err := runTied(cmd, func() { seen.read(stderr) }); err != nil {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return fmt.Errorf("%s in %s: %w\n%s", strings.Join(cmd.Args, " "), cmd.Dir, err, seen.rest())
	}
	return nil
}

// compiled parses the output of "go build -v": one line per compiled package or downloaded module; other lines are
// error messages.
type compiled struct {
	mu    sync.Mutex
	count int
	last  string
	tail  []string
}

func (c *compiled) read(r io.Reader) {
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		c.mu.Lock()
		c.count++
		c.last = lines.Text()
		if c.tail = append(c.tail, c.last); len(c.tail) > keptLines {
			c.tail = c.tail[1:]
		}
		c.mu.Unlock()
	}
}

// String returns the progress of the build in one line.
func (c *compiled) String() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.count == 0 {
		return "nothing compiled yet"
	}
	return fmt.Sprintf("%d packages done, last %s", c.count, c.last)
}

func (c *compiled) rest() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return strings.Join(c.tail, "\n")
}

// Every calls f with the elapsed time, from one goroutine, until stop is called. No call begins after that.
func Every(interval time.Duration, f func(elapsed time.Duration)) (stop func()) {
	start, done := time.Now(), make(chan struct{})
	var group sync.WaitGroup
	group.Go(func() {
		ticker := time.NewTicker(interval)
		defer ticker.Stop()
		for {
			select {
			case <-done:
				return
			case <-ticker.C:
				f(time.Since(start))
			}
		}
	})
	return func() { close(done); group.Wait() }
}
