package cluster

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/machinist-dev/machinist/examples/lab/internal/gobuild"
	"github.com/machinist-dev/machinist/examples/lab/internal/progress"
)

// BuildKubelet is Build for the kubelet of a machine with this computer's architecture, whose release is that of the control plane. It
// returns the path, which is another one for another release or toolchain.
func BuildKubelet(ctx context.Context, log io.Writer) (string, error) {
	printf := progress.New(log, "controlplane")
	built, err := buildWith(ctx, printf)
	if err != nil {
		return "", err
	}
	dir := filepath.Dir(built.ControlPlane)
	unlock, err := lockFile(ctx, filepath.Join(filepath.Dir(dir), "lock"), printf)
	if err != nil {
		return "", err
	}
	defer unlock()
	path := filepath.Join(dir, "kubelet")
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	scratch, err := os.MkdirTemp(filepath.Dir(dir), buildPrefix)
	if err != nil {
		return "", err
	}
	defer func() { _ = os.RemoveAll(scratch) }()
	out := filepath.Join(scratch, "kubelet")
	if err := buildKubeletInto(ctx, out, scratch, printf); err != nil {
		return "", fmt.Errorf("build the kubelet: %w", err)
	}
	return path, os.Rename(out, path)
}

// buildKubeletInto builds the program of Kubernetes itself with the requirements of the nested module.
func buildKubeletInto(ctx context.Context, out, scratch string, printf progress.Printf) error {
	source, err := sourceDir(ctx)
	if err != nil {
		return err
	}
	all, err := programs(source)
	if err != nil {
		return err
	}
	printf("building a kubelet; this happens once and takes a few minutes")
	controlPlane := all[0] // its release is that of the kubelet
	args := buildArgs(controlPlane, out)
	args[len(args)-1] = "k8s.io/kubernetes/cmd/kubelet"
	cmd := goCommand(ctx, source, args...)
	cmd.Env = append(cmd.Env, "GOTMPDIR="+scratch)
	return gobuild.Run(ctx, cmd, "kubelet", printf)
}
