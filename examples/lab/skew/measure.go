package skew

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/version"

	"github.com/machinist-dev/machinist/examples/lab/cluster"
	"github.com/machinist-dev/machinist/examples/lab/internal/progress"
)

// The modules below the root: the laboratory, and the control plane's programs.
const (
	root   = "github.com/machinist-dev/machinist"
	lab    = "examples/lab"
	nested = lab + "/bin"
)

// server is a control plane to measure against.
type server struct {
	version *version.Version
	// source is the folder of the module that its programs are built from.
	source string
}

// library is the module with one version of controller-runtime and of the Kubernetes modules.
type library struct {
	runtime, kubernetes string
	dir                 string
	// pinned is the checkout as it is.
	pinned bool
}

// measurement has the places and the progress of one run.
type measurement struct {
	root, work string
	pinned     goMod
	servers    []server
	log        io.Writer
	printf     progress.Printf
}

// newMeasurement makes the folder for copies. The caller calls remove.
func newMeasurement(ctx context.Context, log io.Writer) (*measurement, error) {
	checkout, err := goOutput(ctx, ".", "list", "-m", "-f", "{{.Dir}}", root)
	if err != nil {
		return nil, err
	}
	m := &measurement{root: strings.TrimSpace(string(checkout)), log: log, printf: progress.New(log, "skew")}
	if err := goJSON(ctx, m.root, &m.pinned, "mod", "edit", "-json"); err != nil {
		return nil, err
	}
	if _, err := os.Stat(filepath.Join(m.root, filepath.FromSlash(nested), "go.mod")); err != nil {
		return nil, fmt.Errorf("run this in a checkout: %w", err)
	}
	m.work, err = os.MkdirTemp("", "machinist-skew-")
	return m, err
}

func (m *measurement) remove() { _ = os.RemoveAll(m.work) }

// makeServers builds the control planes one after the other.
func (m *measurement) makeServers(ctx context.Context, minors []string) error {
	for _, minor := range minors {
		v, err := served(ctx, m.work, kubernetes, minor)
		if err != nil {
			return err
		}
		source, err := m.nestedSource(ctx, v)
		if err != nil {
			return fmt.Errorf("take the programs of Kubernetes v%s: %w", v, err)
		}
		m.printf("the control plane of Kubernetes v%s", v)
		built, err := cluster.BuildFrom(ctx, source, m.log)
		if err != nil {
			return err
		}
		m.printf("Kubernetes v%s is in %s", v, filepath.Dir(built.ControlPlane))
		m.servers = append(m.servers, server{version: v, source: source})
	}
	return nil
}

// nestedSource returns the folder of the programs' sources for a release: that of the checkout for the release that it requires, else a
// copy with another go.mod.
func (m *measurement) nestedSource(ctx context.Context, v *version.Version) (string, error) {
	ours := filepath.Join(m.root, filepath.FromSlash(nested))
	var pinned goMod
	if err := goJSON(ctx, ours, &pinned, "mod", "edit", "-json"); err != nil {
		return "", err
	}
	if pinned.version(kubernetes) == "v"+v.String() {
		return ours, nil
	}
	release, err := published(ctx, m.work, kubernetes, v)
	if err != nil {
		return "", err
	}
	text, err := nestedModule(pinned, release, v)
	if err != nil {
		return "", err
	}
	dir := filepath.Join(m.work, "kubernetes-"+v.String())
	if err := os.CopyFS(dir, withoutGit{os.DirFS(ours)}); err != nil {
		return "", err
	}
	// kwok requires the minor version of Kubernetes that it was written for. It is a client here, so that of the checkout will do.
	err = errors.Join(os.WriteFile(filepath.Join(dir, "go.mod"), []byte(text), 0o600), os.Remove(filepath.Join(dir, "go.sum")),
		os.RemoveAll(filepath.Join(dir, "kwok")))
	if err != nil {
		return "", err
	}
	_, err = goOutput(ctx, dir, "mod", "tidy")
	return dir, err
}

// makeRows measures each controller-runtime against each server. Without minors it takes the checkout only.
func (m *measurement) makeRows(ctx context.Context, minors []string) ([]row, error) {
	ours := library{runtime: m.pinned.version(controllerRuntime), kubernetes: m.pinned.version(clientGo), dir: m.root, pinned: true}
	if len(minors) == 0 {
		minors = []string{minorOf(ours.runtime)}
	}
	var rows []row
	for _, minor := range minors {
		lib := ours
		if minor != minorOf(ours.runtime) {
			var err error
			if lib, err = m.copyWith(ctx, minor); err != nil {
				return nil, fmt.Errorf("make a copy with controller-runtime %s: %w", minor, err)
			}
		}
		r, err := m.measure(ctx, lib)
		if err != nil {
			return nil, err
		}
		rows = append(rows, r)
	}
	return rows, nil
}

// copyWith returns a copy of the checkout that requires the newest release of a minor version of controller-runtime, and the newest of
// the minor version of Kubernetes that this one requires.
func (m *measurement) copyWith(ctx context.Context, minor string) (library, error) {
	v, err := served(ctx, m.work, controllerRuntime, minor)
	if err != nil {
		return library{}, err
	}
	requires, err := published(ctx, m.work, controllerRuntime, v)
	if err != nil {
		return library{}, err
	}
	release, err := served(ctx, m.work, clientGo, minorOf(requires.version(clientGo)))
	if err != nil {
		return library{}, err
	}
	dir := filepath.Join(m.work, "controller-runtime-"+v.String())
	if err := os.CopyFS(dir, withoutGit{os.DirFS(m.root)}); err != nil {
		return library{}, err
	}
	get := []string{"get", fmt.Sprintf("%s@v%s", controllerRuntime, v)}
	for _, module := range []string{"api", "apiextensions-apiserver", "apimachinery", "client-go", "kubectl"} {
		get = append(get, fmt.Sprintf("k8s.io/%s@v%s", module, release))
	}
	for _, module := range []string{dir, filepath.Join(dir, filepath.FromSlash(lab))} {
		for _, args := range [][]string{get, {"mod", "tidy"}} {
			if _, err := goOutput(ctx, module, args...); err != nil {
				return library{}, err
			}
		}
	}
	// Other requirements can raise what was asked for, so the table has what is built.
	var mod goMod
	err = goJSON(ctx, dir, &mod, "mod", "edit", "-json")
	return library{runtime: mod.version(controllerRuntime), kubernetes: mod.version(clientGo), dir: dir}, err
}

// measure runs all tests of a row.
func (m *measurement) measure(ctx context.Context, lib library) (row, error) {
	r := row{library: lib}
	m.printf("controller-runtime %s, Kubernetes modules %s: the root module", lib.runtime, lib.kubernetes)
	var err error
	if r.unit, err = m.test(ctx, lib.dir, nil, "-skip", pinnedTests, "./..."); err != nil {
		return r, err
	}
	for _, s := range m.servers {
		if len(r.unit.broken) > 0 {
			r.ends = append(r.ends, outcome{})
			continue
		}
		m.printf("controller-runtime %s: end to end on Kubernetes v%s", lib.runtime, s.version)
		o, err := m.test(ctx, filepath.Join(lib.dir, filepath.FromSlash(lab)), []string{cluster.SourceVar + "=" + s.source},
			"-count=1", "-tags=e2e", "-run", "^("+strings.Join(endToEnd(), "|")+")$", "./e2e")
		if err != nil {
			return r, err
		}
		r.ends = append(r.ends, o.wanting(endToEnd()))
	}
	return r, nil
}

// pinnedTests are those of the root that are about the versions that are required: what the README names, and how much is linked.
const pinnedTests = "^(TestREADME|TestLinkedPackages)$"

// endToEnd are the tests that run on each control plane: the table of what the fake store has in common with an API server, one life of
// a Machine, a set and a rollout, CRDs, drains, rights and a real kubelet.
func endToEnd() []string {
	return []string{
		"TestConformanceOfTheFakeStoreAndTheRealControlPlane",
		"TestAMachineLivesAndDiesOnARealControlPlane",
		"TestASetIsScaledAndDeletedOnARealControlPlane",
		"TestADeploymentRollsAndGoesBackOnARealControlPlane",
		"TestBadObjectsOfOurCRDsAreRefusedWithTheReason",
		"TestDrainctlOnARealControlPlane",
		"TestE2EADeletionObeysDrainRulesAndWaitsForVolumes",
		"TestE2EThePrintedRightsAreExactlyEnough",
		"TestE2EAMachineBootsARealKubelet",
	}
}

// test runs "go test" and returns its outcome. Tests that fail are no error.
func (m *measurement) test(ctx context.Context, dir string, env []string, args ...string) (outcome, error) {
	cmd := goCommand(ctx, dir, append(slices.Clone(env), "CGO_ENABLED=0"), append([]string{"test", "-json", "-timeout", "40m"}, args...)...)
	out, err := cmd.StdoutPipe()
	if err != nil {
		return outcome{}, err
	}
	cmd.Stderr = m.log
	if err := cmd.Start(); err != nil {
		return outcome{}, err
	}
	o, readErr := readEvents(out, m.log)
	err = cmd.Wait()
	switch {
	case ctx.Err() != nil:
		return o, context.Cause(ctx)
	case readErr != nil:
		return o, readErr
	case err != nil && o.passes():
		return o, fmt.Errorf("go test in %s: %w", dir, err)
	}
	return o, nil
}

// withoutGit is a folder without the history of a repository.
type withoutGit struct{ fs.FS }

// ReadDir implements fs.ReadDirFS.
func (f withoutGit) ReadDir(name string) ([]fs.DirEntry, error) {
	entries, err := fs.ReadDir(f.FS, name)
	return slices.DeleteFunc(entries, func(e fs.DirEntry) bool { return e.Name() == ".git" }), err
}

// minorOf is "0.36" for "v0.36.3".
func minorOf(text string) string {
	parts := strings.SplitN(strings.TrimPrefix(text, "v"), ".", 3)
	return strings.Join(parts[:min(2, len(parts))], ".")
}
