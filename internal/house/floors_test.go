package house

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
)

// The table of floors is the law; depguard in .golangci.yml has the same per file, for editors.

// floor is a group of packages that may import the same things.
type floor struct {
	name string
	// packages stand on the floor. A package may be listed before it exists.
	packages []string
	// uses names the floors whose packages may be imported.
	uses []string
	// outside are the import paths beyond the standard library that may be imported, with what is below them.
	outside []string
	// not are exceptions from outside and from the standard library, with what is below them.
	not []string
	// unlinked must not be linked at all, not even through others.
	unlinked []string
}

// Sets of import paths. They are functions because nothing may change them.
func apiOnly() []string {
	return []string{"k8s.io/apimachinery", "k8s.io/api", "k8s.io/utils"}
}

func clients() []string {
	return append(apiOnly(), "golang.org/x/time/rate", "github.com/prometheus/client_golang", "github.com/go-logr/logr",
		"k8s.io/client-go", "sigs.k8s.io/controller-runtime")
}

// impure is what a package that only decides has no business with: time that passes, chance, logs, the world, requests.
func impure() []string {
	return []string{"context", "log", "math/rand", "crypto/rand", "os", "net/http/httptest", "testing",
		"k8s.io/utils/clock", "k8s.io/apimachinery/pkg/util/wait", "k8s.io/apimachinery/pkg/util/rand"}
}

func floors() []floor {
	const kubectl, runtime, goClient = "k8s.io/kubectl", "sigs.k8s.io/controller-runtime", "k8s.io/client-go"
	everything := []string{"0 decide", "1 ports", "2 reach", "3 reconcile", "fake", "test kit"}
	return []floor{
		{name: "0 decide", packages: []string{"contract", "contract/conformance", "contract/autoscaler", "phases", "noderef",
			"noderef/propagate", "drain", "machine/userdata", "machine/healthcheck", "machineset/scale", "machineset/rollout"},
			uses: []string{"0 decide"}, outside: apiOnly(), not: impure(), unlinked: []string{runtime, goClient, kubectl}},
		{name: "1 ports", packages: []string{"machine/provider"},
			uses:     []string{"0 decide"},
			outside:  append(apiOnly(), "golang.org/x/time/rate", "github.com/prometheus/client_golang", "github.com/go-logr/logr"),
			not:      []string{"testing"},
			unlinked: []string{runtime, goClient, kubectl}},
		{name: "2 reach", packages: []string{"noderef/cluster", "drain/runner", "contract/pass", "internal/external", "internal/patch",
			"internal/instance", "internal/engine", "internal/children"},
			uses:    []string{"0 decide", "1 ports", "2 reach"},
			outside: append(clients(), "gopkg.in/evanphx/json-patch.v4"), not: []string{"testing"}, unlinked: []string{kubectl}},
		{name: "3 reconcile", packages: []string{"machine", "machine/inframachine", "machine/remediation", "machineset",
			"machineset/deployment", "machineset/guard", "machinepool"},
			uses: []string{"0 decide", "1 ports", "2 reach"}, outside: clients(), not: []string{"testing"}, unlinked: []string{kubectl}},
		{name: "fake", packages: []string{"fake"},
			uses:    []string{"0 decide", "1 ports"},
			outside: append(clients(), "gopkg.in/evanphx/json-patch.v4", "k8s.io/apiextensions-apiserver", "k8s.io/klog/v2", "sigs.k8s.io/yaml"),
			not:     []string{"testing"}, unlinked: []string{kubectl}},
		{name: "test kit", packages: []string{"internal/apitest", "internal/apitest/published", "internal/simulation",
			"internal/apitest/testenv", "internal/house"},
			uses: everything, outside: append(clients(), "gopkg.in/evanphx/json-patch.v4", "k8s.io/klog/v2", "sigs.k8s.io/yaml"),
			unlinked: []string{kubectl}},
		{name: "4 adapters", packages: []string{"drain/kubectl"},
			uses: everything, outside: append(clients(), kubectl)},
		{name: "4 examples", packages: []string{"examples/..."},
			uses: append(slices.Clone(everything), "4 adapters", "4 examples"), outside: []string{"..."}, not: []string{kubectl}},
	}
}

// forTests is what tests of every floor may import in addition.
func forTests() []string {
	return []string{"github.com/google/go-cmp", "github.com/stretchr/testify/require", "gopkg.in/evanphx/json-patch.v4",
		"go.uber.org/goleak", "sigs.k8s.io/yaml"}
}

// goPackage is what the go command says about a package.
type goPackage struct {
	ImportPath, Name, Dir              string
	Standard                           bool
	Imports, TestImports, XTestImports []string
	Deps                               []string
}

// rel returns the path below the module.
func (p goPackage) rel() string { return strings.TrimPrefix(p.ImportPath, module+"/") }

func TestFloors(t *testing.T) {
	for _, p := range listPackages(t) {
		f, ok := floorOf(p.rel())
		if !ok {
			t.Errorf("package %s stands on no floor: give it a place in the table of internal/house/floors_test.go", p.rel())
			continue
		}
		for _, broken := range brokenRules(f, p.rel(), p.Imports, p.Deps) {
			t.Error(broken)
		}
	}
}

func TestFloorsOfTests(t *testing.T) {
	for _, p := range listPackages(t) {
		f, ok := floorOf(p.rel())
		if !ok {
			continue
		}
		// Tests have a world around them: they make contexts, use chance with a seed, clients, and the test kit.
		f.uses = append(slices.Clone(f.uses), "fake", "test kit")
		if p.rel() == "machineset/deployment" {
			f.uses = append(f.uses, "3 reconcile") // the sets that a deployment makes are kept by the reconciler of sets, not by a copy of it
		}
		if p.rel() == "machine/inframachine" {
			f.uses = append(f.uses, "3 reconcile") // the Machines above its InfraMachines are those of the reconciler of Machines
		}
		f.outside = append(slices.Concat(f.outside, clients()), forTests()...)
		f.not, f.unlinked = nil, nil
		imports := slices.Concat(p.TestImports, p.XTestImports)
		for _, broken := range brokenRules(f, p.rel(), imports, nil) {
			t.Error(broken + " (in its tests)")
		}
	}
}

func TestBrokenRules(t *testing.T) {
	tests := map[string]struct {
		pkg     string
		imports []string
		deps    []string
		want    []string
	}{
		"a package that decides may use values of the API": {pkg: "drain",
			imports: []string{"time", "k8s.io/api/core/v1", "k8s.io/apimachinery/pkg/types", "k8s.io/utils/ptr"}},
		"a package that decides has no context and no clock": {pkg: "drain",
			imports: []string{"context", "k8s.io/utils/clock"},
			want: []string{"drain must not import context: floor 0 decide forbids it",
				"drain must not import k8s.io/utils/clock: floor 0 decide forbids it"}},
		"a package that decides has no client, not even through others": {pkg: "phases", deps: []string{"k8s.io/client-go/rest"},
			want: []string{"phases must not link k8s.io/client-go/rest: floor 0 decide forbids it"}},
		"many Machines meet one Machine only through objects": {pkg: "machineset", imports: []string{module + "/machine"},
			want: []string{"machineset must not import machine: floor 3 reconcile may not use floor 3 reconcile"}},
		"packages below the adapters do not import them": {pkg: "machine", imports: []string{module + "/drain/kubectl"},
			want: []string{"machine must not import drain/kubectl: floor 3 reconcile may not use floor 4 adapters"}},
		"the adapter may use kubectl": {pkg: "drain/kubectl",
			imports: []string{"k8s.io/kubectl/pkg/drain", "k8s.io/kubectl/pkg/cmd/util", module + "/drain"}},
		"packages below the adapters do not link kubectl, not even through one": {pkg: "drain/runner", deps: []string{"k8s.io/kubectl/pkg/drain"},
			want: []string{"drain/runner must not link k8s.io/kubectl/pkg/drain: floor 2 reach forbids it"}},
		"only one package imports kubectl": {pkg: "examples/manager", imports: []string{"k8s.io/kubectl/pkg/drain"},
			want: []string{"examples/manager must not import k8s.io/kubectl/pkg/drain: floor 4 examples forbids it"}},
		"an unknown module is not allowed": {pkg: "machine", imports: []string{"example.com/lo"},
			want: []string{"machine must not import example.com/lo: floor 3 reconcile does not list it"}},
		"a name that only begins alike is another module": {pkg: "contract", imports: []string{"k8s.io/apiserver/pkg/util"},
			want: []string{"contract must not import k8s.io/apiserver/pkg/util: floor 0 decide does not list it"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			f, ok := floorOf(tc.pkg)
			require.True(t, ok)
			if diff := cmp.Diff(tc.want, brokenRules(f, tc.pkg, tc.imports, tc.deps)); diff != "" {
				t.Errorf("broken rules (-want +got):\n%s", diff)
			}
		})
	}
}

// brokenRules names what a package imports and links against the rules of its floor.
func brokenRules(f floor, pkg string, imports, deps []string) []string {
	var broken []string
	for _, imp := range imports {
		if why := refused(f, pkg, imp); why != "" {
			broken = append(broken, pkg+" must not import "+strings.TrimPrefix(imp, module+"/")+": floor "+f.name+" "+why)
		}
	}
	for _, dep := range deps {
		if within(dep, f.unlinked) {
			broken = append(broken, pkg+" must not link "+dep+": floor "+f.name+" forbids it")
		}
	}
	return broken
}

// refused says why a floor may not import a path, or nothing.
func refused(f floor, pkg, imp string) string {
	if rel, ours := strings.CutPrefix(imp, module+"/"); ours {
		target, ok := floorOf(rel)
		switch {
		case !ok:
			return "may not use a package that stands on no floor"
		case rel != pkg && !slices.Contains(f.uses, target.name):
			return "may not use floor " + target.name
		}
		return ""
	}
	first, _, _ := strings.Cut(imp, "/")
	standard := !strings.Contains(first, ".")
	switch {
	case within(imp, f.not):
		return "forbids it"
	case !standard && !within(imp, f.outside):
		return "does not list it"
	}
	return ""
}

func floorOf(rel string) (floor, bool) {
	for _, f := range floors() {
		if slices.ContainsFunc(f.packages, func(p string) bool { return matches(p, rel) }) {
			return f, true
		}
	}
	return floor{}, false
}

// matches is true for equal paths, and below a pattern that ends in "/...".
func matches(pattern, rel string) bool {
	folder, below := strings.CutSuffix(pattern, "/...")
	return pattern == rel || below && (rel == folder || strings.HasPrefix(rel, folder+"/"))
}

func within(imp string, paths []string) bool {
	return slices.ContainsFunc(paths, func(p string) bool {
		return p == "..." || imp == p || strings.HasPrefix(imp, p+"/")
	})
}

// listPackages asks the go command about every package of the root module; nested modules are left out by it.
func listPackages(t *testing.T) []goPackage {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "list", "-e", "-json=ImportPath,Name,Dir,Standard,Imports,TestImports,XTestImports,Deps",
		"./...")
	cmd.Dir = root
	out, err := cmd.Output()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		t.Fatalf("go list: %v\n%s", err, exit.Stderr)
	}
	require.NoError(t, err)

	var packages []goPackage
	decoder := json.NewDecoder(strings.NewReader(string(out)))
	for {
		var p goPackage
		err := decoder.Decode(&p)
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		if p.Dir != "" && path.Base(p.ImportPath) != "testdata" {
			_, err := os.ReadDir(p.Dir) // the go command repeats this test when a file changes that it looked at
			require.NoError(t, err)
			packages = append(packages, p)
		}
	}
	require.NotEmpty(t, packages)
	return packages
}
