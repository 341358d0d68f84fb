package contract_test

import (
	"bytes"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
)

var (
	release = flag.String("release", "", "with -update: the version whose generated part in CHANGELOG.md is written")
	since   = flag.String("since", "", "with -release: the tag of the release before; without one, packages are listed with what they export")
)

// `make release-notes` writes what the records of exports say about a release. It is no part of `make generate`: the numbers are right on
// the day of the release, and changes of two branches would meet in each of them before.
func TestReleaseNotesComeFromTheRecordsOfExports(t *testing.T) {
	have := promisedAPI(t)
	if *release == "" {
		text := notes(nil, have)
		for pkg := range have {
			require.Contains(t, text, "| `"+pkg+"` |")
		}
		return
	}
	require.True(t, *update, "-release is for -update")
	var before map[string][]string
	if *since != "" {
		before = promisedAt(t, *since)
	}
	file := filepath.Join(root, "CHANGELOG.md")
	log, err := os.ReadFile(file)
	require.NoError(t, err)
	log, err = withNotes(log, *release, notes(before, have))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(file, log, 0o600))
}

// withNotes puts text into the generated part of a release.
func withNotes(log []byte, version, text string) ([]byte, error) {
	const begin, end, heading = "\n<!-- release -->\n", "<!-- end release -->\n", "\n## "
	before, section, found := strings.Cut(string(log), heading+version+"\n")
	section, after, more := strings.Cut(section, heading)
	intro, rest, begins := strings.Cut(section, begin)
	_, outro, ends := strings.Cut(rest, end)
	if !found || !begins || !ends {
		return nil, fmt.Errorf("CHANGELOG.md has no heading %q with a part <!-- release --> below it: add both", "## "+version)
	}
	out := before + heading + version + "\n" + intro + begin + text + end + outro
	if more {
		out += heading + after
	}
	return []byte(out), nil
}

// notes are a table of what is exported for a first release, and for a later one what differs from the release before.
func notes(before, have map[string][]string) string {
	if len(before) == 0 {
		return exportsTable(have)
	}
	var out strings.Builder
	for _, pkg := range packagesOf(before, have) {
		d := diffAPI(before[pkg], have[pkg])
		switch {
		case before[pkg] == nil:
			fmt.Fprintf(&out, "- `%s` is new: %s.\n", pkg, counted(have[pkg]))
		case have[pkg] == nil:
			fmt.Fprintf(&out, "- `%s` is gone.\n", pkg)
		case len(d.gone)+len(d.added) > 0:
			fmt.Fprintf(&out, "- `%s`:\n\n  ```diff\n", pkg)
			for _, line := range d.gone {
				fmt.Fprintf(&out, "  %s\n", line)
			}
			for _, line := range d.added {
				fmt.Fprintf(&out, "  + %s\n", line)
			}
			out.WriteString("  ```\n\n")
		}
	}
	return out.String()
}

// kindsOfExports are the columns of the table: a pattern of lines of api.txt each. A field or a method of an interface is of its type.
func kindsOfExports() []struct{ name, pattern string } {
	return []struct{ name, pattern string }{
		{"types", `^type [^,{]*( \{.*)?$`}, {"functions", `^func `}, {"methods", `^method `},
		{"fields", `^type .*struct, \w+ `}, {"constants and variables", `^(const|var) `},
	}
}

func counts(lines []string) []int {
	numbers := make([]int, 0, len(kindsOfExports()))
	for _, kind := range kindsOfExports() {
		pattern, names := regexp.MustCompile(kind.pattern), map[string]bool{}
		for _, line := range lines {
			if pattern.MatchString(line) {
				names[subject(line)] = true
			}
		}
		numbers = append(numbers, len(names))
	}
	return numbers
}

func counted(lines []string) string {
	var parts []string
	for i, n := range counts(lines) {
		parts = append(parts, fmt.Sprintf("%d %s", n, kindsOfExports()[i].name))
	}
	return strings.Join(parts, ", ")
}

func exportsTable(have map[string][]string) string {
	var out strings.Builder
	out.WriteString("| Package |")
	for _, kind := range kindsOfExports() {
		fmt.Fprintf(&out, " %s |", kind.name)
	}
	out.WriteString("\n|---" + strings.Repeat("|---:", len(kindsOfExports())) + "|\n")
	sums := make([]int, len(kindsOfExports()))
	line := func(name string, numbers []int) {
		fmt.Fprintf(&out, "| %s |", name)
		for _, n := range numbers {
			fmt.Fprintf(&out, " %d |", n)
		}
		out.WriteString("\n")
	}
	for _, pkg := range slices.Sorted(maps.Keys(have)) {
		numbers := counts(have[pkg])
		for i, n := range numbers {
			sums[i] += n
		}
		line("`"+pkg+"`", numbers)
	}
	line(fmt.Sprintf("%d packages", len(have)), sums)
	return out.String()
}

// promisedAt reads the records as they were at a tag.
func promisedAt(t *testing.T, tag string) map[string][]string {
	t.Helper()
	git := func(args ...string) []byte {
		cmd := exec.CommandContext(t.Context(), "git", args...)
		cmd.Dir = root
		out, err := cmd.Output()
		require.NoError(t, err, "git %s", strings.Join(args, " "))
		return out
	}
	api := map[string][]string{}
	for name := range bytes.FieldsSeq(git("ls-tree", "-r", "--full-tree", "--name-only", tag)) {
		if pkg, isAPI := strings.CutSuffix(string(name), "/"+apiFile); isAPI {
			api[pkg] = strings.Split(strings.TrimSuffix(string(git("show", tag+":"+string(name))), "\n"), "\n")
		}
	}
	require.NotEmpty(t, api, "%s has no records of exports", tag)
	return api
}

func TestTheNotesOfAFirstReleaseCountWhatEachPackageExports(t *testing.T) {
	t.Parallel()
	lines := apiLinesOf(t, `
const Limit = 3
var Err error
func New(...Option) (*Runner, error) { return nil, nil }
type Option func(*Runner) error
type Runner struct { Pods map[string]string; Sets, Count int }
func (*Runner) Start() {}
type Port interface { Get(name string) (found bool, err error) }
type Scalar interface { ~string | ~bool }
type Field[T Scalar] struct { Value T }
func (f Field[T]) With(v T) Field[T] { return f }
type Fields = map[string]Field[bool]
`)
	require.Empty(t, cmp.Diff(`| Package | types | functions | methods | fields | constants and variables |
|---|---:|---:|---:|---:|---:|
| `+"`drain`"+` | 6 | 1 | 2 | 4 | 2 |
| `+"`fake`"+` | 0 | 1 | 0 | 0 | 0 |
| 2 packages | 6 | 2 | 2 | 4 | 2 |
`, notes(nil, map[string][]string{"drain": lines, "fake": {"func F()"}})))
}

func TestTheNotesOfALaterReleaseAreTheDifference(t *testing.T) {
	t.Parallel()
	before := map[string][]string{"drain": {"func F()", "func G()"}, "phases": {"func P()"}, "same": {"func S()"}}
	have := map[string][]string{"drain": {"func F(int)", "func G()", "func H()"}, "fake": {"func N()"}, "same": {"func S()"}}
	require.Empty(t, cmp.Diff("- `drain`:\n\n  ```diff\n  - func F()\n  + func F(int)\n  + func H()\n  ```\n\n"+
		"- `fake` is new: 0 types, 1 functions, 0 methods, 0 fields, 0 constants and variables.\n- `phases` is gone.\n", notes(before, have)))
}

func TestTheNotesGoIntoThePartOfTheirRelease(t *testing.T) {
	t.Parallel()
	log := []byte("# Changelog\n\n## v0.3.0\n\n## v0.2.0\n\nNew.\n\n<!-- release -->\nold\n<!-- end release -->\n\n" +
		"## v0.1.0\n\n<!-- release -->\n<!-- end release -->\n")
	got, err := withNotes(log, "v0.2.0", "- x\n")
	require.NoError(t, err)
	require.Equal(t, strings.Replace(string(log), "old\n", "- x\n", 1), string(got))
	_, err = withNotes(log, "v0.3.0", "- x\n")
	require.ErrorContains(t, err, `no heading "## v0.3.0"`)
}
