package arm

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/machinist-dev/machinist/examples/lab/cluster"
	"github.com/machinist-dev/machinist/examples/lab/internal/gobuild"
	"github.com/machinist-dev/machinist/examples/lab/internal/progress"
	"github.com/machinist-dev/machinist/examples/lab/measure"
)

// GardenerModule is the release that peers/gardener requires. Its CRDs are at GardenerCRDs.
const (
	GardenerModule = "github.com/gardener/machine-controller-manager@v0.60.0"
	GardenerCRDs   = "kubernetes/crds/*.yaml"
)

// buildGardener builds the nested module peers/gardener, which has Kubernetes' modules in the versions of that release.
func buildGardener(ctx context.Context, dir string, printf progress.Printf) (string, error) {
	lab, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", "github.com/machinist-dev/machinist/examples/lab").Output()
	if err != nil {
		return "", errors.Join(context.Cause(ctx), fmt.Errorf("find the folder of the laboratory: %w", err))
	}
	program := filepath.Join(dir, Gardener)
	cmd := exec.CommandContext(ctx, "go", "build", "-v", "-o", program, ".")
	cmd.Dir = filepath.Join(strings.TrimSpace(string(lab)), "peers", Gardener)
	return program, gobuild.Run(ctx, cmd, Gardener, printf)
}

// startGardener starts one of the two programs of Gardener; the first flag is its name.
func startGardener(program string, plane *cluster.ControlPlane, port int, flags []string) (*measure.Process, error) {
	log := filepath.Join(plane.Dir(), fmt.Sprintf("%s-%d.log", Gardener, port))
	all := append(slices.Clone(flags), "--target-kubeconfig="+plane.Kubeconfig(), "--control-kubeconfig="+plane.Kubeconfig(),
		"--namespace=default", "--address=127.0.0.1", fmt.Sprintf("--port=%d", port), "--profiling", "--leader-elect=false")
	return measure.StartProcess("Gardener's "+flags[0], log, nil, program, all...)
}
