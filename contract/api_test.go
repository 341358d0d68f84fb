package contract_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"go/importer"
	"go/token"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var broken = flag.String("broken", "", "with -update: why exports are removed or changed; it goes into CHANGELOG.md")

// apiFile is where a package's promises stand, below its folder.
const apiFile = "testdata/api.txt"

// What a package exports is a promise, and testdata/api.txt beside it is the record that reviewers see in diffs. An export that is new
// enters it by `make generate`. One that is removed or changed needs `make api BREAK="what callers do now"`, which writes the
// reason into CHANGELOG.md as well.
func TestExportedAPIIsPromised(t *testing.T) {
	have, promised := exportedAPI(t), promisedAPI(t)
	var gone []string
	for _, pkg := range packagesOf(have, promised) {
		d := diffAPI(promised[pkg], have[pkg])
		switch {
		case len(d.gone) > 0 && *broken == "":
			t.Errorf("package %s breaks promises. Keep them, or say what callers do now: make api BREAK=\"...\"\n%s", pkg, d)
		case len(d.gone) > 0 && *update:
			gone = append(gone, pkg)
		case !*update && !slices.Equal(promised[pkg], have[pkg]):
			t.Errorf("%s/%s is not current: run `make generate`\n%s", pkg, apiFile, d)
		}
		if *update && !t.Failed() {
			writeAPI(t, filepath.Join(root, pkg, apiFile), have[pkg])
		}
	}
	if *broken == "" || t.Failed() {
		return
	}
	require.True(t, *update, "-broken is for -update")
	require.NotEmpty(t, gone, "no promise is broken: run `make generate`")
	file := filepath.Join(root, "CHANGELOG.md")
	log, err := os.ReadFile(file)
	require.NoError(t, err)
	log, err = withBreak(log, gone, *broken)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(file, log, 0o600))
}

// withBreak adds a line about packages to what is not released, below the heading Breaking, which comes first.
func withBreak(log []byte, packages []string, reason string) ([]byte, error) {
	const unreleased, heading = "## Unreleased\n\n", "### Breaking\n\n"
	before, after, ok := bytes.Cut(log, []byte(unreleased))
	if !ok {
		return nil, errors.New("CHANGELOG.md has no heading Unreleased")
	}
	entry := fmt.Appendf(nil, "- `%s`: %s\n", strings.Join(packages, "`, `"), strings.TrimSpace(reason))
	if rest, has := bytes.CutPrefix(after, []byte(heading)); has {
		return slices.Concat(before, []byte(unreleased+heading), entry, rest), nil
	}
	return slices.Concat(before, []byte(unreleased+heading), entry, []byte("\n"), after), nil
}

// exportedAPI returns the lines of every package of the library, by its path below the module. The types are those of the
// compiler's export data, which the go command has in its cache.
func exportedAPI(t *testing.T) map[string][]string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "list", "-export", "-deps", "-json=ImportPath,Name,Dir,Export", "./...")
	cmd.Dir = root
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	require.NoError(t, err, "go list -export: %s", stderr.String())

	exports := map[string]string{}
	var ours []goPackage
	for decoder := json.NewDecoder(bytes.NewReader(out)); ; {
		var p struct {
			goPackage
			Export string
		}
		err := decoder.Decode(&p)
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		exports[p.ImportPath] = p.Export
		if isLibrary(p.goPackage) {
			ours = append(ours, p.goPackage)
		}
	}
	imports := importer.ForCompiler(token.NewFileSet(), "gc", func(path string) (io.ReadCloser, error) { return os.Open(exports[path]) })
	api := map[string][]string{}
	for _, p := range ours {
		_, err := os.ReadDir(p.Dir) // the go command repeats this test when a file changes that it looked at
		require.NoError(t, err)
		pkg, err := imports.Import(p.ImportPath)
		require.NoError(t, err)
		api[p.rel()] = apiLines(pkg)
	}
	require.Contains(t, api, "contract")
	return api
}

// isLibrary is true for what others can import and rely on: neither examples nor programs.
func isLibrary(p goPackage) bool {
	return strings.HasPrefix(p.ImportPath, module+"/") && !strings.HasPrefix(p.rel(), "examples/") && p.Name != "main"
}

// promisedAPI reads the records, also of packages that are there no more.
func promisedAPI(t *testing.T) map[string][]string {
	t.Helper()
	api := map[string][]string{}
	require.NoError(t, fs.WalkDir(os.DirFS(root), ".", func(path string, entry fs.DirEntry, err error) error {
		if path == ".git" && entry.IsDir() { // in a linked work tree it is a file
			return fs.SkipDir
		}
		pkg, isAPI := strings.CutSuffix(path, "/"+apiFile)
		if err != nil || entry.IsDir() || !isAPI {
			return err
		}
		content, err := os.ReadFile(filepath.Join(root, path))
		api[pkg] = strings.Split(strings.TrimSuffix(string(content), "\n"), "\n")
		return err
	}))
	return api
}

// writeAPI removes the record of a package that exports nothing.
func writeAPI(t *testing.T, file string, lines []string) {
	t.Helper()
	if len(lines) == 0 {
		require.NoError(t, os.Remove(file))
		return
	}
	require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o750))
	require.NoError(t, os.WriteFile(file, []byte(strings.Join(lines, "\n")+"\n"), 0o600))
}

func packagesOf(have, promised map[string][]string) []string {
	packages := slices.AppendSeq(slices.Collect(maps.Keys(have)), maps.Keys(promised))
	slices.Sort(packages)
	return slices.Compact(packages)
}
