package house

import (
	"bytes"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
)

// maxLines is how long a Go file may be; most have 60 to 300 lines.
const maxLines = 400

// developerPath matches an absolute path of a developer's machine at the start of a word.
var developerPath = regexp.MustCompile("(^|[\\s\"'`=:,(<])/(home|root|work|Users)/[\\w.-]")

func TestTopLevel(t *testing.T) {
	allowed := []string{"contract", "phases", "noderef", "drain", "machine", "machineset", "machinepool", "fake", "internal", "examples",
		"LICENSE", "README.md", "go.mod", "go.sum", "Makefile", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"}
	entries, err := os.ReadDir(root)
	require.NoError(t, err)
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), ".") && !ignoredByGit(e.Name()) && !slices.Contains(allowed, e.Name()) {
			t.Errorf("%s stands at the top level: nothing but %v and dot-files may", e.Name(), allowed)
		}
	}
}

func TestDocFiles(t *testing.T) {
	for _, p := range listPackages(t) {
		if strings.HasPrefix(p.rel(), "examples/") || strings.HasPrefix(p.rel(), "internal/") || p.Name == "main" {
			continue
		}
		if _, err := os.Stat(filepath.Join(root, p.rel(), "doc.go")); err != nil {
			t.Errorf("package %s has no doc.go", p.rel())
		}
		if files, err := filepath.Glob(filepath.Join(root, p.rel(), "example*_test.go")); err != nil || len(files) == 0 {
			t.Errorf("package %s has no example_test.go", p.rel())
		}
	}
}

func TestPackageNames(t *testing.T) {
	for _, p := range listPackages(t) {
		name := path.Base(p.rel())
		if p.Name == "main" || p.Name == "" {
			continue
		}
		for _, banned := range []string{"util", "utils", "common", "helper", "helpers", "types", "manager"} {
			if name == banned || strings.TrimSuffix(p.Name, "_test") == banned {
				t.Errorf("package %s: a package is named after what it does, not %q", p.rel(), banned)
			}
		}
	}
}

// nestedLibraries are modules of their own that others import, because of what they require. The go command lists none of them in the root.
func nestedLibraries() []string { return []string{"contract/clusterapi"} }

func TestNestedModules(t *testing.T) {
	// A module elsewhere would cut a piece out of the library; requirements of examples must not reach those who import it.
	for _, file := range repositoryFiles(t) {
		if path.Base(file) == "go.mod" && file != "go.mod" && !strings.HasPrefix(file, "examples/") &&
			!slices.Contains(nestedLibraries(), path.Dir(file)) {
			t.Errorf("%s: modules of their own are for examples only", file)
		}
	}
}

func TestNestedLibraries(t *testing.T) {
	for _, name := range nestedLibraries() {
		for _, file := range []string{"go.mod", "doc.go", "example_test.go"} {
			if _, err := os.Stat(filepath.Join(root, name, file)); err != nil {
				t.Errorf("module %s has no %s", name, file)
			}
		}
		if readme, err := os.ReadFile(filepath.Join(root, "README.md")); err != nil || !bytes.Contains(readme, []byte("]("+name+")")) {
			t.Errorf("README.md does not link to %s", name)
		}
	}
}

func TestRequirements(t *testing.T) {
	mod, err := os.ReadFile(filepath.Join(root, "go.mod"))
	require.NoError(t, err)
	reasons, err := os.ReadFile(filepath.Join(root, "CONTRIBUTING.md"))
	require.NoError(t, err)
	// What the floors name, and what tests are written with, needs no further reason.
	given := []string{"k8s.io/api", "k8s.io/apimachinery", "k8s.io/client-go", "k8s.io/kubectl", "sigs.k8s.io/controller-runtime",
		"github.com/stretchr/testify", "github.com/google/go-cmp"}
	for _, m := range regexp.MustCompile(`(?m)^\t(\S+) v\S+$`).FindAllSubmatch(mod, -1) {
		if name := string(m[1]); !slices.Contains(given, name) && !bytes.Contains(reasons, []byte("| `"+name+"` |")) {
			t.Errorf("go.mod requires %s: CONTRIBUTING.md must say why, in the section on direct dependencies", name)
		}
	}
}

func TestFiles(t *testing.T) {
	for _, file := range repositoryFiles(t) {
		content, err := os.ReadFile(filepath.Join(root, file))
		require.NoError(t, err)
		if bytes.IndexByte(content, 0) >= 0 {
			continue // not text
		}
		if lines := bytes.Count(content, []byte("\n")); strings.HasSuffix(file, ".go") && lines > maxLines && !generated(content) {
			t.Errorf("%s has %d lines, more than %d: it holds more than one concept", file, lines, maxLines)
		}
		for n, line := range bytes.Split(content, []byte("\n")) {
			if found := developerPath.Find(line); found != nil {
				t.Errorf("%s:%d names a path of a developer's machine: %s", file, n+1, found)
			}
		}
	}
}

func TestDeveloperPath(t *testing.T) {
	slash := "/" // keeps the samples themselves from being found
	tests := map[string]bool{
		"see " + slash + "home/jane/machinist":      true,
		"dir=" + slash + "root/go":                  true,
		"\"" + slash + "Users/jane\"":               true,
		"https://example.com" + slash + "home/page": false,
		"the jsonpath .spec" + slash + "work/x":     false,
		"a Node's " + slash + "rootfs":              false,
	}
	got := map[string]bool{}
	for line := range tests {
		got[line] = developerPath.MatchString(line)
	}
	if diff := cmp.Diff(tests, got); diff != "" {
		t.Errorf("recognised (-want +got):\n%s", diff)
	}
}

func generated(content []byte) bool {
	return bytes.HasPrefix(content, []byte("// Code generated ")) || bytes.Contains(content, []byte("\n// Code generated "))
}

// repositoryFiles returns the slash-separated paths of all files. It walks instead of asking git: source archives have no
// git, and the go command keys its cache of test results by the folders that a test reads itself.
func repositoryFiles(t *testing.T) []string {
	t.Helper()
	var files []string
	err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, name)
		if err != nil {
			return err
		}
		switch {
		case d.IsDir() && strings.HasPrefix(d.Name(), ".") && rel != "." && rel != ".ci" && rel != ".github":
			return filepath.SkipDir // git's own and editors' folders
		case d.Type().IsRegular() && d.Name() != ".git" && !ignoredByGit(d.Name()): // in a linked work tree .git is a file
			files = append(files, filepath.ToSlash(rel))
		}
		return nil
	})
	require.NoError(t, err)
	return files
}

// ignoredByGit repeats .gitignore for files that Go's own tools leave behind.
func ignoredByGit(name string) bool {
	return name == "go.work" || name == "go.work.sum" || slices.Contains([]string{".test", ".out", ".prof"}, filepath.Ext(name))
}

// parsesMessage matches code that takes a message apart or looks for something in it.
var parsesMessage = regexp.MustCompile(`(strings|bytes)\.(Cut|Split|Contains|Has|Index|Lines|Fields|TrimPrefix|TrimSuffix)\w*\(([\w.]+\.)?[mM]essage\b`)

// Conditions, events and logs are for people: what a later pass needs is a field or a record.
func TestNoMessageIsParsed(t *testing.T) {
	allowed := []string{
		"drain/classify.go",            // the API server's refusals of evictions have no other mark of a webhook
		"internal/engine/condition.go", // a message becomes a part of another one
	}
	for _, file := range repositoryFiles(t) {
		if !strings.HasSuffix(file, ".go") || strings.HasSuffix(file, "_test.go") || slices.Contains(allowed, file) ||
			strings.HasPrefix(file, "examples/") || strings.HasPrefix(file, "fake/") || strings.HasPrefix(file, "internal/simulation/") ||
			strings.HasPrefix(file, "internal/apitest/") {
			continue
		}
		content, err := os.ReadFile(filepath.Join(root, file))
		require.NoError(t, err)
		for number, line := range strings.Split(string(content), "\n") {
			if parsesMessage.MatchString(line) {
				t.Errorf("%s:%d parses a message: %s", file, number+1, strings.TrimSpace(line))
			}
		}
	}
}
