package main

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// crd returns a CRD of an InfraMachine whose only API version, v1, fulfils contract v1beta1.
func crd(kind, labels string) string {
	return `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: ` + strings.ToLower(kind) + `s.infrastructure.cluster.x-k8s.io
  labels: {` + labels + `}
spec:
  group: infrastructure.cluster.x-k8s.io
  scope: Namespaced
  names: {kind: ` + kind + `, plural: ` + strings.ToLower(kind) + `s}
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {status: {}}
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec: {type: object, properties: {providerID: {type: string}}}
          status:
            type: object
            properties:
              ready: {type: boolean}
              conditions: {type: array, items: {type: object, required: [status, type], properties: {
                type: {type: string}, status: {type: string}, reason: {type: string}, message: {type: string}}}}
`
}

const v1beta1 = "cluster.x-k8s.io/v1beta1: v1"

// files writes a folder and returns it.
func files(t *testing.T, contents map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range contents {
		path := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o750))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	}
	return dir
}

// outcome is what a run answered.
type outcome struct {
	code        int
	out, errors string
}

func lintWith(stdin string, args ...string) outcome {
	var out, errs strings.Builder
	code := run(args, strings.NewReader(stdin), &out, &errs)
	return outcome{code, out.String(), errs.String()}
}

func TestRun_HelpTeaches(t *testing.T) {
	for _, flag := range []string{"-h", "--help"} {
		got := lintWith("", flag)
		require.Zero(t, got.code)
		require.Empty(t, got.errors)
		for _, word := range []string{"kustomize build config/crd | contractlint -", "-o json", "Exit codes:", "-role role", "-strict"} {
			require.Contains(t, got.out, word)
		}
	}
}

func TestRun_WrongUsageIsExitCode2(t *testing.T) {
	dir := files(t, map[string]string{
		"broken.yaml": "a: [", "values.yaml": "a: 1", "empty/notes.txt": "", "service.yaml": "kind: Service\napiVersion: v1",
	})
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"nothing to read":           {nil, "name a file, a folder, or - for standard input"},
		"an unknown flag":           {[]string{"-x"}, "flag provided but not defined: -x"},
		"an unknown format":         {[]string{"-o", "xml", dir}, `-o is text or json, not "xml"`},
		"an unknown role":           {[]string{"-role", "Machine", dir}, "want one of [InfraMachine "},
		"an unknown role of a kind": {[]string{"-role", "FooMachine=Machine", dir}, "want one of [InfraMachine "},
		"a role of no kind":         {[]string{"-role", "=InfraMachine", dir}, `name a kind before the = of "=InfraMachine"`},
		"an unknown contract":       {[]string{"-contract", "v1", dir}, `-contract is one of [v1beta2 v1beta1 v1alpha4 v1alpha3], not "v1"`},
		"no such file":              {[]string{filepath.Join(dir, "x.yaml")}, "x.yaml: no such file"},
		"no YAML":                   {[]string{filepath.Join(dir, "broken.yaml")}, "read document 1 of " + filepath.Join(dir, "broken.yaml")},
		"no object": {[]string{filepath.Join(dir, "values.yaml")},
			"found neither a CustomResourceDefinition nor an object of a provider"},
		"no provider":               {[]string{filepath.Join(dir, "service.yaml")}, "found neither"},
		"nothing in a folder":       {[]string{filepath.Join(dir, "empty")}, "found neither"},
		"nothing on standard input": {[]string{"-"}, "found neither"},
	} {
		t.Run(name, func(t *testing.T) {
			got := lintWith("", c.args...)
			require.Equal(t, exitUsage, got.code)
			require.Contains(t, got.errors, c.want)
		})
	}
}

type brokenPipe struct{}

func (brokenPipe) Read([]byte) (int, error)  { return 0, errors.New("pipe is broken") }
func (brokenPipe) Write([]byte) (int, error) { return 0, errors.New("pipe is broken") }

func TestRun_BrokenPipesAreExitCode2(t *testing.T) {
	var errs strings.Builder
	require.Equal(t, exitUsage, run([]string{"-"}, brokenPipe{}, &errs, &errs))
	require.Contains(t, errs.String(), "read standard input: pipe is broken")
	require.Equal(t, exitUsage, run([]string{"-"}, strings.NewReader(crd("FooMachine", v1beta1)), brokenPipe{}, &errs))
	require.Equal(t, exitUsage, run([]string{"--help"}, strings.NewReader(""), brokenPipe{}, &errs))
}

func TestRun_ExitCodes(t *testing.T) {
	noConditions := strings.ReplaceAll(crd("FooMachine", v1beta1), "conditions:", "nothing:")
	for name, c := range map[string]struct {
		stdin string
		args  []string
		want  int
	}{
		"every rule holds":               {crd("FooMachine", v1beta1), nil, exitOK},
		"a MUST is broken":               {crd("FooMachine", ""), nil, exitBroken},
		"a SHOULD is broken":             {noConditions, nil, exitOK},
		"a SHOULD is broken, and counts": {noConditions, []string{"-strict"}, exitBroken},
		"nothing has a role":             {crd("FooCluster", v1beta1), nil, exitOK},
		"a role is forced":               {crd("FooServer", ""), []string{"-role", "inframachine"}, exitBroken},
		"a MUST, and an unreadable rest": {crd("FooMachine", "") + "---\na: [", nil, exitUsage},
	} {
		t.Run(name, func(t *testing.T) {
			got := lintWith(c.stdin, append(c.args, "-")...)
			require.Equal(t, c.want, got.code, got.out+got.errors)
		})
	}
}

func TestRun_TextIsForPeople(t *testing.T) {
	got := lintWith(crd("FooMachine", "cluster.x-k8s.io/v1beta2: v1")+"---"+crd("FooCluster", v1beta1), "-")
	require.Equal(t, `foomachines.infrastructure.cluster.x-k8s.io as InfraMachine: v1 by contract v1beta2
  from    standard input
  MUST    spec.versions[v1]: status.initialization.provisioned
          found nothing
          want  boolean
          rule  InfraMachine contract v1beta2, initialization completed: `+
		`its owner waits for it to be true, without an end and without an error, and the API server drops what the schema lacks

Not judged:
  fooclusters.infrastructure.cluster.x-k8s.io: FooCluster is no kind that a Machine or a MachinePool reads, by its group and name
checked 1, not judged 1: 1 MUST and 0 SHOULD broken
`, got.out)
	require.Equal(t, exitBroken, got.code)
}

func TestRun_JSONIsForPrograms(t *testing.T) {
	require.NotContains(t, lintWith(crd("FooMachine", v1beta1), "-o", "json", "-").out, "null", "programs iterate over lists")
	got := lintWith(crd("FooMachine", v1beta1+", cluster.x-k8s.io/v1beta2: v2")+"---"+crd("FooCluster", v1beta1), "-o", "json", "-")
	var result result
	require.NoError(t, json.Unmarshal([]byte(got.out), &result))
	require.Equal(t, 1, result.Must)
	require.Len(t, result.Checked, 1)
	require.Equal(t, "metadata.labels[cluster.x-k8s.io/v1beta2]", result.Checked[0].Findings[0].Path)
	require.Len(t, result.Skipped, 1)
	for _, key := range []string{`"level": "MUST"`, `"role": "InfraMachine"`, `"contract": "v1beta1"`, `"warnings": []`, `"findings": [`} {
		require.Contains(t, got.out, key)
	}
}

const fooMachine = `
apiVersion: infrastructure.cluster.x-k8s.io/v1
kind: FooMachine
metadata: {namespace: default, name: worker-1}
`

func TestRun_ObjectsAreJudgedToo(t *testing.T) {
	done := fooMachine + "status: {ready: true}\n"
	for name, c := range map[string]struct {
		stdin string
		args  []string
		want  int
		text  string
	}{
		"by the contract of the CRD beside it": {done + "---" + crd("FooMachine", v1beta1), nil, exitBroken,
			"FooMachine default/worker-1 as InfraMachine: v1 by contract v1beta1"},
		"not without a contract": {fooMachine + "status: {ready: true}", nil, exitOK, "add the CRD, or give -contract"},
		"by the contract that is asked for": {fooMachine + "status: {ready: true}", []string{"-contract", "v1beta2"}, exitBroken,
			"status.ready is, the place of contract v1beta1"},
		"one that was just made": {fooMachine, []string{"-contract", "v1beta2"}, exitOK, "checked 1, not judged 0: 0 MUST"},
		"inside a List": {"apiVersion: v1\nkind: List\nitems:\n- {apiVersion: infrastructure.cluster.x-k8s.io/v1, kind: FooMachine, metadata: " +
			"{name: a}, spec: {providerID: 7}}",
			[]string{"-contract", "v1beta2"}, exitBroken, "FooMachine a as InfraMachine"},
		"at a version that its CRD does not list": {done + "---" + crd("FooMachine", "cluster.x-k8s.io/v1beta1: v2"), nil, exitBroken,
			`Cluster API reads objects of this kind at v2, and not at v1`},
		"at a version of a CRD without labels": {fooMachine + "---" + crd("FooMachine", ""), nil, exitBroken,
			"FooMachine default/worker-1: no CRD with a contract label in the input"},
	} {
		t.Run(name, func(t *testing.T) {
			got := lintWith(c.stdin, append(c.args, "-")...)
			require.Equal(t, c.want, got.code, got.out+got.errors)
			require.Contains(t, got.out, c.text)
		})
	}
}

// pooled is a kind like k0smotron's PooledRemoteMachine: an inventory of hosts, by its name an InfraMachine.
func pooled() string {
	return `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: pooledfoomachines.infrastructure.cluster.x-k8s.io, labels: {` + v1beta1 + `}}
spec:
  group: infrastructure.cluster.x-k8s.io
  scope: Namespaced
  names: {kind: PooledFooMachine, plural: pooledfoomachines}
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, properties: {
      spec: {type: object, properties: {pool: {type: string}, machine: {type: object, properties: {address: {type: string}}}}},
      status: {type: object, properties: {reserved: {type: boolean}, machineRef: {type: object}}}}}}
---
apiVersion: infrastructure.cluster.x-k8s.io/v1
kind: PooledFooMachine
metadata: {namespace: default, name: host-1}
status: {ready: "yes"}
`
}

func TestRun_AKindThatOnlyItsNameMakesAnInfraMachineIsNotJudged(t *testing.T) {
	const doubt = "PooledFooMachine is called like an object of role InfraMachine and has none of its fields: to judge it, give -role " +
		"PooledFooMachine=InfraMachine"
	for name, c := range map[string]struct {
		args []string
		want int
		text string
	}{
		"nothing is said":       {[]string{"-strict"}, exitOK, doubt},
		"it is said to be none": {[]string{"-role", "PooledFooMachine=none"}, exitOK, "checked 0, not judged 2: 0 MUST"},
		"it is said to be none, fully": {[]string{"-strict", "--role", "PooledFooMachine.infrastructure.cluster.x-k8s.io=none"}, exitOK,
			"not judged 2"},
		"another kind is said to be": {[]string{"-role", "BarMachine=InfraMachine"}, exitOK, doubt},
		"it is said to be one": {[]string{"-role", "PooledFooMachine=inframachine"}, exitBroken,
			"as InfraMachine: v1 by contract v1beta1"},
		"everything is said to be one":  {[]string{"-role", "InfraMachine"}, exitBroken, "checked 2, "},
		"its kind goes before everyone": {[]string{"-role", "InfraMachine", "-role", "PooledFooMachine=none"}, exitOK, "not judged 2"},
	} {
		t.Run(name, func(t *testing.T) {
			got := lintWith(pooled(), append(c.args, "-")...)
			require.Equal(t, c.want, got.code, got.out+got.errors)
			require.Contains(t, strings.Join(strings.Fields(got.out), " "), c.text)
		})
	}
}

func TestRun_ObjectsOfAVersionThatIsNeverReadAreNotJudged(t *testing.T) {
	both := strings.ReplaceAll(crd("FooMachine", "cluster.x-k8s.io/v1beta1: v1_v2"), "- name: v1", "- name: v2")
	got := lintWith(both+"---"+fooMachine+"status: {ready: true}", "-")
	require.Contains(t, got.out, "FooMachine default/worker-1: Cluster API reads objects of this kind at v2, and not at v1")
}
