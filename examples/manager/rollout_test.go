package main

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/fake"
	"github.com/machinist-dev/machinist/machineset/deployment"
)

// rolloutWorld is a store with a deployment that is being rolled out.
func rolloutWorld(t *testing.T) (deployment.Commands, func(status map[string]any)) {
	t.Helper()
	kinds, err := deploymentKinds()
	require.NoError(t, err)
	store := fake.NewStore(fake.Options{Kinds: []fake.ServedKind{
		{GVK: kinds.Deployment.GVK, Status: true}, {GVK: kinds.Set.GVK, Status: true},
	}})
	c := store.Client()
	d := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{
		"clusterName": "demo", "replicas": int64(2), "template": map[string]any{"spec": map[string]any{"clusterName": "demo"}},
	}}}
	d.SetGroupVersionKind(kinds.Deployment.GVK)
	d.SetNamespace("default")
	d.SetName("workers")
	require.NoError(t, c.Create(t.Context(), d))
	return deployment.Commands{Client: c, Kinds: kinds}, func(status map[string]any) {
		fresh := d.DeepCopy()
		require.NoError(t, c.Get(t.Context(), client.ObjectKeyFromObject(d), fresh))
		fresh.Object["status"] = status
		require.NoError(t, c.Status().Update(t.Context(), fresh))
	}
}

func run(t *testing.T, c deployment.Commands, args ...string) (string, error) {
	t.Helper()
	o, err := parseRollout(args, &bytes.Buffer{})
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var out bytes.Buffer
	err = o.perform(ctx, c, &out)
	return out.String(), err
}

func TestTheStatusOfARolloutSaysWhatItWaitsFor(t *testing.T) {
	t.Parallel()
	c, status := rolloutWorld(t)
	status(map[string]any{"replicas": int64(3), "upToDateReplicas": int64(1), "availableReplicas": int64(2), "observedGeneration": int64(1),
		"conditions": []any{map[string]any{"type": "RollingOut", "status": "True", "reason": "RollingOut",
			"lastTransitionTime": "2026-01-01T00:00:00Z", "message": "Rolling out 2 not up-to-date replicas\n* waiting for workers-1"}}})
	said, err := run(t, c, "status", "workers")
	require.NoError(t, err)
	require.Equal(t, "Waiting for \"workers\" to finish: 1 of 2 new Machines have been created\n  waiting for workers-1\n", said)
	said, err = run(t, c, "status", "workers", "-o", "json")
	require.NoError(t, err)
	require.Contains(t, said, `"done":false`)
	_, err = run(t, c, "status", "workers", "--watch", "--timeout", "1ms")
	require.ErrorContains(t, err, "is not done")
	status(map[string]any{"replicas": int64(2), "upToDateReplicas": int64(2), "availableReplicas": int64(2), "observedGeneration": int64(1)})
	said, err = run(t, c, "status", "--watch", "workers")
	require.NoError(t, err)
	require.Equal(t, "\"workers\" has been rolled out\n", said)
}

func TestARolloutIsPausedResumedAndRestarted(t *testing.T) {
	t.Parallel()
	c, _ := rolloutWorld(t)
	for _, verb := range []string{"pause", "resume", "restart"} {
		said, err := run(t, c, verb, "workers")
		require.NoError(t, err)
		require.Contains(t, said, "machinedeployment workers "+verb)
	}
	_, err := run(t, c, "undo", "workers")
	require.ErrorIs(t, err, deployment.ErrRevision)
	said, err := run(t, c, "history", "workers")
	require.NoError(t, err)
	require.True(t, strings.HasPrefix(said, "REVISION"))
	_, err = run(t, c, "status", "missing")
	require.ErrorContains(t, err, "MachineDeployment default/missing")
}

func TestWrongArgumentsOfRolloutAreExplained(t *testing.T) {
	t.Parallel()
	for want, args := range map[string][]string{
		"give a verb and a name":     {"rollout", "status"},
		`"jump": give status, `:      {"rollout", "jump", "workers"},
		`-o "yaml": give json`:       {"rollout", "status", "workers", "-o", "yaml"},
		"flag provided but not":      {"rollout", "status", "workers", "--nothing"},
		"/nothing cannot be used":    {"rollout", "status", "workers", "--kubeconfig", "/nothing"},
		"manager rollout status NAM": {"rollout", "--help"},
	} {
		var out, errs bytes.Buffer
		execute(args, &out, &errs)
		require.Contains(t, out.String()+errs.String(), want)
	}
}
