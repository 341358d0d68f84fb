// Command published runs a command in a copy of a module that gets this repository's root module as a user would: as a zip of HEAD
// from a module proxy.
//
//	cd examples/embed/published && go run . -- go test ./...
//
// The zip holds what git has of HEAD, without nested modules, under a pseudo-version; a file proxy serves it, and every other module
// comes from where GOPROXY points. There is no replace and no workspace. The copy has no end-to-end tests, which need the laboratory too.
// When the command has ended, the copy, the proxy, and this version in the module cache are deleted.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/mod/modfile"
	"golang.org/x/mod/module"
	"golang.org/x/mod/zip"
)

func main() {
	root := flag.String("root", "../../..", "`folder` of the module to publish, a git repository")
	user := flag.String("user", "..", "`folder` of the module that uses it")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, *root, *user, flag.Args())
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "published:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, root, user string, command []string) (err error) {
	if len(command) == 0 {
		return errors.New("nothing to run: give a command behind --")
	}
	work, err := os.MkdirTemp("", "published-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(work)) }()
	version, err := publish(ctx, root, filepath.Join(work, "proxy"))
	if err != nil {
		return fmt.Errorf("publish HEAD of %s: %w", root, err)
	}
	copied := filepath.Join(work, "user")
	if err := copyModule(user, copied); err != nil {
		return fmt.Errorf("copy %s: %w", user, err)
	}
	goEnv, err := environment(ctx, filepath.Join(work, "proxy"), version.Path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, forget(context.WithoutCancel(ctx), version)) }()
	for _, args := range [][]string{
		{"go", "mod", "edit", "-droprequire=" + version.Path, "-droprequire=" + version.Path + "/examples/lab"},
		{"go", "get", version.String()},
		{"go", "mod", "tidy"},
		{"go", "list", "-m", "-f", "{{.Path}} {{.Version}} from {{.Dir}}", version.Path},
		command,
	} {
		if err := in(ctx, copied, goEnv, args); err != nil {
			return fmt.Errorf("%s: %w", strings.Join(args, " "), err)
		}
	}
	return nil
}

// publish fills a folder with what the protocol of module proxies asks for, and returns the version that it serves.
func publish(ctx context.Context, root, proxy string) (module.Version, error) {
	content, err := output(ctx, root, "git", "show", "HEAD:go.mod")
	if err != nil {
		return module.Version{}, err
	}
	head, err := output(ctx, root, "git", "show", "--no-patch", "--format=%H %cI", "HEAD")
	if err != nil {
		return module.Version{}, err
	}
	hash, date, _ := strings.Cut(strings.TrimSpace(head), " ")
	committed, err := time.Parse(time.RFC3339, date)
	if err != nil || len(hash) < 12 {
		return module.Version{}, fmt.Errorf("git names HEAD %q: %w", head, err)
	}
	version := module.Version{
		Path:    modfile.ModulePath([]byte(content)),
		Version: module.PseudoVersion("v0", "", committed.UTC(), hash[:12]),
	}
	folder := filepath.Join(proxy, filepath.FromSlash(version.Path), "@v")
	if err := os.MkdirAll(folder, 0o750); err != nil {
		return version, err
	}
	info, err := json.Marshal(struct {
		Version string
		Time    time.Time
	}{version.Version, committed.UTC()})
	if err != nil {
		return version, err
	}
	for name, text := range map[string]string{"list": "", version.Version + ".info": string(info), version.Version + ".mod": content} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
			return version, err
		}
	}
	archive, err := os.Create(filepath.Join(folder, version.Version+".zip"))
	if err != nil {
		return version, err
	}
	err = zip.CreateFromVCS(archive, version, root, hash, "")
	return version, errors.Join(err, archive.Close())
}

// copyModule copies the files of a module, without end-to-end tests.
func copyModule(from, to string) error {
	return filepath.WalkDir(from, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		if entry.IsDir() {
			return os.MkdirAll(filepath.Join(to, rel), 0o750)
		}
		if strings.HasSuffix(rel, "e2e_test.go") {
			return nil
		}
		return copyFile(path, filepath.Join(to, rel))
	})
}

func copyFile(from, to string) error {
	content, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, content, 0o600)
}

// environment is that of this process, with the proxy in front, and without a workspace.
func environment(ctx context.Context, proxy, path string) ([]string, error) {
	before, err := output(ctx, ".", "go", "env", "GOPROXY")
	if err != nil {
		return nil, err
	}
	noSum, err := output(ctx, ".", "go", "env", "GONOSUMDB")
	if err != nil {
		return nil, err
	}
	return append(os.Environ(), "GOWORK=off", "GONOPROXY=none",
		"GOPROXY=file://"+filepath.ToSlash(proxy)+","+strings.TrimSpace(before),
		"GONOSUMDB="+strings.Trim(strings.TrimSpace(noSum)+","+path, ","), // it is not published
	), nil
}

// forget deletes a version from the module cache: there would be one more with each commit.
func forget(ctx context.Context, version module.Version) error {
	cache, err := output(ctx, ".", "go", "env", "GOMODCACHE")
	if err != nil {
		return err
	}
	cache = strings.TrimSpace(cache)
	extracted := filepath.Join(cache, filepath.FromSlash(version.String()))
	err = filepath.WalkDir(extracted, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.IsDir() {
			err = os.Chmod(path, 0o700) // the go command makes them read-only
		}
		return err
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	folder := filepath.Join(cache, "cache", "download", filepath.FromSlash(version.Path), "@v")
	downloads, err := filepath.Glob(filepath.Join(folder, version.Version+".*"))
	if err != nil {
		return err
	}
	downloads = append(downloads, filepath.Join(folder, "list")) // the go command writes it again
	errs := []error{os.RemoveAll(extracted)}
	for _, file := range downloads {
		if err := os.Remove(file); !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

func in(ctx context.Context, folder string, env, args []string) error {
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = folder, env, os.Stdout, os.Stderr
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 10 * time.Second
	return cmd.Run()
}

func output(ctx context.Context, folder string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Dir, cmd.Stderr = folder, os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s: %w", strings.Join(args, " "), err)
	}
	return string(out), nil
}
