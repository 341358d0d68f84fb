package main

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
)

// fixture is a module with a change that its test notices, and one of every other sort.
func fixture(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod": "module example.com/fixture\n\ngo 1.26\n",
		"fixture.go": `package fixture

type flag bool

const wide = 64 == 32<<1

func Positive(n int) bool { return n > 0 }

func Small(n int) bool { return n < 10 || wide && n == 10 }

func Clamp(n int) int {
	if n > 9 {
		return 9
	}
	return n
}

func Both(a, b flag) flag {
	return a && b
}

func Close(done chan struct{}) {
	log("closing")
	close(done)
}

func log(string) {}

func forgotten() bool { return true }
`,
		"fixture_test.go": `package fixture

import "testing"

func TestPositive(t *testing.T) {
	if !Positive(1) || Positive(0) || !Small(1) || Small(20) || Clamp(9) != 9 {
		t.Fatal()
	}
}

func TestClose(*testing.T) {
	done := make(chan struct{})
	Close(done)
	<-done
}

func TestThatFailsByItself(t *testing.T) { t.Fatal(forgotten()) }

func TestInItsFolder(t *testing.T) { t.TempDir(); Both(true, true) }
`,
	} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	return dir
}

func filesBelow(t *testing.T, dir string) []string {
	t.Helper()
	var files []string
	require.NoError(t, filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
		files = append(files, path)
		return err
	}))
	return files
}

func TestASurvivorIsFoundAndAKilledMutantIsCounted(t *testing.T) {
	dir, temp := fixture(t), t.TempDir()
	t.Setenv("TMPDIR", temp)
	before := filesBelow(t, dir)
	var stdout, stderr strings.Builder
	require.Equal(t, exitOK, run(t.Context(), []string{"-C", dir, "-o", "json", "."}, &stdout, &stderr), stderr.String())

	var got report
	require.NoError(t, json.Unmarshal([]byte(stdout.String()), &got))
	require.Len(t, got.Packages, 1)
	for i := range got.Packages[0].Survivors {
		s := &got.Packages[0].Survivors[i]
		s.File = filepath.Base(s.File)
	}
	want := packageReport{
		Package: "example.com/fixture", Mutants: 9, Killed: 6, KilledByTime: 1, Survived: 2, NotReached: 1, LeftOut: 1, ScoreInPercent: 66,
		FailingTests: []string{"TestThatFailsByItself"},
		Survivors: []survivor{
			{"fixture.go", 12, kindCompare, "> becomes <= in n > 9", survived},
			{"fixture.go", 23, kindCall, `left out: log("closing")`, survived},
			{"fixture.go", 29, kindReturn, "true becomes its opposite in return true", notReached},
		},
	}
	if diff := cmp.Diff(want, got.Packages[0]); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if diff := cmp.Diff(before, filesBelow(t, dir)); diff != "" {
		t.Errorf("the source tree was written to (-before +after):\n%s", diff)
	}
	require.Equal(t, []string{temp}, filesBelow(t, temp), "temporary folders are left behind")
}

func TestTheReportIsATableAndAListOfSurvivors(t *testing.T) {
	p := packageReport{Package: "example.com/p", FailingTests: []string{"TestX"},
		Survivors: []survivor{{"/p/a.go", 7, kindCall, "left out: f()", survived}}}
	p.count([]verdict{killed, killedByTime, survived, notReached, leftOut, notTried})
	var text strings.Builder
	require.NoError(t, report{Packages: []packageReport{p}}.write(&text, "text"))
	want := `  mutants  killed  by timeout  survived  not reached  not tried  left out  score package
        5       2           1         1            1          1         1   50 % example.com/p

example.com/p: TestX fails without a mutant, and was left out

example.com/p
  /p/a.go:7: survived: left out: f()
`
	if diff := cmp.Diff(want, text.String()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestAnInterruptionReportsAndLeavesNothingBehind(t *testing.T) {
	dir, temp := fixture(t), t.TempDir()
	t.Setenv("TMPDIR", temp)
	ctx, cancel := context.WithCancel(t.Context())
	var stdout strings.Builder
	stop := writerFunc(func(p []byte) (int, error) {
		if strings.Contains(string(p), "running each test once") {
			cancel()
		}
		return len(p), nil
	})
	require.Equal(t, exitInterrupted, run(ctx, []string{"-C", dir, "."}, &stdout, stop))
	require.Contains(t, stdout.String(), "example.com/fixture")
	require.Equal(t, []string{temp}, filesBelow(t, temp), "temporary folders are left behind")
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

func TestMutantsAreWrittenIntoTheSourceWithoutMovingLines(t *testing.T) {
	for name, tc := range map[string]struct{ source, want string }{
		"a comparison":     {"return a == b", "return ((a == b) != mutant_(0))"},
		"a disjunction":    {"return a || b", "return ((((a) != mutant_(0)) || ((b) != mutant_(0))) != mutant_(0))"},
		"a condition":      {"if a.b() { c = 1 }", "if ((a.b()) != mutant_(0)) { c = 1 }"},
		"a case":           {"switch { case a: c = 1 }", "switch { case ((a) != mutant_(0)): c = 1 }"},
		"a case of a tag":  {"switch a { case b: c = 1 }", "switch a { case b: c = 1 }"},
		"a loop":           {"for a { c = 1 }", "for ((a) != mutant_(0)) { c = 1 }"},
		"a result":         {"return x, true", "return x, ((true) != mutant_(0))"},
		"a call":           {"a.b(c) // why", "if !mutant_(0) { a.b(c) } // why"},
		"a call with more": {"a(func() {\n\tb()\n})", "if !mutant_(0) { a(func() {\n\tif !mutant_(1) { b() }\n}) }"},
		"a deferred call":  {"defer a()", "defer a()"},
		"a panic":          {"panic(a)", "panic(a)"},
		"a constant":       {"const a = 1 == 2", "const a = 1 == 2"},
		"one in another": {"if a && b != c { }",
			"if ((((((a) != mutant_(1)) && ((((b != c) != mutant_(2))) != mutant_(1))) != mutant_(1))) != mutant_(0)) { }"},
	} {
		t.Run(name, func(t *testing.T) {
			source := []byte("package p\n\nfunc f() {\n\t" + tc.source + "\n}\n")
			found, err := find("p.go", source, allKinds())
			require.NoError(t, err)
			numbered := map[int]mutant{}
			for i, m := range found {
				numbered[i] = m
			}
			got := string(instrument(source, numbered).source)
			if diff := cmp.Diff("package p\n\nfunc f() {\n\t"+tc.want+"\n}\n", got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			_, err = find("p.go", []byte(got), nil)
			require.NoError(t, err, "what comes out must be Go")
		})
	}
}

func TestASampleIsTheSameForTheSameSeed(t *testing.T) {
	p := goPackage{Dir: fixture(t), GoFiles: []string{"fixture.go"}}
	lines := func(seed uint64) (out []int) {
		found, _, err := choose(options{kinds: allKinds(), seed: seed, sample: 3}, p)
		require.NoError(t, err)
		for _, m := range found {
			out = append(out, m.line)
		}
		return out
	}
	require.Len(t, lines(1), 3)
	require.Equal(t, lines(1), lines(1))
	require.NotEqual(t, lines(1), lines(2))
}

func TestHelpTeachesAndWrongFlagsAreNamed(t *testing.T) {
	var stdout, stderr strings.Builder
	require.Equal(t, exitOK, run(t.Context(), []string{"--help"}, &stdout, &stderr))
	for _, word := range []string{"survived", "--sample 100", "-seed", "Exit codes", "score"} {
		require.Contains(t, stdout.String(), word)
	}
	for wrong, want := range map[string]string{
		"--kinds=typos": `not "typos"`, "-o=xml": `not "xml"`, "--sample=-1": "cannot be negative", "--parallel=0": "cannot be negative",
		"--files=(": "--files",
	} {
		stderr.Reset()
		require.Equal(t, exitUsage, run(t.Context(), []string{wrong}, &stdout, &stderr))
		require.Contains(t, stderr.String(), want)
	}
	stderr.Reset()
	require.Equal(t, exitFailed, run(t.Context(), []string{"-C", t.TempDir(), "./nothing"}, &stdout, &stderr))
	require.Contains(t, stderr.String(), "go list")
}

// full is a disk without space.
type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("no space left") }

func TestOutputThatIsLostIsAFailure(t *testing.T) {
	for _, args := range [][]string{{"--help"}} {
		var stderr strings.Builder
		require.Equal(t, exitFailed, run(t.Context(), args, full{}, &stderr), args)
		require.Equal(t, 1, strings.Count(stderr.String(), "no space left"), stderr.String())
	}
}
