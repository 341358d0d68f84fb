package cluster

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/machinist-dev/machinist/examples/lab/internal/progress"
)

func TestTheCacheKeyChangesWithTheSourcesAndWithNothingElse(t *testing.T) {
	source := t.TempDir()
	write := func(name, content string) {
		path := filepath.Join(source, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
	}
	key := func() string {
		key, err := cacheKey(t.Context(), source)
		require.NoError(t, err)
		return key
	}
	write("go.mod", "module m\n")
	write("kwok/main.go", "package main\n")
	first := key()
	require.Equal(t, first, key())
	write("README.md", "not built")
	require.Equal(t, first, key())
	write("kwok/main.go", "package  main\n")
	second := key()
	require.NotEqual(t, first, second)
	write("go.sum", "x\n")
	require.NotEqual(t, second, key())
}

func TestTheProgramsSayTheReleaseThatTheModuleRequires(t *testing.T) {
	source := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(source, "go.mod"), []byte("module m\n\nrequire sigs.k8s.io/kwok v0.7.0\n\nrequire (\n"+
		"\tk8s.io/kubernetes v1.35.4\n)\n\nreplace (\n\tk8s.io/api => k8s.io/api v0.35.4\n)\n"), 0o600))
	require.NoError(t, os.Mkdir(filepath.Join(source, "controlplane"), 0o755))
	kwokless, err := programs(source)
	require.NoError(t, err)
	require.Len(t, kwokless, 1, "a copy without kwok uses that of the checkout")
	require.NoError(t, os.Mkdir(filepath.Join(source, "kwok"), 0o755))
	got, err := programs(source)
	require.NoError(t, err)
	require.Equal(t, []program{
		{"controlplane", "-s -w -X k8s.io/component-base/version.gitVersion=v1.35.4 -X k8s.io/client-go/pkg/version.gitVersion=v1.35.4"},
		{"kwok", "-s -w -X sigs.k8s.io/kwok/pkg/consts.Version=v0.7.0"},
	}, got)

	_, err = programs(t.TempDir())
	require.ErrorContains(t, err, "which release of Kubernetes")
}

func TestAVariableSelectsOtherSources(t *testing.T) {
	own, err := sourceDir(t.Context())
	require.NoError(t, err)
	require.Equal(t, "bin", filepath.Base(own))

	other := t.TempDir()
	t.Setenv(SourceVar, other)
	_, err = sourceDir(t.Context())
	require.ErrorIs(t, err, ErrNoSource)
	require.ErrorContains(t, err, SourceVar)
	require.NoError(t, os.WriteFile(filepath.Join(other, "go.mod"), []byte("module m\n"), 0o600))
	got, err := sourceDir(t.Context())
	require.NoError(t, err)
	require.Equal(t, other, got)
}

func TestOnlyOneProcessBuildsAtATimeAndAnotherWaitsUntilItsContextEnds(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	unlock, err := lockFile(t.Context(), path, progress.New(nil, "controlplane"))
	require.NoError(t, err)

	impatient, cancel := context.WithCancelCause(t.Context())
	stopped := errors.New("stopped waiting")
	cancel(stopped)
	var messages bytes.Buffer
	_, err = lockFile(impatient, path, progress.New(&messages, "controlplane"))
	require.ErrorIs(t, err, stopped)
	require.Contains(t, messages.String(), "another process is building")

	var waiting sync.WaitGroup
	waiting.Go(func() {
		second, err := lockFile(t.Context(), path, progress.New(nil, "controlplane"))
		if err != nil {
			t.Error(err)
			return
		}
		second()
	})
	unlock()
	waiting.Wait()
}

func TestABuildThatFailsSaysWhyAndLeavesNothing(t *testing.T) {
	source, root := t.TempDir(), t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(source, "go.mod"), []byte("module m\ngo 1.26\n"), 0o600))
	require.NoError(t, os.Mkdir(filepath.Join(source, "controlplane"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(source, "controlplane", "main.go"),
		[]byte("package main\n\nfunc main() { nonsense() }\n"), 0o600))
	abandoned := filepath.Join(root, buildPrefix+"1")
	require.NoError(t, os.Mkdir(abandoned, 0o755))

	err := buildInto(t.Context(), source, root, filepath.Join(root, "done"), progress.New(nil, "controlplane"))
	require.ErrorContains(t, err, "undefined: nonsense")
	require.Empty(t, namesIn(t, root))
}

func TestTheUsersModfileIsNotForTheBinaries(t *testing.T) {
	for flags, want := range map[string]string{
		"":                               "",
		"-buildvcs=false":                "-buildvcs=false",
		"-modfile=/x/go.mod -mod=mod -v": "-mod=mod -v",
		"--modfile=/x/go.mod":            "",
	} {
		if got := withoutModfile(flags); got != want {
			t.Errorf("%q: want %q, got %q", flags, want, got)
		}
	}
}

func namesIn(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	names := []string{}
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	return names
}
