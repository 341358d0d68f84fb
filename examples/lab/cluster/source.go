package cluster

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// labModule is where the sources of the binaries are looked for.
const labModule = "github.com/machinist-dev/machinist/examples/lab"

// SourceVar is the environment variable that can name a folder with other sources of the binaries: a copy of examples/lab/bin
// whose go.mod requires another release of Kubernetes. Without it, and if it is empty, they are those of the checkout.
const SourceVar = "MACHINIST_CONTROLPLANE_SOURCE"

// ErrNoSource is matched when the sources of the control plane's binaries cannot be found.
var ErrNoSource = errors.New("the sources of the control plane's binaries were not found")

// sourceDir is the folder of the sources: that of SourceVar, or else the nested module of the checkout.
func sourceDir(ctx context.Context) (string, error) {
	if dir := os.Getenv(SourceVar); dir != "" {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err != nil {
			return "", fmt.Errorf("%w in the folder that %s names: %w", ErrNoSource, SourceVar, err)
		}
		return dir, nil
	}
	return checkoutDir(ctx)
}

// checkoutDir finds the nested module with the go command rather than with runtime.Caller, which knows no real path in a program that was
// built with -trimpath.
func checkoutDir(ctx context.Context) (string, error) {
	lab, err := goOutput(ctx, "", "list", "-m", "-f", "{{.Dir}}", labModule)
	if err != nil {
		return "", fmt.Errorf("%w: run this inside a checkout of %s: %w", ErrNoSource, labModule, err)
	}
	dir := filepath.Join(lab, "bin")
	if _, err := os.Stat(filepath.Join(dir, "go.mod")); err != nil {
		return "", fmt.Errorf("%w in %s; a module downloaded by the go command does not hold them, "+
			"use a checkout and a replace directive: %w", ErrNoSource, labModule, err)
	}
	return dir, nil
}

// cacheKey is a hash of everything that the binaries depend on, so that a change builds new ones.
func cacheKey(ctx context.Context, source string) (string, error) {
	files, err := sourceFiles(source)
	if err != nil {
		return "", err
	}
	sum := sha256.New()
	for _, name := range files {
		content, err := os.ReadFile(filepath.Join(source, name))
		if err != nil {
			return "", fmt.Errorf("read the sources of the control plane's binaries: %w", err)
		}
		fmt.Fprintf(sum, "%s %d\n%s", filepath.ToSlash(name), len(content), content)
	}
	toolchain, err := goOutput(ctx, source, "env", "GOVERSION", "GOOS", "GOARCH")
	if err != nil {
		return "", err
	}
	all, err := programs(source)
	if err != nil {
		return "", err
	}
	fmt.Fprintf(sum, "%s\n%s\n", toolchain, strings.Join(allFlags(all), "\n"))
	return fmt.Sprintf("%x", sum.Sum(nil))[:20], nil
}

// sourceFiles lists go.mod, go.sum and the Go files below dir, sorted, relative to dir.
func sourceFiles(dir string) ([]string, error) {
	var names []string
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		base := entry.Name()
		if base != "go.mod" && base != "go.sum" && !strings.HasSuffix(base, ".go") {
			return nil
		}
		name, err := filepath.Rel(dir, path)
		names = append(names, name)
		return err
	})
	slices.Sort(names)
	return names, err
}

// goCommand runs the go command in dir, in module mode and without a workspace, whatever the user has set.
func goCommand(ctx context.Context, dir string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GO111MODULE=on", "CGO_ENABLED=0", "GOWORK=off")
	if dir != "" {
		cmd.Env = append(cmd.Env, "GOFLAGS="+withoutModfile(os.Getenv("GOFLAGS")))
	}
	return cmd
}

// withoutModfile takes -modfile out of the user's flags: it is about the user's module, and not about the one in another directory.
func withoutModfile(flags string) string {
	return strings.Join(slices.DeleteFunc(strings.Fields(flags), func(flag string) bool {
		return strings.HasPrefix(strings.TrimLeft(flag, "-"), "modfile=")
	}), " ")
}

func goOutput(ctx context.Context, dir string, args ...string) (string, error) {
	out, err := goCommand(ctx, dir, args...).Output()
	if err == nil {
		return strings.TrimSpace(string(out)), nil
	}
	var exit *exec.ExitError
	if errors.As(err, &exit) && len(exit.Stderr) > 0 {
		return "", fmt.Errorf("go %s: %w: %s", args[0], err, strings.TrimSpace(string(exit.Stderr)))
	}
	return "", fmt.Errorf("go %s: %w", args[0], err)
}
