package house

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
)

// baseline is the list of exceptions, a line each: what it is about, a colon, and the reason.
const baseline = "testdata/exceptions.txt"

// Every export needs a user outside its package, and every setting a program, another package or an example of the documentation that
// sets it. Tests alone are no user. The list of exceptions may only shrink.
func TestSurface(t *testing.T) {
	known := readBaseline(t)
	found := findings(surfaceOf(readSources(t)))
	for _, line := range found {
		if _, ok := known[line]; !ok {
			t.Errorf("%s: use it, hide it or delete it; if none is right, add it to internal/house/%s with the reason", line, baseline)
		}
	}
	for line := range known {
		if !slices.Contains(found, line) {
			t.Errorf("%s: it has a user now, or is gone: remove its line from internal/house/%s", line, baseline)
		}
	}
}

// findings returns a sorted line for each export without a user and each setting that nothing sets.
func findings(s *surface) []string {
	var lines []string
	for _, e := range s.exports {
		if !e.used {
			lines = append(lines, "unused "+e.String())
		}
		if e.isSetting && !e.set {
			lines = append(lines, "unset "+e.String())
		}
	}
	slices.Sort(lines)
	return lines
}

func readBaseline(t *testing.T) map[string]string {
	t.Helper()
	content, err := os.ReadFile(baseline)
	require.NoError(t, err)
	known := map[string]string{}
	var order []string
	for line := range strings.Lines(string(content)) {
		what, reason, _ := strings.Cut(strings.TrimSpace(line), ": ")
		require.NotEmpty(t, reason, "%s has no reason", what)
		known[what] = reason
		order = append(order, what)
	}
	require.True(t, slices.IsSorted(order), "sort the lines of %s", baseline)
	return known
}

func TestFindings(t *testing.T) {
	library := `package drain
type Policy struct { Grace, Force int }
type Plan struct { Pods int }
func (Plan) Len() int { return 0 }
func New() Plan { return Plan{} }
func Old() {}
var ErrPlan error
const Reason = "wire format"
type hidden struct { Field int }
`
	tests := map[string]struct {
		// file is the content of one more file, in folder.
		folder, name, file string
		want               []string
	}{
		"without users everything is found": {folder: "machine", name: "machine.go", file: "package machine",
			want: []string{"unset drain Policy.Force", "unset drain Policy.Grace", "unused drain ErrPlan", "unused drain New", "unused drain Old",
				"unused drain Plan", "unused drain Plan.Len", "unused drain Plan.Pods", "unused drain Policy", "unused drain Policy.Force",
				"unused drain Policy.Grace"}},
		"another package uses and sets": {folder: "machine", name: "machine.go", file: `package machine
import "github.com/machinist-dev/machinist/drain"
var ( _ = drain.Policy{Grace: 1, Force: 2}; p drain.Plan = drain.New(); _ = p.Pods + p.Len(); _ = drain.ErrPlan; _ = drain.Old)`},
		"a test of another package uses and does not set": {folder: "machine", name: "machine_test.go", file: `package machine
import other "github.com/machinist-dev/machinist/drain"
var ( _ = other.Policy{Grace: 1, Force: 2}; p other.Plan = other.New(); _ = p.Pods + p.Len(); _ = other.ErrPlan; _ = other.Old)`,
			want: []string{"unset drain Policy.Force", "unset drain Policy.Grace"}},
		"an example of the package itself is a user": {folder: "drain", name: "example_test.go", file: `package drain_test
import "github.com/machinist-dev/machinist/drain"
var ( p drain.Policy; _ = drain.New().Len() + drain.Plan{}.Pods; _ = drain.ErrPlan; _ = drain.Old)
func ExamplePolicy() { p.Grace = 1; f(&p.Force) }`},
		"a test of the package itself is none": {folder: "drain", name: "old_test.go", file: `package drain_test
import "github.com/machinist-dev/machinist/drain"
var ( _ = drain.Policy{Grace: 1, Force: 2}; _ = drain.New().Len() + drain.Plan{}.Pods; _ = drain.ErrPlan )`,
			want: []string{"unset drain Policy.Force", "unset drain Policy.Grace", "unused drain ErrPlan", "unused drain New", "unused drain Old",
				"unused drain Plan", "unused drain Plan.Len", "unused drain Plan.Pods", "unused drain Policy", "unused drain Policy.Force",
				"unused drain Policy.Grace"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			sources := []source{parse(t, "drain", "drain.go", library), parse(t, tc.folder, tc.name, tc.file)}
			if diff := cmp.Diff(tc.want, findings(surfaceOf(sources))); diff != "" {
				t.Errorf("findings (-want +got):\n%s", diff)
			}
		})
	}
}
