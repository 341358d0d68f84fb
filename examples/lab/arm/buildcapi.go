package arm

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/machinist-dev/machinist/examples/lab/cluster"
	"github.com/machinist-dev/machinist/examples/lab/internal/gobuild"
	"github.com/machinist-dev/machinist/examples/lab/internal/progress"
)

const (
	capiModule = "sigs.k8s.io/cluster-api"
	// capiProgram is the name of the built manager, and the start of its user agent.
	capiProgram       = "cluster-api"
	clusterctlProgram = "clusterctl"
)

// BuildCAPI returns the path of Cluster API's manager. It builds it if it is not in the user's cache directory,
// which takes minutes and prints progress. Do not call it from two processes at once: each would build.
func BuildCAPI(ctx context.Context, printf progress.Printf) (string, error) {
	return install(ctx, capiProgram, capiModule, printf)
}

// BuildClusterctl does the same for clusterctl.
func BuildClusterctl(ctx context.Context, printf progress.Printf) (string, error) {
	return install(ctx, clusterctlProgram, capiModule+"/cmd/clusterctl", printf)
}

func install(ctx context.Context, name, source string, printf progress.Printf) (string, error) {
	dir, err := toolDir(ctx, name)
	if err != nil {
		return "", err
	}
	program := filepath.Join(dir, name)
	if _, err := os.Stat(program); err == nil {
		return program, nil
	}
	into, err := os.MkdirTemp(filepath.Dir(dir), ".unfinished-")
	if err != nil {
		return "", err
	}
	defer func() { _ = os.RemoveAll(into) }()
	printf("building %s of Cluster API %s; this happens once and takes a few minutes", name, cluster.ClusterAPIVersion)
	cmd := exec.CommandContext(ctx, "go", "install", "-v", "-trimpath", source+"@"+cluster.ClusterAPIVersion)
	cmd.Dir = into // outside of any module
	cmd.Env = append(os.Environ(), "GOBIN="+into, "GO111MODULE=on", "GOWORK=off", "GOFLAGS=", "CGO_ENABLED=0")
	if err := gobuild.Run(ctx, cmd, name, printf); err != nil {
		return "", err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	// A program with its final name is always complete.
	return program, os.Rename(filepath.Join(into, name), program)
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
