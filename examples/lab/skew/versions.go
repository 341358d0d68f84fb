package skew

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/version"
)

// Modules whose versions are measured.
const (
	kubernetes        = "k8s.io/kubernetes"
	clientGo          = "k8s.io/client-go"
	controllerRuntime = "sigs.k8s.io/controller-runtime"
)

// goMod is what "go mod edit -json" prints, as far as it matters here.
type goMod struct {
	Module  struct{ Path string }
	Go      string
	Require []struct{ Path, Version string }
	Replace []struct {
		Old, New struct{ Path, Version string }
	}
	Godebug []struct{ Key, Value string }
}

// version of a requirement, "" without one.
func (m goMod) version(path string) string {
	for _, r := range m.Require {
		if r.Path == path {
			return r.Version
		}
	}
	return ""
}

// nestedModule is the go.mod of the control plane's programs for another release of Kubernetes, before "go mod tidy": k8s.io/kubernetes
// replaces its staging modules with folders that only its own repository has, and these are the same modules as published. pinned is the
// go.mod of this repository, and release that of k8s.io/kubernetes.
func nestedModule(pinned, release goMod, v *version.Version) (string, error) {
	var out strings.Builder
	fmt.Fprintf(&out, "module %s\n\ngo %s\n", pinned.Module.Path, pinned.Go)
	for _, setting := range release.Godebug {
		fmt.Fprintf(&out, "\ngodebug %s=%s\n", setting.Key, setting.Value)
	}
	fmt.Fprintf(&out, "\nrequire %s v%s\n\nreplace (\n", kubernetes, v)
	staged := 0
	for _, r := range release.Replace {
		if strings.HasPrefix(r.New.Path, "./staging/") {
			fmt.Fprintf(&out, "\t%s => %s v0.%d.%d\n", r.Old.Path, r.Old.Path, v.Minor(), v.Patch())
			staged++
		}
	}
	if staged == 0 {
		return "", fmt.Errorf("%s v%s replaces no module of its staging folder: its go.mod is not as this program expects", kubernetes, v)
	}
	return out.String() + ")\n", nil
}

// isMinor accepts two numbers with a dot between them.
func isMinor(text string) bool {
	parsed, err := version.ParseGeneric(text)
	return err == nil && len(parsed.Components()) == 2
}

// newest returns the newest release of a minor version, and an error that names the minor versions that there are. Versions before a
// release, such as v1.37.0-rc.1, do not count.
func newest(module string, versions []string, minor string) (*version.Version, error) {
	var found *version.Version
	minors := map[string]bool{}
	for _, text := range versions {
		v, err := version.ParseSemantic(text)
		if err != nil || v.PreRelease() != "" || v.BuildMetadata() != "" {
			continue
		}
		name := fmt.Sprintf("%d.%d", v.Major(), v.Minor())
		minors[name] = true
		if name == minor && (found == nil || found.LessThan(v)) {
			found = v
		}
	}
	if found == nil {
		return nil, fmt.Errorf("the module proxy serves no release %s of %s, only of %s", minor, module,
			strings.Join(slices.Sorted(maps.Keys(minors)), ", "))
	}
	return found, nil
}

// goCommand runs the go command in dir, whatever module or workspace the user has set. It ends with ctx, as orderly as it can.
func goCommand(ctx context.Context, dir string, env []string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = dir
	cmd.Env = slices.Concat(os.Environ(), []string{"GOFLAGS=-buildvcs=false", "GOWORK=off", "GO111MODULE=on"}, env)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = gracePeriod
	return cmd
}

// goJSON decodes what a go command prints.
func goJSON(ctx context.Context, dir string, into any, args ...string) error {
	out, err := goOutput(ctx, dir, args...)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(out, into); err != nil {
		return fmt.Errorf("go %s: %w", strings.Join(args, " "), err)
	}
	return nil
}

// goOutput returns what a go command prints. Its errors have what the command prints.
func goOutput(ctx context.Context, dir string, args ...string) ([]byte, error) {
	out, err := goCommand(ctx, dir, nil, args...).Output()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		return nil, fmt.Errorf("go %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(string(exit.Stderr)))
	}
	return out, err
}

// served returns the newest release of a minor version that the module proxy serves.
func served(ctx context.Context, dir, module, minor string) (*version.Version, error) {
	var listed struct{ Versions []string }
	if err := goJSON(ctx, dir, &listed, "list", "-mod=readonly", "-m", "-versions", "-json", module); err != nil {
		return nil, err
	}
	return newest(module, listed.Versions, minor)
}

// published returns the go.mod of a version of a module.
func published(ctx context.Context, dir, module string, v *version.Version) (goMod, error) {
	var downloaded struct{ GoMod string }
	var mod goMod
	if err := goJSON(ctx, dir, &downloaded, "mod", "download", "-json", fmt.Sprintf("%s@v%s", module, v)); err != nil {
		return mod, err
	}
	err := goJSON(ctx, dir, &mod, "mod", "edit", "-json", downloaded.GoMod)
	return mod, err
}
