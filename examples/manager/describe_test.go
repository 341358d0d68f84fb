package main

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/examples/manager/describe"
	"github.com/machinist-dev/machinist/machineset/deployment"
)

func TestATreeIsPrintedAsATableOrAsJSON(t *testing.T) {
	t.Parallel()
	c, status := rolloutWorld(t)
	status(map[string]any{"replicas": int64(2), "availableReplicas": int64(1)})
	kinds, err := deployment.ClusterAPI(contract.V1Beta2)
	require.NoError(t, err)
	r := describe.Reader{Client: c.Client, Kinds: kinds}
	for _, args := range [][]string{{"workers"}, {"-o", "json", "workers"}} {
		o, err := parseTree(args, &bytes.Buffer{})
		require.NoError(t, err)
		var out bytes.Buffer
		require.NoError(t, o.tree(t.Context(), r, &out))
		if o.output == "" {
			require.Contains(t, out.String(), "MachineDeployment/workers   2/2, 1 available, 0 up to date")
			continue
		}
		var tree describe.Tree
		require.NoError(t, json.Unmarshal(out.Bytes(), &tree))
		require.Equal(t, "workers", tree.Name)
	}
}

func TestAWatchedTreeIsPrintedAfterChangesOnlyAndGoesOnThroughErrors(t *testing.T) {
	t.Parallel()
	c, status := rolloutWorld(t)
	status(map[string]any{"replicas": int64(2), "availableReplicas": int64(1)})
	unsteady := &flaky{c.Client, []error{refused(1), refused(2)}}
	reads, step := 0, func() {}
	kinds, err := deployment.ClusterAPI(contract.V1Beta2)
	require.NoError(t, err)
	r := describe.Reader{Client: counting{unsteady, func() { reads++; step() }}, Kinds: kinds}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	step = func() {
		switch reads {
		case 8:
			status(map[string]any{"replicas": int64(2), "availableReplicas": int64(2)})
		case 16:
			cancel()
		}
	}
	o, err := parseTree([]string{"workers", "--watch"}, &bytes.Buffer{})
	require.NoError(t, err)
	o.interval = time.Millisecond
	var out bytes.Buffer
	require.NoError(t, o.tree(ctx, r, &out), "Ctrl-C is no error")
	require.Equal(t, 1, strings.Count(out.String(), "does not answer"), out.String())
	require.Equal(t, 1, strings.Count(out.String(), "1 available"), out.String())
	require.Equal(t, 1, strings.Count(out.String(), "2 available"), out.String())
}

// counting tells of each get.
type counting struct {
	client.Client

	told func()
}

func (c counting) Get(ctx context.Context, key types.NamespacedName, obj client.Object, options ...client.GetOption) error {
	c.told()
	return c.Client.Get(ctx, key, obj, options...)
}

func TestWrongWordsOfDescribeAndTreeAreExplained(t *testing.T) {
	t.Parallel()
	for words, want := range map[string]string{
		"describe":          "give a kind and a name",
		"describe node n1":  "give a kind and a name",
		"describe machine":  "give a kind and a name",
		"describe -o yaml":  `-o "yaml": give json`,
		"tree":              "give the name of a MachineDeployment",
		"tree a b":          "give the name of a MachineDeployment",
		"tree --frobnicate": "frobnicate",
		"orphans x":         `unexpected argument "x"`,
	} {
		var stdout, stderr bytes.Buffer
		require.Equal(t, exitUsage, execute(strings.Fields(words), &stdout, &stderr), words)
		require.Contains(t, stderr.String(), want)
		require.Empty(t, stdout.String())
	}
	for _, command := range []string{"describe", "tree", "orphans", "rollout"} {
		var stdout, stderr bytes.Buffer
		require.Equal(t, exitDone, execute([]string{command, "--help"}, &stdout, &stderr))
		require.Contains(t, stdout.String(), "Exit codes")
		require.Contains(t, stdout.String(), "-kubeconfig")
	}
}
