package main

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/machinist-dev/machinist/machine/userdata"
)

// stub replaces the programs that change a machine: it notes its name and arguments, and does what the scripts wait for.
//
//go:embed stub.sh
var stub string

// stubs are the programs that it replaces. Curl is one only where nothing answers.
func stubs() []string {
	return []string{"systemctl", "modprobe", "sysctl", "swapoff", "ip", "apt-get", "apt-mark", "dnf", "netplan", "nmcli",
		"update-ca-certificates", "update-ca-trust"}
}

// programs are the real ones that scripts use.
func programs() []string {
	return []string{"bash", "base64", "cat", "chmod", "curl", "cut", "dirname", "env", "gzip", "mkdir", "mv", "rm", "sed", "sh", "sha256sum",
		"sleep", "tar", "touch", "tr"}
}

// scratch is a folder that looks like the root of a small system.
type scratch struct{ folder string }

// newPrograms makes a folder with the programs and their libraries, from which scratch roots take them by hard links.
func newPrograms(ctx context.Context, folder string) (scratch, error) {
	s := scratch{folder}
	for _, name := range programs() {
		if err := s.install(ctx, name); err != nil {
			return s, fmt.Errorf("copy %s: %w", name, err)
		}
	}
	return s, nil
}

// root makes a scratch root with stubs, those of more among them.
func (s scratch) root(folder string, more ...string) (scratch, error) {
	err := filepath.WalkDir(s.folder, func(name string, entry fs.DirEntry, err error) error {
		rel, relErr := filepath.Rel(s.folder, name)
		if err := errors.Join(err, relErr); err != nil {
			return err
		}
		if entry.IsDir() {
			return os.MkdirAll(filepath.Join(folder, rel), 0o755)
		}
		return os.Link(name, filepath.Join(folder, rel))
	})
	if err != nil {
		return scratch{}, err
	}
	root := scratch{folder}
	for _, sub := range []string{"stubs", "tmp", "dev", "etc/apt/sources.list.d", "etc/yum.repos.d"} {
		if err := os.MkdirAll(filepath.Join(folder, sub), 0o755); err != nil {
			return root, err
		}
	}
	for _, name := range append(stubs(), more...) {
		if err := os.WriteFile(root.path("/stubs/"+name), []byte(stub), 0o700); err != nil {
			return root, err
		}
	}
	return root, errors.Join(os.Symlink("usr/bin", root.path("/bin")), os.WriteFile(root.path("/dev/null"), nil, 0o600))
}

func (s scratch) path(name string) string { return filepath.Join(s.folder, name) }

var library = regexp.MustCompile(`(/\S+) \(0x`)

// install copies a program with its libraries.
func (s scratch) install(ctx context.Context, name string) error {
	from, err := exec.LookPath(name)
	if err != nil {
		return err
	}
	if from, err = filepath.EvalSymlinks(from); err != nil {
		return err
	}
	libraries, err := exec.CommandContext(ctx, "ldd", from).Output()
	if err != nil {
		return err
	}
	for _, found := range library.FindAllStringSubmatch(string(libraries), -1) {
		if err := copyFile(found[1], s.path(found[1])); err != nil {
			return err
		}
	}
	return copyFile(from, s.path("/usr/bin/"+name))
}

func copyFile(from, to string) error {
	if _, err := os.Stat(to); err == nil {
		return nil
	}
	content, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	return os.WriteFile(to, content, 0o755)
}

// write writes the files of a document, as cloud-init or Ignition would.
func (s scratch) write(doc userdata.Document) error {
	files, err := userdata.Files(doc.Bytes())
	if err != nil {
		return err
	}
	for _, f := range files {
		if err := os.MkdirAll(filepath.Dir(s.path(f.Path)), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(s.path(f.Path), []byte(f.Content.Reveal()), f.Mode); err != nil {
			return err
		}
	}
	return nil
}

// run runs a script in the scratch root, without anything of this process's environment.
func (s scratch) run(ctx context.Context, script string) (string, error) {
	command := exec.CommandContext(ctx, "chroot", s.folder, "/bin/bash", script)
	command.Env = []string{"PATH=/stubs:/usr/bin", "RETRY_SECONDS=0", "JOIN_SECONDS=1"}
	output, err := command.CombinedOutput()
	if err != nil {
		return string(output), fmt.Errorf("%s: %w\n%s", script, err, output)
	}
	return string(output), nil
}

// calls are what the stubs noted, one line each.
func (s scratch) calls() ([]string, error) {
	content, err := os.ReadFile(s.path("/calls"))
	return strings.Split(strings.TrimSuffix(string(content), "\n"), "\n"), err
}

// has reports whether a file is there with all this text in it.
func (s scratch) has(name, text string) error {
	content, err := os.ReadFile(s.path(name))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%s is missing", name)
	case err != nil:
		return err
	case !strings.Contains(string(content), text):
		return fmt.Errorf("%s has no %q", name, text)
	}
	return nil
}
