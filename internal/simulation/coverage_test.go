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
	for _, dir := range []string{"contract", "machine", "machineset", "machinepool"} {
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

func TestAReportNamesWhatNoHistoryHad(t *testing.T) {
	t.Parallel()
	all := declaredReasons(t)
	require.Contains(t, all, "NodeDeleted")
	report := simulation.Report{
		Reasons: []string{"Seen", "Unseen"},
		Seen: simulation.Coverage{
			"reason Machine NodeReady Seen": 3, "step machine WaitForNode done": 1, "step machine WaitForNode failed": 0,
			"step machine Drain done": 0,
		},
	}
	require.Subset(t, report.Never(), []string{"step machine Drain", "reason Unseen", "fault lag"})
	require.NotContains(t, report.Never(), "step machine WaitForNode")
	require.NotContains(t, report.Never(), "reason Seen")
	var printed bytes.Buffer
	require.NoError(t, report.Print(&printed))
	require.Regexp(t, `(?m)^reason Unseen +never$`, printed.String())
	require.NotRegexp(t, `(?m)^step machine WaitForNode failed`, printed.String())
}
