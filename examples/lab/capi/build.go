package capi

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/machinist-dev/machinist/examples/lab/bench"
	"github.com/machinist-dev/machinist/examples/lab/cluster"
)

const (
	module = "sigs.k8s.io/cluster-api"
	// managerProgram is the name of the built manager, and the start of its user agent.
	managerProgram    = "cluster-api"
	clusterctlProgram = "clusterctl"

	aliveEvery = 10 * time.Second
	keptLines  = 20
)

// BuildManager returns the path of Cluster API's manager. It builds it if it is not in the user's cache directory,
// which takes minutes and prints progress. Do not call it from two processes at once: each would build.
func BuildManager(ctx context.Context, say bench.Say) (string, error) {
	return build(ctx, managerProgram, module, say)
}

// BuildClusterctl does the same for clusterctl.
func BuildClusterctl(ctx context.Context, say bench.Say) (string, error) {
	return build(ctx, clusterctlProgram, module+"/cmd/clusterctl", say)
}

func build(ctx context.Context, name, source string, say bench.Say) (string, error) {
	dir, err := toolDir(ctx, name)
	if err != nil {
		return "", err
	}
	program := filepath.Join(dir, name)
	if _, err := os.Stat(program); err == nil {
		return program, nil
	}
	unfinished, err := os.MkdirTemp(filepath.Dir(dir), ".unfinished-")
	if err != nil {
		return "", err
	}
	defer func() { _ = os.RemoveAll(unfinished) }()
	say("building %s of Cluster API %s; this happens once and takes a few minutes", name, cluster.ClusterAPIVersion)
	if err := install(ctx, unfinished, name, source+"@"+cluster.ClusterAPIVersion, say); err != nil {
		return "", err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	// A program with its final name is always complete.
	return program, os.Rename(filepath.Join(unfinished, name), program)
}

// toolDir is a folder beside the other tools, so that "make clean" removes it.
func toolDir(ctx context.Context, name string) (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("find a place for Cluster API's %s (set XDG_CACHE_HOME or HOME): %w", name, err)
	}
	version, err := exec.CommandContext(ctx, "go", "env", "GOVERSION").Output()
	if err != nil {
		return "", fmt.Errorf("go env: %w", err)
	}
	tools := filepath.Join(cache, "machinist", "tools")
	if err := os.MkdirAll(tools, 0o755); err != nil {
		return "", fmt.Errorf("make a place for Cluster API's %s: %w", name, err)
	}
	return filepath.Join(tools, name+"-"+cluster.ClusterAPIVersion+"-"+strings.TrimSpace(string(version))), nil
}

func install(ctx context.Context, into, name, source string, say bench.Say) error {
	cmd := exec.CommandContext(ctx, "go", "install", "-v", "-trimpath", source)
	cmd.Dir = into // outside of any module
	cmd.Env = append(os.Environ(), "GOBIN="+into, "GO111MODULE=on", "GOWORK=off", "GOFLAGS=", "CGO_ENABLED=0")
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = aliveEvery
	stderr, err := cmd.StderrPipe()
	if err != nil {
		return err
	}
	var seen lines
	stop := bench.Every(aliveEvery, func(elapsed time.Duration) {
		n, last := seen.progress()
		say("still building Cluster API's %s: %s, %d packages done, last %s", name, elapsed.Round(time.Second), n, last)
	})
	defer stop()
	if err := cmd.Start(); err != nil {
		return err
	}
	seen.read(stderr)
	if err := cmd.Wait(); err != nil {
		return errors.Join(context.Cause(ctx), fmt.Errorf("go install %s: %w\n%s", source, err, seen.tail()))
	}
	return nil
}

// lines parses the output of a build: one line per package; other lines are error messages.
type lines struct {
	mu    sync.Mutex
	count int
	kept  []string
}

func (l *lines) read(r io.Reader) {
	scanner := bufio.NewScanner(r)
	for scanner.Scan() {
		l.mu.Lock()
		l.count++
		if l.kept = append(l.kept, scanner.Text()); len(l.kept) > keptLines {
			l.kept = l.kept[1:]
		}
		l.mu.Unlock()
	}
}

func (l *lines) progress() (count int, last string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.count == 0 {
		return 0, "none"
	}
	return l.count, l.kept[len(l.kept)-1]
}

func (l *lines) tail() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Join(l.kept, "\n")
}
