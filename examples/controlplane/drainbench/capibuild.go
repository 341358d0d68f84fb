package main

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

	"github.com/machinist-dev/machinist/examples/controlplane/cluster"
)

const (
	// capiProgram is the name of the built manager, and so the beginning of its user agent.
	capiProgram = "cluster-api"
	// capiModule is built by itself and never required: it pins other versions of Kubernetes' modules.
	capiModule = "sigs.k8s.io/cluster-api@" + cluster.ClusterAPIVersion
	aliveEvery = 10 * time.Second
	keptLines  = 20
)

// buildClusterAPI returns the path of Cluster API's manager, after building it if the user's cache directory does not hold it.
func buildClusterAPI(ctx context.Context, say say) (string, error) {
	dir, err := capiDir(ctx)
	if err != nil {
		return "", err
	}
	program := filepath.Join(dir, capiProgram)
	if _, err := os.Stat(program); err == nil {
		return program, nil
	}
	unfinished, err := os.MkdirTemp(filepath.Dir(dir), ".unfinished-")
	if err != nil {
		return "", err
	}
	defer func() { _ = os.RemoveAll(unfinished) }()
	say("building the manager of Cluster API %s; this happens once and takes a few minutes", cluster.ClusterAPIVersion)
	if err := installClusterAPI(ctx, unfinished, say); err != nil {
		return "", err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	// A program with its final name is always complete.
	return program, os.Rename(filepath.Join(unfinished, capiProgram), program)
}

// capiDir is a folder beside the other tools that make builds, so that "make clean" removes it.
func capiDir(ctx context.Context) (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("find a place for Cluster API's manager (set XDG_CACHE_HOME or HOME): %w", err)
	}
	version, err := exec.CommandContext(ctx, "go", "env", "GOVERSION").Output()
	if err != nil {
		return "", fmt.Errorf("go env: %w", err)
	}
	tools := filepath.Join(cache, "machinist", "tools")
	if err := os.MkdirAll(tools, 0o755); err != nil {
		return "", fmt.Errorf("make a place for Cluster API's manager: %w", err)
	}
	return filepath.Join(tools, capiProgram+"-"+cluster.ClusterAPIVersion+"-"+strings.TrimSpace(string(version))), nil
}

func installClusterAPI(ctx context.Context, into string, say say) error {
	cmd := exec.CommandContext(ctx, "go", "install", "-v", "-trimpath", capiModule)
	cmd.Dir = into // outside of any module
	cmd.Env = append(os.Environ(), "GOBIN="+into, "GO111MODULE=on", "GOWORK=off", "GOFLAGS=", "CGO_ENABLED=0")
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = aliveEvery
	stderr, err := cmd.StderrPipe()
	if err != nil {
		return err
	}
	var seen lines
	stop := every(aliveEvery, func(elapsed time.Duration) {
		n, last := seen.progress()
		say("still building Cluster API's manager: %s, %d packages done, last %s", elapsed.Round(time.Second), n, last)
	})
	defer stop()
	if err := cmd.Start(); err != nil {
		return err
	}
	seen.read(stderr)
	if err := cmd.Wait(); err != nil {
		return errors.Join(context.Cause(ctx), fmt.Errorf("go install %s: %w\n%s", capiModule, err, seen.tail()))
	}
	return nil
}

// lines follows the output of a build: one line for each package, and anything else is an error message.
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
