package simulation_test

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/machinist-dev/machinist/internal/simulation"
)

// declaredReasons returns the reasons of conditions that the packages of the reconcilers declare.
func declaredReasons(t *testing.T) []string {
	t.Helper()
	var reasons []string
	for _, dir := range []string{"contract", "internal/children", "machine", "machineset", "machinepool"} {
		require.NoError(t, filepath.WalkDir(filepath.Join("..", "..", dir), func(path string, entry fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
			if err != nil {
				return err
			}
			reasons = append(reasons, reasonsIn(file)...)
			return nil
		}))
	}
	slices.Sort(reasons)
	return slices.Compact(reasons)
}

func reasonsIn(file *ast.File) []string {
	var reasons []string
	ast.Inspect(file, func(n ast.Node) bool {
		spec, is := n.(*ast.ValueSpec)
		if !is || len(spec.Values) != len(spec.Names) {
			return true
		}
		for i, name := range spec.Names {
			value, is := spec.Values[i].(*ast.BasicLit)
			if !is || !strings.HasPrefix(name.Name, "Reason") {
				continue
			}
			if text, err := strconv.Unquote(value.Value); err == nil && !strings.ContainsAny(text, "/") {
				reasons = append(reasons, text)
			}
		}
		return true
	})
	return reasons
}

func TestReportNever(t *testing.T) {
	t.Parallel()
	require.Contains(t, declaredReasons(t), "NodeDeleted")
	report := simulation.Report{Seen: simulation.Coverage{
		"reason Machine NodeReady Seen": 3, "step machine WaitForNode done": 1, "step machine WaitForNode failed": 0,
		"step machine Drain done": 0, "trait pods": 1,
	}}
	never := report.Never([]string{"Seen", "Unseen"})
	require.Subset(t, never, []string{"step machine Drain", "reason Unseen", "fault lag", "trait pool"})
	for _, seen := range []string{"step machine WaitForNode", "reason Seen", "trait pods"} {
		require.NotContains(t, never, seen)
	}
	var printed bytes.Buffer
	report.Print(&printed)
	require.Regexp(t, `(?m)^ +3  reason Machine NodeReady Seen$`, printed.String())
	require.NotContains(t, printed.String(), "step machine Drain")
}
