package contract_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
)

func TestEachThingThatOthersCanRelyOnIsOneLine(t *testing.T) {
	t.Parallel()
	got := apiLinesOf(t, `
import (
	"example.com/core/v1"
	"example.com/other"
	apps "example.com/apps/core/v1"
)

const Limit = 3
const Running Phase = "Running"
type Phase string
func (p Phase) String() string { return "" }
var Err error
func New(ctx other.Context, opts ...Option) (*Runner, error) { return nil, nil }
func hidden() {}
type Option func(*Runner) error
type Runner struct {
	base
	Embedded
	Pods map[string][]*v1.Pod
	Sets chan<- [2]apps.Pod
	secret int
}
type base struct { Name string; hidden int }
func (b *base) Start() {}
func (b base) stop() {}
type Embedded struct{ Lent int }
func (Embedded) Borrowed() {}
type Port interface { Get(name string) (found bool, err error); Embeddable }
type Embeddable interface { Close() }
type Sealed interface { Close(); sealed() }
type Scalar interface { ~string | ~bool }
type Field[T Scalar] struct { Value T }
func (f Field[T]) With(v T) Field[T] { return f }
func At[T Scalar, K comparable](keys map[K]T) Field[T] { return Field[T]{} }
type Fields = map[string]Field[bool]
`)
	require.Empty(t, cmp.Diff([]string{
		`const Limit untyped int = 3`,
		`const Running Phase = "Running"`,
		`func At[T Scalar, K comparable](map[K]T) Field[T]`,
		`func New(other.Context, ...Option) (*Runner, error)`,
		`import corev1 "example.com/core/v1"`,
		`import other "example.com/other"`,
		`method (*Runner) Start()`,
		`method (Embedded) Borrowed()`,
		`method (Field[T]) With(T) Field[T]`,
		`method (Phase) String() string`,
		`type Embeddable interface { Close }`,
		`type Embeddable interface, Close()`,
		`type Embedded struct`,
		`type Embedded struct, Lent int`,
		`type Embedded struct, comparable`,
		`type Field[T Scalar] struct`,
		`type Field[T Scalar] struct, Value T`,
		`type Field[T Scalar] struct, comparable`,
		`type Fields = map[string]Field[bool]`,
		`type Option func(*Runner) error`,
		`type Phase string`,
		`type Port interface { Embeddable; Get }`,
		`type Port interface, Get(string) (bool, error)`,
		`type Runner struct`,
		`type Runner struct, Name string`,
		`type Runner struct, Pods map[string][]*corev1.Pod`,
		`type Runner struct, Sets chan<- [2]example.com/apps/core/v1.Pod`,
		`type Runner struct, embedded Embedded`,
		`type Scalar interface { ~string | ~bool }`,
		`type Sealed interface, Close()`,
		`type Sealed interface, with unexported methods`,
		`var Err error`,
	}, got))
}

func TestWhatCallersCannotNoticeIsNoChange(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ before, after string }{
		"order":                {"var A, B int", "var B int; var A int"},
		"names of parameters":  {"func F(a int) (b error) { return }", "func F(c int) error { return nil }"},
		"what is not exported": {"type T struct{ a int }; func f() {}", "type T struct{ b int }; type u int"},
		"a name of an import":  {`import a "example.com/other"; var C a.Context`, `import b "example.com/other"; var C b.Context`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Empty(t, cmp.Diff(apiLinesOf(t, c.before), apiLinesOf(t, c.after)))
		})
	}
}

func TestADifferenceSaysWhatIsAddedAndWhatIsBroken(t *testing.T) {
	t.Parallel()
	const second = "type U struct{}\n"
	for name, c := range map[string]struct {
		before, after string
		added, gone   []string
	}{
		"a function more":   {"", "func F() {}", []string{"func F()"}, nil},
		"a method more":     {"type T int", "type T int; func (T) M() {}", []string{"method (T) M()"}, nil},
		"a field more":      {"type T struct{ A int }", "type T struct{ A, B int }", []string{"type T struct, B int"}, nil},
		"a function gone":   {"func F() {}", "", nil, []string{"- func F()"}},
		"a method gone":     {"type T int; func (T) M() {}", "type T int", nil, []string{"- method (T) M()"}},
		"a field gone":      {"type T struct{ A, B int }", "type T struct{ A int }", nil, []string{"- type T struct, B int"}},
		"another signature": {"func F() {}", "func F(...int) {}", nil, []string{"- func F()", "+ func F(...int)"}},
		"another result":    {"func F() {}", "func F() error { return nil }", nil, []string{"- func F()", "+ func F() error"}},
		"another type of a field": {"type T struct{ A int }", "type T struct{ A int64 }", nil,
			[]string{"- type T struct, A int", "+ type T struct, A int64"}},
		"another value": {"const C = 1", "const C = 2", nil, []string{"- const C untyped int = 1", "+ const C untyped int = 2"}},
		"another receiver": {"type T int; func (T) M() {}", "type T int; func (*T) M() {}", []string{"method (*T) M()"},
			[]string{"- method (T) M()"}},
		"not comparable any more": {"type T struct{}", "type T struct{ a []int }", nil, []string{"- type T struct, comparable"}},
		"a struct that is embedded no more": {second + "type T struct{ U }", second + "type T struct{ u U }", nil,
			[]string{"- type T struct, embedded U"}},
		"an interface that grew": {"type I interface{ A() }", "type I interface{ A(); B() }", []string{"type I interface, B()"},
			[]string{"- type I interface { A }", "+ type I interface { A; B }"}},
		"an interface that grew by another": {second + "type E interface{ B() }; type I interface{ A() }",
			second + "type E interface{ B() }; type I interface{ A(); E }", nil,
			[]string{"- type I interface { A }", "+ type I interface { A; E }"}},
		"an interface that only we implement grew": {"type I interface{ A(); i() }", "type I interface{ A(); B(); i() }",
			[]string{"type I interface, B()"}, nil},
		"a narrower constraint": {"func F[T any]() {}", "func F[T comparable]() {}", nil,
			[]string{"- func F[T any]()", "+ func F[T comparable]()"}},
		"a name that stands for another package": {
			`import v1 "example.com/core/v1"; var P v1.Pod`, `import v1 "example.com/apps/core/v1"; var P v1.Pod`, nil,
			[]string{"- var P corev1.Pod", "+ var P corev1.Pod"}},
		"another package of a name came before": {
			`import v1 "example.com/core/v1"; var P v1.Pod`,
			`import v1 "example.com/core/v1"; import a "example.com/apps/core/v1"; var A a.Pod; var P v1.Pod`,
			[]string{"var A corev1.Pod"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := diffAPI(apiLinesOf(t, c.before), apiLinesOf(t, c.after))
			require.Empty(t, cmp.Diff(c.added, d.added), "added")
			require.Empty(t, cmp.Diff(c.gone, d.gone), "gone")
			for _, line := range append(d.added, d.gone...) {
				require.Contains(t, d.String(), line)
			}
		})
	}
}

func TestABrokenPromiseIsWrittenIntoTheChangelog(t *testing.T) {
	t.Parallel()
	first, err := withBreak([]byte("# Changelog\n\n## Unreleased\n\n### Added\n\n- x\n"), []string{"drain", "phases"}, "F takes a size")
	require.NoError(t, err)
	require.Equal(t, "# Changelog\n\n## Unreleased\n\n### Breaking\n\n- `drain`, `phases`: F takes a size\n\n### Added\n\n- x\n",
		string(first))
	second, err := withBreak(first, []string{"fake"}, "use G ")
	require.NoError(t, err)
	require.Contains(t, string(second), "### Breaking\n\n- `fake`: use G\n- `drain`, `phases`: F takes a size\n\n### Added")
	_, err = withBreak([]byte("# Changelog\n"), nil, "")
	require.ErrorContains(t, err, "Unreleased")
}

// apiLinesOf returns the lines of a package with this source.
func apiLinesOf(t *testing.T, source string) []string {
	t.Helper()
	return apiLines(check(t, "example.com/p", "package p\n"+source))
}

func check(t *testing.T, path, source string) *types.Package {
	t.Helper()
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, "p.go", source, parser.SkipObjectResolution)
	require.NoError(t, err)
	pkg, err := (&types.Config{Importer: others{t}}).Check(path, fset, []*ast.File{file}, nil)
	require.NoError(t, err)
	return pkg
}

// others are packages to import.
type others struct{ t *testing.T }

func (o others) Import(path string) (*types.Package, error) {
	switch path {
	case "example.com/core/v1", "example.com/apps/core/v1":
		return check(o.t, path, "package v1\ntype Pod struct{}"), nil
	case "example.com/other":
		return check(o.t, path, "package other\ntype Context interface{}"), nil
	}
	return nil, fmt.Errorf("no package %q", path)
}
