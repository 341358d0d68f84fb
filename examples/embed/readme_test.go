package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/machinist-dev/machinist/contract"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/yaml"

	v1 "example.com/edge/v1"
)

// maxLines is the goal for what embedding takes besides the type.
const maxLines = 100

func TestEmbeddingTakesUnderAHundredLines(t *testing.T) {
	t.Parallel()
	machines, err := os.ReadFile("machines.go")
	require.NoError(t, err)
	stages, err := os.ReadFile("stages.go")
	require.NoError(t, err)
	lines, imports := 0, false
	for line := range strings.SplitSeq(string(machines)+string(stages), "\n") {
		line = strings.TrimSpace(line)
		imports = imports || strings.HasPrefix(line, "import (")
		if !imports && line != "" && !strings.HasPrefix(line, "//") && !strings.HasPrefix(line, "package ") {
			lines++
		}
		imports = imports && line != ")"
	}
	require.Less(t, lines, maxLines)
	readme, err := os.ReadFile("README.md")
	require.NoError(t, err)
	require.Contains(t, string(readme), fmt.Sprintf("**%d lines**", lines), "README.md tells another number of lines")
}

func TestTheREADMEIsOnePage(t *testing.T) {
	t.Parallel()
	readme, err := os.ReadFile("README.md")
	require.NoError(t, err)
	require.LessOrEqual(t, bytes.Count(readme, []byte("\n")), 70)
	for _, link := range regexp.MustCompile(`\]\(([^)#:]+)\)`).FindAllSubmatch(readme, -1) {
		_, err := os.Stat(string(link[1]))
		require.NoError(t, err)
	}
}

// Only what every Kubernetes object has is called as in Cluster API.
func TestTheTypeSharesNoFieldNameWithClusterAPI(t *testing.T) {
	t.Parallel()
	theirs := map[string]bool{}
	for _, version := range []contract.Version{contract.V1Beta1, contract.V1Beta2} {
		layout := contract.LayoutsOf(version).Machine
		addNames(theirs, reflect.ValueOf(layout).Elem())
	}
	require.Contains(t, theirs, "providerID")
	require.Contains(t, theirs, "nodeRef")
	for _, name := range []string{"metadata", "spec", "status", "conditions"} {
		delete(theirs, name)
	}
	for _, crd := range crdObjects(t) {
		versions, _, err := unstructured.NestedSlice(crd.Object, "spec", "versions")
		require.NoError(t, err)
		//nolint:forcetypeassert // a version is an object
		schema, _, err := unstructured.NestedMap(versions[0].(map[string]any), "schema", "openAPIV3Schema", "properties")
		require.NoError(t, err)
		ours := map[string]bool{}
		for _, part := range []string{"spec", "status"} {
			properties, _, err := unstructured.NestedMap(schema, part, "properties")
			require.NoError(t, err)
			for name := range properties {
				ours[name] = true
			}
		}
		require.Contains(t, ours, "serial")
		for _, name := range slices.Sorted(maps.Keys(ours)) {
			require.False(t, theirs[name], "%s is Cluster API's name", name)
		}
	}
}

// addNames adds every key on the way to a value of a layout.
func addNames(names map[string]bool, layout reflect.Value) {
	for i := range layout.NumField() {
		field := layout.Field(i)
		if at, ok := reflect.TypeAssert[interface{ Path() contract.Path }](field); ok {
			for _, name := range at.Path().Segments() {
				names[name] = true
			}
		} else if field.Kind() == reflect.Struct && layout.Type().Field(i).Anonymous {
			addNames(names, field)
		}
	}
}

// The tutorial shows the file.
func TestTheRightsInTheFileAreThoseThatArePrinted(t *testing.T) {
	t.Parallel()
	file, err := os.ReadFile("config/rbac.yaml")
	require.NoError(t, err)
	var out bytes.Buffer
	require.Zero(t, execute([]string{"--print-rbac"}, &out, &out))
	require.Equal(t, out.String(), string(file), "run make embed-run ARGS=--print-rbac > examples/embed/config/rbac.yaml")
}

func TestFlagsAndHelp(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		args []string
		code int
		says string
	}{
		"help":      {[]string{"--help"}, 0, "--print-crds | kubectl apply"},
		"CRDs":      {[]string{"--print-crds"}, 0, "edgegateways.edge.example.com"},
		"RBAC":      {[]string{"--print-rbac"}, 0, "edgeservers/status"},
		"no such":   {[]string{"--frobnicate"}, 2, "Run with --help"},
		"argument":  {[]string{"run"}, 2, `unexpected argument "run"`},
		"no server": {[]string{"--kubeconfig", "/dev/null/none"}, 1, "kubeconfig"},
	} {
		var out bytes.Buffer
		require.Equal(t, c.code, execute(c.args, &out, &out), name)
		require.Contains(t, out.String(), c.says, name)
	}
	_, err := parse([]string{"-h"}, io.Discard)
	require.ErrorIs(t, err, flag.ErrHelp)
}

func TestAKubeconfigThatIsNotThereIsNamed(t *testing.T) {
	nowhere := t.TempDir() + "/nope"
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	t.Setenv("KUBECONFIG", nowhere)
	_, err := restConfig("")
	require.ErrorContains(t, err, nowhere+" does not exist")
	require.NotContains(t, err.Error(), "KUBERNETES_MASTER")
}

// full is a disk without space.
type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("no space left") }

func TestOutputThatIsLostIsAFailure(t *testing.T) {
	for _, args := range [][]string{{"--help"}, {"--print-crds"}, {"--print-rbac"}} {
		var stderr bytes.Buffer
		require.Equal(t, 1, execute(args, full{}, &stderr), args)
		require.Equal(t, 1, strings.Count(stderr.String(), "no space left"), stderr.String())
	}
}

// A person applies the sample as README.md says. Each box has a serial that the CRD accepts.
func TestTheSampleIsServed(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile("config/sample.yaml")
	require.NoError(t, err)
	r := newRack(t)
	for document := range strings.SplitSeq(string(raw), "\n---\n") {
		var box v1.Box = &v1.EdgeServer{}
		if strings.Contains(document, "EdgeGateway") {
			box = &v1.EdgeGateway{}
		}
		require.NoError(t, yaml.UnmarshalStrict([]byte(document), box))
		require.NoError(t, r.client.Create(t.Context(), box))
		r.comesTo(box, "Serving", "HostReady", "")
		hardware, report := box.Parts()
		require.Equal(t, hostname(hardware.Serial), report.Host)
	}
}

func TestEverySerialHasAHostname(t *testing.T) {
	t.Parallel()
	names := map[string]bool{}
	for _, serial := range []string{"a", "gw-0815", "SN-4711", "sn-4711", "SN 4711/A", "Ünï", "-", strings.Repeat("a", 64),
		strings.Repeat("b", 300)} {
		name := hostname(serial)
		require.Empty(t, validation.IsDNS1123Subdomain(name), "as the name of a Node: %q", serial)
		require.Empty(t, validation.IsValidLabelValue(name), "as the value of a label: %q", serial)
		require.False(t, names[name], "two serials with one hostname: %q", serial)
		names[name] = true
	}
	require.Equal(t, "gw-0815", hostname("gw-0815"))
}
