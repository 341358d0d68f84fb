package contract_test

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// mostLinked is how many packages outside the standard library a program gets with package machine. controller-runtime alone brings
// 564 and the reconciler of Cluster API 917: what comes on top is paid by every operator in build time, size and updates.
const mostLinked = 640

func TestMachineLinksFewPackages(t *testing.T) {
	t.Parallel()
	const top = module + "/machine"
	graph := importGraph(t, top)
	linked := len(reached(graph, top, ""))
	if linked > mostLinked {
		t.Errorf("package machine links %d packages outside the standard library, more than %d. What brings most:\n%s",
			linked, mostLinked, strings.Join(costs(graph, top), "\n"))
	}
	t.Logf("package machine links %d packages outside the standard library, at most %d are allowed", linked, mostLinked)
}

func TestTheCostOfAnImportIsWhatNothingElseBrings(t *testing.T) {
	t.Parallel()
	graph := map[string][]string{
		module + "/machine": {module + "/drain", "example.com/big", "example.com/shared"},
		module + "/drain":   {"example.com/shared", "example.com/small"},
		"example.com/big":   {"example.com/big/a", "example.com/big/b", "example.com/shared"},
		"example.com/big/a": {"example.com/big/b"},
		"example.com/big/b": nil, "example.com/shared": nil, "example.com/small": nil,
	}
	require.Len(t, reached(graph, module+"/machine", ""), 7)
	require.Equal(t, []string{
		"  3 go with example.com/big, imported by machine",
		"  1 go with example.com/shared, imported by drain, machine",
		"  1 go with example.com/small, imported by drain",
	}, costs(graph, module+"/machine"))
}

// importGraph returns what is imported by a package and by all that it links, without the standard library.
func importGraph(t *testing.T, top string) map[string][]string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "list", "-deps", "-json=ImportPath,Standard,Imports", top)
	cmd.Dir = root
	out, err := cmd.Output()
	require.NoError(t, err)
	graph := map[string][]string{}
	for decoder := json.NewDecoder(bytes.NewReader(out)); ; {
		var p goPackage
		err := decoder.Decode(&p)
		if errors.Is(err, io.EOF) {
			return graph
		}
		require.NoError(t, err)
		if !p.Standard {
			graph[p.ImportPath] = p.Imports
		}
	}
}

// reached returns what is linked by a package, itself included, without the imports of one path.
func reached(graph map[string][]string, top, without string) map[string]bool {
	seen, todo := map[string]bool{top: true}, []string{top}
	for len(todo) > 0 {
		next := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		for _, imp := range graph[next] {
			if _, linked := graph[imp]; linked && imp != without && !seen[imp] {
				seen[imp] = true
				todo = append(todo, imp)
			}
		}
	}
	return seen
}

// costs says of the ten dearest imports of this module how many packages would not be linked without them.
func costs(graph map[string][]string, top string) []string {
	importers := map[string][]string{}
	for pkg, imports := range graph {
		if rel, ours := strings.CutPrefix(pkg, module+"/"); ours {
			for _, imp := range imports {
				if _, linked := graph[imp]; linked && !strings.HasPrefix(imp, module+"/") {
					importers[imp] = append(importers[imp], rel)
				}
			}
		}
	}
	type cost struct {
		path string
		n    int
	}
	var all []cost
	for imp := range importers {
		all = append(all, cost{imp, len(reached(graph, top, "")) - len(reached(graph, top, imp))})
	}
	slices.SortFunc(all, func(a, b cost) int { return cmp.Or(b.n-a.n, cmp.Compare(a.path, b.path)) })
	var lines []string
	for _, c := range all[:min(10, len(all))] {
		slices.Sort(importers[c.path])
		lines = append(lines, fmt.Sprintf("  %d go with %s, imported by %s", c.n, c.path, strings.Join(importers[c.path], ", ")))
	}
	return lines
}
