package contract_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// codeSpan is what stands between backticks on one line or two.
var codeSpan = regexp.MustCompile("`([^`]+)`")

// identifier is a name of Go code, with that of its package, or of its type, before a dot.
var identifier = regexp.MustCompile(`^(?:[A-Za-z][A-Za-z0-9]*\.)?[A-Za-z][A-Za-z0-9]*$`)

func TestCONTRIBUTINGNamesWhatIsThere(t *testing.T) {
	content, err := os.ReadFile(filepath.Join(root, "CONTRIBUTING.md"))
	require.NoError(t, err)
	linksLead(t, "CONTRIBUTING.md")
	for _, span := range spans(withoutBlocks(string(content))) {
		if isRepositoryPath(t, span) {
			if _, err := os.Stat(filepath.Join(root, filepath.FromSlash(span))); err != nil {
				t.Errorf("CONTRIBUTING.md names %s, which is not there", span)
			}
		}
	}
	_, section, found := strings.Cut(string(content), "\n## How to add\n")
	require.True(t, found, "CONTRIBUTING.md has no section How to add")
	section, _, _ = strings.Cut(section, "\n## ")
	for _, kind := range []string{"A contract version", "A step", "A driver", "A dialect"} {
		require.Contains(t, section, "\n### "+kind+"\n")
	}
	names := declared{}
	for _, step := range stepsOf(section) {
		for _, wrong := range names.unknown(t, step) {
			t.Errorf("CONTRIBUTING.md, How to add: %s: %.80s", wrong, step)
		}
	}
}

func TestAStepOfCONTRIBUTINGIsHeldToTheFilesThatItNames(t *testing.T) {
	for step, want := range map[string][]string{
		"add a constant in `contract/version.go` beside `V1Beta2`":           nil,
		"in `contract/version.go`, as\n   `AllVersions`, and `Label`":        nil,
		"add a member to `tables` in `contract/tables.go`":                   nil,
		"a folder: `newWorld` in `machine/testdata`":                         {"`newWorld` is declared in none of machine/testdata"},
		"`AllVersions` in `contract/tables.go`":                              {"`AllVersions` is declared in none of contract/tables.go"},
		"`pass.InsertBefore` and `pass.Nothing`, wherever they are":          {"`pass.Nothing` is not declared"},
		"`MachineLayout` and no file":                                        {"`MachineLayout` has no file to be looked for in"},
		"run `make generate`, and `make what-is-not-there` before `machine`": {"`make what-is-not-there` is no target"},
	} {
		require.Equal(t, want, declared{}.unknown(t, step), step)
	}
}

func spans(text string) []string {
	var found []string
	for _, m := range codeSpan.FindAllStringSubmatch(text, -1) {
		found = append(found, strings.Join(strings.Fields(m[1]), " "))
	}
	return found
}

func withoutBlocks(text string) string {
	return regexp.MustCompile("(?s)```.*?```").ReplaceAllString(text, "")
}

// isRepositoryPath is true for a path of two segments or more that begins at the top level of the repository.
func isRepositoryPath(t *testing.T, span string) bool {
	t.Helper()
	first, _, deep := strings.Cut(span, "/")
	if !deep || strings.ContainsAny(span, " *<>") {
		return false
	}
	_, err := os.Stat(filepath.Join(root, first))
	return first != "" && first != "." && err == nil
}

// stepsOf returns the items of numbered lists, and the paragraphs between them.
func stepsOf(section string) []string {
	return regexp.MustCompile(`\n\n|\n[0-9]+\. |\n- `).Split(section, -1)
}

// declared has the names that files declare, by path; it reads a file when it is asked for the first time.
type declared map[string][]string

// unknown says which names of a step are declared nowhere in the files and folders that the step names.
func (d declared) unknown(t *testing.T, step string) []string {
	t.Helper()
	var paths, wrong []string
	for _, span := range spans(step) {
		if isRepositoryPath(t, span) {
			paths = append(paths, span)
		}
	}
	for _, span := range spans(step) {
		if target, isTarget := strings.CutPrefix(span, "make "); isTarget {
			if !slices.Contains(makeTargets(t), strings.Fields(target)[0]) {
				wrong = append(wrong, fmt.Sprintf("%#q is no target", span))
			}
			continue
		}
		if pkg, name, qualified := strings.Cut(span, "."); qualified && identifier.MatchString(span) {
			if !d.inPackage(t, pkg, name) {
				wrong = append(wrong, fmt.Sprintf("%#q is not declared", span))
			}
			continue
		}
		switch _, err := os.Stat(filepath.Join(root, span)); {
		case !identifier.MatchString(span), err == nil:
		case len(paths) == 0:
			wrong = append(wrong, fmt.Sprintf("%#q has no file to be looked for in", span))
		case !slices.ContainsFunc(paths, func(p string) bool { return slices.Contains(d.in(t, p), span) }):
			wrong = append(wrong, fmt.Sprintf("%#q is declared in none of %s", span, strings.Join(paths, ", ")))
		}
	}
	return wrong
}

// inPackage is true if a package of this name declares the name.
func (d declared) inPackage(t *testing.T, pkg, name string) bool {
	t.Helper()
	return slices.ContainsFunc(listPackages(t), func(p goPackage) bool {
		return p.Name == pkg && slices.Contains(d.in(t, p.rel()), name)
	})
}

// in returns the names that a file or the files of a folder declare: also methods and fields.
func (d declared) in(t *testing.T, at string) []string {
	t.Helper()
	if names, read := d[at]; read {
		return names
	}
	full := filepath.Join(root, filepath.FromSlash(at))
	info, err := os.Stat(full)
	if err != nil {
		return nil
	}
	d[at] = nil
	if !info.IsDir() {
		if path.Ext(at) == ".go" {
			d[at] = declarations(t, full)
		}
		return d[at]
	}
	entries, err := fs.ReadDir(os.DirFS(full), ".")
	require.NoError(t, err)
	var names []string
	for _, entry := range entries {
		if !entry.IsDir() {
			names = append(names, d.in(t, at+"/"+entry.Name())...)
		}
	}
	d[at] = names
	return names
}

func declarations(t *testing.T, file string) []string {
	t.Helper()
	parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
	require.NoError(t, err)
	var names []string
	add := func(idents ...*ast.Ident) {
		for _, ident := range idents {
			names = append(names, ident.Name)
		}
	}
	ast.Inspect(parsed, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncDecl:
			add(n.Name)
		case *ast.TypeSpec:
			add(n.Name)
		case *ast.ValueSpec:
			add(n.Names...)
		case *ast.Field:
			add(n.Names...)
		}
		return true
	})
	return names
}

// makeTargets are those that `make help` lists.
func makeTargets(t *testing.T) []string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(root, "Makefile"))
	require.NoError(t, err)
	var targets []string
	for _, m := range regexp.MustCompile(`(?m)^([a-z0-9-]+):.*## `).FindAllStringSubmatch(string(content), -1) {
		targets = append(targets, m[1])
	}
	return targets
}
