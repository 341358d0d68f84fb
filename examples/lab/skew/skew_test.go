package skew

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/util/version"

	"github.com/machinist-dev/machinist/examples/lab/internal/cli"
)

func TestWrongFlagsAreRefusedBeforeAnythingIsMeasured(t *testing.T) {
	for args, want := range map[string]string{
		"":                                   "--servers and --runtimes are missing",
		"--servers 1.36.3":                   `"1.36.3" is no minor version`,
		"--servers 0.36":                     `"0.36" is no minor version, as 1.24 is`,
		"--servers latest":                   `"latest" is no minor version`,
		"--servers 1.36 --runtimes 1.36":     `--runtimes: "1.36" is no minor version, as 0.24 is`,
		"--servers 1.36 1.35":                `unexpected argument "1.35"`,
		"--servers 1.36 --runtimes 0.24,abc": `"abc" is no minor version`,
	} {
		var stdout, stderr bytes.Buffer
		err := Run(t.Context(), strings.Fields(args), &stdout, &stderr)
		require.ErrorIs(t, err, cli.ErrUsage, args)
		require.ErrorContains(t, err, want, args)
		require.Empty(t, stdout.String(), args)
	}
	var stdout, stderr bytes.Buffer
	require.ErrorIs(t, Run(t.Context(), []string{"--help"}, &stdout, &stderr), flag.ErrHelp)
	require.Contains(t, stdout.String(), "-servers")
	o, err := parse([]string{"--servers", "1.36, 1.35", "--runtimes=0.24"}, &stdout)
	require.NoError(t, err)
	require.Equal(t, options{servers: []string{"1.36", "1.35"}, runtimes: []string{"0.24"}}, o)
}

func TestTheNewestReleaseOfAMinorVersionIsTaken(t *testing.T) {
	versions := []string{"v1.9.9", "v1.35.9", "v1.35.10", "v1.35.11-rc.1", "v1.36.0-alpha.1", "v1.34.4", "v1.35.4", "nonsense"}
	got, err := newest(kubernetes, versions, "1.35")
	require.NoError(t, err)
	require.Equal(t, "1.35.10", got.String())
	_, err = newest(kubernetes, versions, "1.36")
	require.ErrorContains(t, err, "the module proxy serves no release 1.36 of k8s.io/kubernetes, only of 1.34, 1.35, 1.9")
	require.Equal(t, "0.36", minorOf("v0.36.3"))
	require.Equal(t, "0", minorOf("v0"))
}

func TestTheModuleOfAnotherReleaseHasItsStagingModulesAsPublished(t *testing.T) {
	type target = struct{ Path, Version string }
	var release goMod
	release.Godebug = append(release.Godebug, struct{ Key, Value string }{"default", "go1.25"})
	for _, r := range [][2]string{{"k8s.io/api", "./staging/src/k8s.io/api"}, {"example.com/fork", "example.com/other"}} {
		release.Replace = append(release.Replace, struct {
			Old, New struct{ Path, Version string }
		}{target{r[0], ""}, target{r[1], ""}})
	}
	pinned := goMod{Module: struct{ Path string }{"example.com/m"}, Go: "1.26.0"}
	got, err := nestedModule(pinned, release, version.MustParseSemantic("v1.35.4"))
	require.NoError(t, err)
	require.Empty(t, cmp.Diff(`module example.com/m

go 1.26.0

godebug default=go1.25

require k8s.io/kubernetes v1.35.4

replace (
	k8s.io/api => k8s.io/api v0.35.4
)
`, got))
	_, err = nestedModule(pinned, goMod{}, version.MustParseSemantic("v1.35.4"))
	require.ErrorContains(t, err, "no module of its staging folder")
}

const events = `{"Action":"start","Package":"p"}
not an event
{"Action":"output","Package":"p","Test":"TestB","Output":"--- FAIL: TestB\n"}
{"Action":"output","Package":"p","Test":"TestB/sub","Output":"    the reason\n"}
{"Action":"fail","Package":"p","Test":"TestB/sub"}
{"Action":"output","Package":"p","Test":"TestA","Output":"a word of a test that passes\n"}
{"Action":"pass","Package":"p","Test":"TestA"}
{"Action":"fail","Package":"p","Test":"TestB"}
{"Action":"fail","Package":"p"}
`

func TestTheTestsOfARunAreCountedAndWhatFailsIsPrinted(t *testing.T) {
	var log bytes.Buffer
	got, err := readEvents(strings.NewReader(events), &log)
	require.NoError(t, err)
	require.Equal(t, outcome{passed: []string{"TestA"}, failed: []string{"TestB"}}, got)
	require.Equal(t, "--- FAIL: TestB\n    the reason\n", log.String())
	require.False(t, got.passes())
	require.Equal(t, "1 of 2 fail: TestB", got.String())

	// A package that panics outside of a test, or whose control plane does not start, fails without a test.
	got, err = readEvents(strings.NewReader(`{"Action":"pass","Package":"p","Test":"TestA"}`+"\n"+`{"Action":"fail","Package":"p"}`), &log)
	require.NoError(t, err)
	require.Equal(t, outcome{passed: []string{"TestA"}, failed: []string{"p"}}, got)
}

func TestWhatDoesNotCompileIsReportedOnceAndWithoutThePathOfTheCopy(t *testing.T) {
	var log bytes.Buffer
	got, err := readEvents(strings.NewReader(`{"Action":"build-output","ImportPath":"p","Output":"# p\n"}
{"Action":"build-output","ImportPath":"p","Output":"a/b.go:66:26: s.Checker undefined (type T has no method Checker)\n"}
{"Action":"build-output","ImportPath":"p [p.test]","Output":"a/b.go:66:26: s.Checker undefined (type T has no method Checker)\n"}
{"Action":"build-output","ImportPath":"q","Output":"\tmore | of it\n"}
{"Action":"fail","Package":"p","FailedBuild":"p"}
`), &log)
	require.NoError(t, err)
	require.Equal(t, []string{"a/b.go:66: s.Checker undefined"}, got.broken)
	require.Empty(t, got.failed)
	require.False(t, got.passes())
	require.Contains(t, log.String(), "more | of it")
	require.Equal(t, "does not compile: `a/b.go:66: s.Checker undefined`", got.String())
}

func TestATestThatIsMissingCountsAsOneThatFails(t *testing.T) {
	o := outcome{passed: []string{"TestA"}}.wanting([]string{"TestA", "TestRenamed"})
	require.Equal(t, "1 of 2 fail: TestRenamed", o.String())
	require.Equal(t, "not run", outcome{}.String())
	require.False(t, outcome{}.passes())
	broken := outcome{broken: []string{"x"}}
	require.Equal(t, broken, broken.wanting([]string{"TestA"}))
}

func TestTheTableHasARowForEachLibraryAndAColumnForEachServer(t *testing.T) {
	servers := []server{{version: version.MustParseSemantic("v1.36.3")}, {version: version.MustParseSemantic("v1.35.4")}}
	good, bad := outcome{passed: []string{"TestA", "TestB"}}, outcome{failed: []string{"TestA"}}
	rows := []row{
		{library{runtime: "v0.24.1", kubernetes: "v0.36.3", pinned: true}, good, []outcome{good, bad}},
		{library{runtime: "v0.25.2", kubernetes: "v0.37.2"}, good, []outcome{good, good}},
	}
	require.Empty(t, cmp.Diff(`| controller-runtime | k8s.io/* | tests of the root module | on Kubernetes 1.36.3 | on Kubernetes 1.35.4 |
|---|---|---|---|---|
| v0.24.1, required | v0.36.3 | 2 pass | 2 pass | 1 of 1 fail: TestA |
| v0.25.2 | v0.37.2 | 2 pass | 2 pass | 2 pass |
`, table(servers, rows)))
	require.ErrorContains(t, failures(rows), "controller-runtime v0.24.1: 1 of 1 fail: TestA")
	require.NoError(t, failures(rows[1:]))

	broken := row{unit: outcome{broken: []string{"a.go:1: no such method"}}, ends: []outcome{{}, {}}}
	require.NoError(t, failures([]row{broken}), "a version that is not required may be one that cannot be used")
	broken.pinned = true
	require.ErrorContains(t, failures([]row{broken}), "does not compile: `a.go:1: no such method`")
}

func TestTheEndToEndTestsAreThere(t *testing.T) {
	files, err := filepath.Glob("../e2e/*_test.go")
	require.NoError(t, err)
	var all bytes.Buffer
	for _, file := range files {
		content, err := os.ReadFile(file)
		require.NoError(t, err)
		all.Write(content)
	}
	for _, name := range endToEnd() {
		require.Regexp(t, `(?m)^func `+name+`\(t \*testing\.T\) \{$`, all.String())
	}
}
