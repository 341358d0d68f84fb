package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// goPackage is a package as go list prints it.
type goPackage struct {
	ImportPath, Name, Dir              string
	GoFiles, TestGoFiles, XTestGoFiles []string
}

// list returns the packages from go list. A folder may have no leading "./".
func list(ctx context.Context, o options) ([]goPackage, error) {
	args := []string{"list", "-json=ImportPath,Name,Dir,GoFiles,TestGoFiles,XTestGoFiles"}
	for _, p := range o.packages {
		folder, _, _ := strings.Cut(p, "/...")
		if info, err := os.Stat(filepath.Join(o.dir, folder)); err == nil && info.IsDir() && !filepath.IsAbs(p) && !strings.HasPrefix(p, ".") {
			p = "./" + p
		}
		args = append(args, p)
	}
	cmd := exec.CommandContext(ctx, "go", args...) //nolint:gosec // packages that the user names
	cmd.Dir, cmd.Stderr = o.dir, &bytes.Buffer{}
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w\n%s", err, cmd.Stderr)
	}
	var packages []goPackage
	for decoder := json.NewDecoder(bytes.NewReader(out)); ; {
		var p goPackage
		if err := decoder.Decode(&p); errors.Is(err, io.EOF) {
			return packages, nil
		} else if err != nil {
			return nil, err
		}
		if len(p.TestGoFiles)+len(p.XTestGoFiles) > 0 &&
			!slices.ContainsFunc(packages, func(o goPackage) bool { return o.ImportPath == p.ImportPath }) {
			packages = append(packages, p)
		}
	}
}

// choose returns the mutants of a package, or a sample of them.
func choose(o options, p goPackage) ([]mutant, map[string][]byte, error) {
	sources := map[string][]byte{}
	var all []mutant
	for _, name := range p.GoFiles {
		if o.files != nil && !o.files.MatchString(name) {
			continue
		}
		source, err := os.ReadFile(filepath.Join(p.Dir, name))
		if err != nil {
			return nil, nil, err
		}
		found, err := find(name, source, o.kinds)
		if err != nil {
			return nil, nil, err
		}
		sources[name], all = source, append(all, found...)
	}
	if o.sample > 0 && o.sample < len(all) {
		picked := rand.New(rand.NewPCG(o.seed, 0)).Perm(len(all))[:o.sample] //nolint:gosec // the same for the same seed
		slices.Sort(picked)
		sample := make([]mutant, 0, len(picked))
		for _, i := range picked {
			sample = append(sample, all[i])
		}
		all = sample
	}
	return all, sources, nil
}

// build is a test binary that contains mutants.
type build struct {
	pkg     goPackage
	folder  string
	sources map[string][]byte
	mutants []mutant
	// leftOut are the mutants that do not compile, by their number.
	leftOut map[int]bool
}

func (b *build) binary() string { return filepath.Join(b.folder, "package.test") }

// maxRounds limits how often the compiler runs: it reports only some errors of a package at a time.
const maxRounds = 30

// compile builds the binary, without the mutants that do not compile.
func (b *build) compile(ctx context.Context) error {
	for range maxRounds {
		files, err := b.overlay()
		if err != nil {
			return err
		}
		overlay := filepath.Join(b.folder, "overlay.json")
		//nolint:gosec // packages that the user names
		cmd := exec.CommandContext(ctx, "go", "test", "-c", "-gcflags=-e", "-overlay", overlay, "-o", b.binary(), b.pkg.ImportPath)
		cmd.Dir = b.pkg.Dir
		out, err := cmd.CombinedOutput()
		if err == nil {
			return nil
		}
		if !b.leaveOut(string(out), files) {
			return fmt.Errorf("go test -c: %w\n%s", err, out)
		}
	}
	return errors.New("the compiler still finds errors: this is a mistake of this program")
}

// overlay writes the instrumented files outside the source tree, and the overlay that maps them.
func (b *build) overlay() (map[string]instrumented, error) {
	files, replace := map[string]instrumented{}, map[string]string{}
	write := func(name string, source []byte) error {
		path := filepath.Join(b.folder, name)
		replace[filepath.Join(b.pkg.Dir, name)] = path
		return os.WriteFile(path, source, 0o600)
	}
	for name, source := range b.sources {
		of := map[int]mutant{}
		for number, m := range b.mutants {
			if m.file == name && !b.leftOut[number] {
				of[number] = m
			}
		}
		files[name] = instrument(source, of)
		if err := write(name, files[name].source); err != nil {
			return nil, err
		}
	}
	if err := write("mutant_guard.go", guardSource(b.pkg.Name, len(b.mutants))); err != nil {
		return nil, err
	}
	overlay, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return nil, err
	}
	return files, os.WriteFile(filepath.Join(b.folder, "overlay.json"), overlay, 0o600)
}

// leaveOut parses the compiler's errors, and reports whether a mutant caused any of them.
func (b *build) leaveOut(errors string, files map[string]instrumented) bool {
	found := false
	for _, place := range regexp.MustCompile(`(?m)([^/\s:]+\.go):(\d+):(\d+): `).FindAllStringSubmatch(errors, -1) {
		line, _ := strconv.Atoi(place[2])
		column, _ := strconv.Atoi(place[3])
		for _, number := range files[place[1]].blamed(line, column) {
			found, b.leftOut[number] = true, true
		}
	}
	return found
}
