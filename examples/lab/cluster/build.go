package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"time"

	"github.com/machinist-dev/machinist/examples/lab/internal/gobuild"
	"github.com/machinist-dev/machinist/examples/lab/internal/progress"
)

// Binaries are the paths of the programs of a control plane.
type Binaries struct {
	// ControlPlane is etcd and the Kubernetes components; its first argument selects the component.
	ControlPlane string
	// Kwok is the kwok controller.
	Kwok string
}

// program is one main package of the nested module. The ldflags set the version of a release: the API server's
// behaviour depends on it, and kwok writes it into Node statuses.
type program struct{ name, ldflags string }

// programs are those in the folders of source, with the versions that its go.mod requires: a copy of the module with another release is
// built the same way.
func programs(source string) ([]program, error) {
	gomod, err := os.ReadFile(filepath.Join(source, "go.mod"))
	if err != nil {
		return nil, fmt.Errorf("read which release of Kubernetes to build: %w", err)
	}
	kubernetes := required(gomod, "k8s.io/kubernetes")
	all := []program{
		{"controlplane", "-s -w -X k8s.io/component-base/version.gitVersion=" + kubernetes +
			" -X k8s.io/client-go/pkg/version.gitVersion=" + kubernetes},
		{"kwok", "-s -w -X sigs.k8s.io/kwok/pkg/consts.Version=" + required(gomod, "sigs.k8s.io/kwok")},
	}
	return slices.DeleteFunc(all, func(p program) bool {
		_, err := os.Stat(filepath.Join(source, p.name))
		return errors.Is(err, fs.ErrNotExist)
	}), nil
}

// required returns the version of a module in a go.mod, and "" if that does not require it.
func required(gomod []byte, module string) string {
	found := regexp.MustCompile(`(?m)^(?:\t|require )` + regexp.QuoteMeta(module) + ` (v\S+)`).FindSubmatch(gomod)
	if found == nil {
		return ""
	}
	return string(found[1])
}

func allFlags(programs []program) []string {
	var flags []string
	for _, p := range programs {
		flags = append(flags, buildArgs(p, p.name)...)
	}
	return flags
}

// buildArgs has -v because the names of compiled packages show the progress.
func buildArgs(p program, out string) []string {
	return []string{"build", "-v", "-trimpath", "-buildvcs=false", "-ldflags", p.ldflags, "-o", out, "./" + p.name}
}

// buildPrefix starts the names of directories that hold an unfinished build.
const buildPrefix = ".unfinished-"

// Build returns the programs of the control plane. It builds them if they are not in the user's cache directory
// (os.UserCacheDir, in machinist/controlplane). A build takes minutes and prints a line to the log every ten seconds;
// nil prints nothing. Processes that build at the same time wait for each other. Errors match ErrNoSource when the
// sources are missing. The build ends with ctx. The environment variable SourceVar selects other sources.
func Build(ctx context.Context, log io.Writer) (Binaries, error) {
	return buildWith(ctx, progress.New(log, "controlplane"))
}

// BuildFrom is Build with the sources in a folder: a copy of examples/lab/bin whose go.mod may require another release of
// Kubernetes. Each release has its own place in the cache. The folder may lack kwok, which compiles with one minor version of Kubernetes
// only: then that of the checkout is used, which works as a client of other versions.
func BuildFrom(ctx context.Context, source string, log io.Writer) (Binaries, error) {
	return buildFrom(ctx, source, progress.New(log, "controlplane"))
}

func buildWith(ctx context.Context, printf progress.Printf) (Binaries, error) {
	source, err := sourceDir(ctx)
	if err != nil {
		return Binaries{}, err
	}
	return buildFrom(ctx, source, printf)
}

func buildFrom(ctx context.Context, source string, printf progress.Printf) (Binaries, error) {
	built, err := buildSource(ctx, source, printf)
	if err != nil || built.Kwok != "" {
		return built, err
	}
	ours, err := checkoutDir(ctx)
	if err != nil {
		return Binaries{}, err
	}
	own, err := buildSource(ctx, ours, printf)
	built.Kwok = own.Kwok
	return built, err
}

// buildSource builds the programs in source, unless they are in the cache.
func buildSource(ctx context.Context, source string, printf progress.Printf) (Binaries, error) {
	all, err := programs(source)
	if err != nil {
		return Binaries{}, err
	}
	key, err := cacheKey(ctx, source)
	if err != nil {
		return Binaries{}, err
	}
	root, err := cacheRoot()
	if err != nil {
		return Binaries{}, err
	}
	dir := filepath.Join(root, key)
	if built, ok := binariesIn(dir, all); ok {
		return built, nil
	}
	unlock, err := lockFile(ctx, filepath.Join(root, "lock"), printf)
	if err != nil {
		return Binaries{}, err
	}
	defer unlock()
	if built, ok := binariesIn(dir, all); ok {
		return built, nil
	}
	if err := buildInto(ctx, source, root, dir, printf); err != nil {
		return Binaries{}, fmt.Errorf("build the control plane's binaries: %w", err)
	}
	built, _ := binariesIn(dir, all)
	return built, nil
}

func cacheRoot() (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("find a place for the built control plane (set XDG_CACHE_HOME or HOME): %w", err)
	}
	root := filepath.Join(cache, "machinist", "controlplane")
	if err := os.MkdirAll(root, 0o755); err != nil {
		return "", fmt.Errorf("make a place for the built control plane: %w", err)
	}
	return root, nil
}

// binariesIn reports whether dir has the binaries; a directory with its final name is always complete.
func binariesIn(dir string, all []program) (Binaries, bool) {
	var built Binaries
	for _, p := range all {
		path := filepath.Join(dir, p.name)
		if _, err := os.Stat(path); err != nil {
			return Binaries{}, false
		}
		if p.name == "kwok" {
			built.Kwok = path
		} else {
			built.ControlPlane = path
		}
	}
	return built, true
}

// buildInto builds the programs one by one, because linking two at once needs 6 GB, and then gives the directory its
// final name. The caller holds the lock, so other unfinished builds belong to no process.
func buildInto(ctx context.Context, source, root, dir string, printf progress.Printf) error {
	if abandoned, err := filepath.Glob(filepath.Join(root, buildPrefix+"*")); err == nil {
		for _, path := range abandoned {
			_ = os.RemoveAll(path)
		}
	}
	unfinished, err := os.MkdirTemp(root, buildPrefix)
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(unfinished) }()
	out, scratch := filepath.Join(unfinished, "out"), filepath.Join(unfinished, "scratch")
	if err := errors.Join(os.Mkdir(out, 0o755), os.Mkdir(scratch, 0o755)); err != nil {
		return err
	}
	printf("building etcd, kube-apiserver, kube-controller-manager, kube-scheduler and kwok; " +
		"this happens once and takes a few minutes")
	all, err := programs(source)
	if err != nil {
		return err
	}
	start := time.Now()
	for _, p := range all {
		if err := buildOne(ctx, source, filepath.Join(out, p.name), scratch, p, printf); err != nil {
			return err
		}
	}
	if err := os.Rename(out, dir); err != nil {
		return err
	}
	printf("built in %s, kept in %s", time.Since(start).Round(time.Second), dir)
	return nil
}

// buildOne sets the go command's directory for temporary files, because an interrupted go command does not always
// remove them.
func buildOne(ctx context.Context, source, out, scratch string, p program, printf progress.Printf) error {
	cmd := goCommand(ctx, source, buildArgs(p, out)...)
	cmd.Env = append(cmd.Env, "GOTMPDIR="+scratch)
	return gobuild.Run(ctx, cmd, p.name, printf)
}
