package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"

	"github.com/machinist-dev/machinist/machine/userdata"
)

// verify has the real tools check all documents and scripts.
func verify(ctx context.Context, out io.Writer) error {
	documents, err := all()
	if err != nil {
		return err
	}
	folder, err := os.MkdirTemp("", "userdata-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(folder) }()
	if err := checkScripts(ctx, folder, documents, out); err != nil {
		return err
	}
	if err := checkBoots(ctx, folder, documents, out); err != nil {
		return err
	}
	if err := checkCloudConfigs(ctx, folder, documents, out); err != nil {
		return err
	}
	return checkPartly(ctx, folder, out)
}

// checkCloudConfigs runs cloud-init schema on each cloud-config, and on one that it has to refuse.
func checkCloudConfigs(ctx context.Context, folder string, documents []document, out io.Writer) error {
	files := map[string][]byte{}
	for _, d := range documents {
		if d.single.Format() == userdata.CloudConfig {
			files[d.name+".yaml"], files[d.name+"_first.yaml"] = d.single.Bytes(), d.stages.First.Bytes()
		}
	}
	schema := func(ctx context.Context, file string) error {
		return tool(ctx, "cloud-init", "schema", "--config-file", file)
	}
	count, err := checkEach(ctx, folder, files, schema)
	if err != nil {
		return err
	}
	broken := map[string][]byte{"broken.yaml": []byte("#cloud-config\n{\"write_files\": [{\"content\": 1}], \"runcmd\": 7}\n")}
	if _, err := checkEach(ctx, folder, broken, schema); err == nil {
		return errors.New("cloud-init accepts a document that is wrong: it checks nothing here")
	}
	fmt.Fprintf(out, "cloud-init schema accepts %d distinct documents and refuses a wrong one\n", count)
	return nil
}

// checkScripts runs shellcheck on each script: those of the templates, and second stages.
func checkScripts(ctx context.Context, folder string, documents []document, out io.Writer) error {
	files := map[string][]byte{}
	for _, d := range documents {
		for _, doc := range []userdata.Document{d.single, d.stages.First} {
			written, err := userdata.Files(doc.Bytes())
			if err != nil {
				return err
			}
			for _, f := range written {
				if strings.HasSuffix(f.Path, ".sh") {
					files[d.system.Name()+"-"+filepath.Base(f.Path)] = []byte(f.Content.Reveal())
				}
			}
		}
		files[d.name+"_second.sh"] = d.stages.Secret.Data["value"]
	}
	shellcheck := func(ctx context.Context, file string) error { return tool(ctx, "shellcheck", "--shell=bash", file) }
	count, err := checkEach(ctx, folder, files, shellcheck)
	if err != nil {
		return err
	}
	if _, err := checkEach(ctx, folder, map[string][]byte{"broken.sh": []byte("cd $1\n")}, shellcheck); err == nil {
		return errors.New("shellcheck accepts a script that is wrong: it checks nothing here")
	}
	fmt.Fprintf(out, "shellcheck accepts %d distinct scripts and refuses a wrong one\n", count)
	return nil
}

// checkEach writes files and checks each content once. It returns how many there are.
func checkEach(ctx context.Context, folder string, files map[string][]byte, check func(context.Context, string) error) (int, error) {
	names := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if _, again := names[string(files[name])]; !again {
			names[string(files[name])] = name
		}
	}
	distinct := map[string]string{}
	for content, name := range names {
		distinct[name] = content
	}
	return len(distinct), each(distinct, func(name, content string) error {
		file := filepath.Join(folder, name)
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			return err
		}
		return check(ctx, file)
	})
}

// each calls a function for all, as many at once as there are processors, and returns all failures with the names.
func each[T any](all map[string]T, f func(name string, one T) error) error {
	names := make(chan string, len(all))
	for name := range all {
		names <- name
	}
	close(names)
	var lock sync.Mutex
	var failures []string
	var workers sync.WaitGroup
	for range runtime.NumCPU() {
		workers.Go(func() {
			for name := range names {
				if err := f(name, all[name]); err != nil {
					lock.Lock()
					failures = append(failures, fmt.Sprintf("%s: %v", name, err))
					lock.Unlock()
				}
			}
		})
	}
	workers.Wait()
	if len(failures) > 0 {
		slices.Sort(failures)
		return errors.New(strings.Join(failures, "\n"))
	}
	return nil
}

// tool runs a program and returns its output if it fails.
func tool(ctx context.Context, name string, args ...string) error {
	output, err := exec.CommandContext(ctx, name, args...).CombinedOutput()
	if errors.Is(err, exec.ErrNotFound) {
		return fmt.Errorf("%s is missing: make verify-userdata installs it: %w", name, err)
	}
	if err != nil {
		return fmt.Errorf("%s: %w\n%s", name, err, output)
	}
	return nil
}
