package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/machinist-dev/machinist/machine/userdata"
)

func TestADocumentIsRenderedFromFlags(t *testing.T) {
	ca, err := newCA()
	require.NoError(t, err)
	folder := t.TempDir()
	for name, content := range map[string]string{"ca.crt": ca, "token": token + "\n", "keys": "ssh-ed25519 AAAA one\nssh-ed25519 BBBB two\n"} {
		require.NoError(t, os.WriteFile(filepath.Join(folder, name), []byte(content), 0o600))
	}
	args := []string{"render", "-system", "flatcar", "-limit", "16384", "-binary", "-server", "https://192.0.2.1:6443",
		"-ca", filepath.Join(folder, "ca.crt"),
		"-token-file", filepath.Join(folder, "token"), "-ssh-keys", filepath.Join(folder, "keys"), "-name", "worker-7",
		"-labels", "a=b,c=", "-taints", "d=e:NoExecute,f:NoSchedule"}
	var out, errOut strings.Builder
	require.Equal(t, 0, run(t.Context(), args, &out, &errOut), errOut.String())
	joined, err := userdata.Parse([]byte(out.String()))
	require.NoError(t, err)
	require.Equal(t, "worker-7", joined.NodeName)
	if diff := cmp.Diff(map[string]string{"a": "b", "c": ""}, joined.Labels); diff != "" {
		t.Errorf("labels (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]corev1.Taint{{Key: "d", Value: "e", Effect: "NoExecute"}, {Key: "f", Effect: "NoSchedule"},
		userdata.UninitializedTaint()}, joined.Taints); diff != "" {
		t.Errorf("taints (-want +got):\n%s", diff)
	}
	require.Contains(t, out.String(), "ssh-ed25519 BBBB two")
}

func TestWrongArgumentsAreExplained(t *testing.T) {
	for arguments, want := range map[string]struct {
		code int
		says string
	}{
		"":                      {2, "render prints one document"},
		"paint":                 {2, "render prints one document"},
		"all":                   {2, "render prints one document"},
		"render -help":          {0, "file with the bootstrap token"},
		"render ubuntu":         {1, `render takes flags only, not "ubuntu"`},
		"render":                {1, "-ca: open"},
		"render -system beos":   {1, "-ca: open"},
		"all /no/such/folder":   {1, "no such file"},
		"verify and everything": {2, "render prints one document"},
	} {
		var out, errOut strings.Builder
		require.Equal(t, want.code, run(t.Context(), strings.Fields(arguments), &out, &errOut), arguments)
		require.Contains(t, errOut.String(), want.says, arguments)
		require.Empty(t, out.String(), arguments)
	}
}

func TestAllDocumentsAreWritten(t *testing.T) {
	folder := t.TempDir()
	var out, errOut strings.Builder
	require.Equal(t, 0, run(t.Context(), []string{"all", folder}, &out, &errOut), errOut.String())
	count := map[string]int{}
	entries, err := os.ReadDir(folder)
	require.NoError(t, err)
	for _, entry := range entries {
		count[filepath.Ext(entry.Name())]++
	}
	// 4 systems, 2 versions, 3 families, 2 architectures, and twice: with as little and as much as there can be. And 52 that are partly filled
	// for each system.
	if diff := cmp.Diff(map[string]int{".yaml": 2 * (72 + 3*52), ".ign": 2 * (24 + 52), ".sh": 96 + 4*52}, count); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
}
