package house

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/doc"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"github.com/machinist-dev/machinist/contract"
)

const maxReadmeLines = 150

// marker is a pair of HTML comments: <!-- name argument --> and <!-- end name -->. What is between them is generated.
var marker = regexp.MustCompile(
	`(?s)<!-- (snippet|house|packages|versions)(?:[: ]([^ ]+))? -->\n(.*?)<!-- end ([a-z]+) -->`)

// documents are the pages with generated parts, and which of those each has.
func documents() map[string][]string {
	return map[string][]string{
		"README.md":                  {"snippet", "house", "versions"},
		"examples/CONCEPTS.md":       {"packages"},
		"examples/embed/TUTORIAL.md": {"snippet"},
	}
}

func TestREADME(t *testing.T) {
	for page, parts := range documents() {
		t.Run(page, func(t *testing.T) { isCurrent(t, page, parts) })
	}
}

func isCurrent(t *testing.T, page string, parts []string) {
	t.Helper()
	file := filepath.Join(root, filepath.FromSlash(page))
	old, err := os.ReadFile(file)
	require.NoError(t, err)

	seen := map[string]bool{}
	current := marker.ReplaceAllFunc(old, func(part []byte) []byte {
		m := marker.FindSubmatch(part)
		name, arg := string(m[1]), string(m[2])
		require.Equal(t, name, string(m[4]), "a generated part of %s ends with another name", page)
		seen[name] = true
		open, _, _ := bytes.Cut(part, []byte("\n"))
		return fmt.Appendf(nil, "%s\n%s<!-- end %s -->", open, generate(t, name, arg), name)
	})
	for _, name := range parts {
		if !seen[name] {
			t.Errorf("%s has no generated part %q", page, name)
		}
	}
	if *update {
		require.NoError(t, os.WriteFile(file, current, 0o600))
		return
	}
	if diff := cmp.Diff(string(current), string(old)); diff != "" {
		t.Errorf("%s is not current, run `make generate` (-want +got):\n%s", page, diff)
	}
}

func TestREADMELinks(t *testing.T) {
	content, err := os.ReadFile(filepath.Join(root, "README.md"))
	require.NoError(t, err)
	if lines := bytes.Count(content, []byte("\n")); lines > maxReadmeLines {
		t.Errorf("README.md has %d lines, more than %d", lines, maxReadmeLines)
	}
	for _, page := range []string{"README.md", "CONTRIBUTING.md", "CHANGELOG.md", "examples/CONCEPTS.md", "examples/embed/TUTORIAL.md"} {
		linksLead(t, page)
	}
}

func linksLead(t *testing.T, page string) {
	t.Helper()
	file := filepath.Join(root, filepath.FromSlash(page))
	content, err := os.ReadFile(file)
	require.NoError(t, err)
	content = regexp.MustCompile("(?s)```.*?```").ReplaceAll(content, nil) // code has brackets too
	for _, link := range regexp.MustCompile(`\]\(([^)#]+)[^)]*\)`).FindAllSubmatch(content, -1) {
		target := string(link[1])
		if strings.Contains(target, "://") {
			continue
		}
		if _, err := os.Stat(filepath.Join(filepath.Dir(file), target)); err != nil {
			t.Errorf("%s links to %s, which is not there", page, target)
		}
	}
}

func generate(t *testing.T, name, arg string) string {
	t.Helper()
	switch name {
	case "snippet":
		if language := strings.TrimPrefix(filepath.Ext(arg), "."); !strings.Contains(arg, "#") {
			whole, err := os.ReadFile(filepath.Join(root, arg))
			require.NoError(t, err)
			return fenced(language, string(whole))
		}
		return fenced("go", snippet(t, arg))
	case "house":
		return fenced("text", housePicture(t))
	case "packages":
		return packageTable(t)
	default:
		return versionTable(t)
	}
}

func fenced(language, body string) string { return "```" + language + "\n" + body + "```\n" }

// snippet returns a function or a type of a Go file, named as in "machine/example_test.go#Example_embed". Of an example only the body
// is shown: its own name and its expected output mean nothing to a reader.
func snippet(t *testing.T, arg string) string {
	t.Helper()
	file, name, _ := strings.Cut(arg, "#")
	src, err := os.ReadFile(filepath.Join(root, file))
	require.NoError(t, err)
	fset := token.NewFileSet()
	parsed, err := parser.ParseFile(fset, file, src, parser.SkipObjectResolution|parser.ParseComments)
	require.NoError(t, err)
	offset := func(p token.Pos) int { return fset.Position(p).Offset }
	for _, decl := range parsed.Decls {
		if group, ok := decl.(*ast.GenDecl); ok && declares(group, name) {
			return string(src[offset(group.Doc.Pos()):offset(group.End())]) + "\n"
		}
		fn, ok := decl.(*ast.FuncDecl)
		if !ok || fn.Name.Name != name {
			continue
		}
		if !strings.HasPrefix(name, "Example") {
			return string(src[offset(fn.Pos()):offset(fn.End())]) + "\n"
		}
		body := string(src[offset(fn.Body.Lbrace)+1 : offset(fn.Body.Rbrace)])
		body, _, _ = strings.Cut(body, "\t// Output:")
		body = strings.ReplaceAll(strings.Trim(body, "\n"), "\n\t", "\n")
		return strings.TrimRight(strings.TrimPrefix(body, "\t"), "\n\t ") + "\n"
	}
	t.Fatalf("%s has no function or type %q", file, name)
	return ""
}

// declares reports whether a declaration is that of a type with a comment.
func declares(group *ast.GenDecl, name string) bool {
	return group.Doc != nil && slices.ContainsFunc(group.Specs, func(s ast.Spec) bool {
		spec, ok := s.(*ast.TypeSpec)
		return ok && spec.Name.Name == name
	})
}

// publicPackages calls a function for the library's packages, floor by floor, with the name of the floor.
func publicPackages(t *testing.T, do func(floor string, p goPackage)) {
	t.Helper()
	listed := listPackages(t)
	for _, f := range floors() {
		for _, p := range listed {
			on := slices.ContainsFunc(f.packages, func(name string) bool { return matches(name, p.rel()) })
			if on && p.Name != "main" && !strings.HasPrefix(p.rel(), "examples/") && !strings.HasPrefix(p.rel(), "internal/") {
				do(f.name, p)
			}
		}
	}
}

// packageTable lists the library's packages with the first sentence of their documentation, for a page that is one folder deep.
func packageTable(t *testing.T) string {
	t.Helper()
	var out strings.Builder
	out.WriteString("| Package | Floor | What it does |\n|---|---|---|\n")
	publicPackages(t, func(floor string, p goPackage) {
		fmt.Fprintf(&out, "| [`%s`](../%s) | %s | %s |\n", p.rel(), p.rel(), floor, synopsis(t, p))
	})
	return out.String()
}

// housePicture draws the floors, the highest first, with their packages.
func housePicture(t *testing.T) string {
	t.Helper()
	const width = 120
	var stories, above []string
	last := ""
	publicPackages(t, func(floor string, p goPackage) {
		if floor != last && len(above) > 0 {
			stories, above = append(above, stories...), nil
		}
		at := len(above) - 1
		switch {
		case floor != last:
			above = []string{fmt.Sprintf("%-12s|  %s", floor, p.rel())}
		case len(above[at])+len(p.rel()) > width:
			above = append(above, fmt.Sprintf("%-12s|  %s", "", p.rel()))
		default:
			above[at] += "   " + p.rel()
		}
		last = floor
	})
	return strings.Join(append(above, stories...), "\n") + "\n"
}

// synopsis is the first sentence of doc.go without "Package x".
func synopsis(t *testing.T, p goPackage) string {
	t.Helper()
	parsed, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root, p.rel(), "doc.go"), nil,
		parser.PackageClauseOnly|parser.ParseComments)
	require.NoError(t, err)
	sentence := new(doc.Package).Synopsis(parsed.Doc.Text())
	sentence = strings.TrimPrefix(sentence, "Package "+p.Name+" ")
	require.NotEmpty(t, sentence, "package %s has no first sentence", p.rel())
	return strings.ReplaceAll(strings.ToUpper(sentence[:1])+sentence[1:], "|", "\\|")
}

// requirement returns what a pattern catches in a line of go.mod.
func requirement(t *testing.T, pattern string) string {
	t.Helper()
	mod, err := os.ReadFile(filepath.Join(root, "go.mod"))
	require.NoError(t, err)
	found := regexp.MustCompile(`(?m)^\t?` + pattern + `$`).FindSubmatch(mod)
	require.NotNil(t, found, "go.mod has no line %s", pattern)
	return string(found[1])
}

func versionTable(t *testing.T) string {
	t.Helper()
	contracts := make([]string, 0, len(contract.Versions()))
	for _, v := range contract.Versions() {
		contracts = append(contracts, string(v))
	}
	runtimes, kubernetes := measuredVersions(t)
	return fmt.Sprintf("| Machinist | Go | controller-runtime | k8s.io/* | provider contracts | Machines |\n|---|---|---|---|---|---|\n"+
		"| main | %s | %s | %s | %s | any kind; layouts for `cluster.x-k8s.io` v1beta1 and v1beta2, Kubermatic and Gardener are included |\n",
		requirement(t, `go (\S+)`), strings.Join(runtimes, ", "), strings.Join(kubernetes, ", "), strings.Join(contracts, ", "))
}

// measuredVersions are those with which the tests that measured.md names passed; those that go.mod requires now are bold.
func measuredVersions(t *testing.T) (runtimes, kubernetes []string) {
	t.Helper()
	table, err := os.ReadFile(filepath.Join(root, "examples", "lab", "skew", "measured.md"))
	require.NoError(t, err)
	for _, row := range regexp.MustCompile(`(?m)^\| (v\S+?)(, required)? \| (v\S+) \| (\d+ pass)?`).FindAllStringSubmatch(string(table), -1) {
		switch runtime, passes := row[1], row[4] != ""; {
		case row[2] != "":
			runtimes = append(runtimes, "**"+requirement(t, `sigs\.k8s\.io/controller-runtime (\S+)`)+"**")
			kubernetes = append(kubernetes, "**"+requirement(t, `k8s\.io/client-go (\S+)`)+"**")
		case passes:
			runtimes, kubernetes = append(runtimes, runtime), append(kubernetes, row[3])
		}
	}
	require.NotEmpty(t, runtimes)
	return runtimes, kubernetes
}
