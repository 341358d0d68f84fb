package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/url"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/examples/manager/api"
	"github.com/machinist-dev/machinist/fake"
	"github.com/machinist-dev/machinist/machineset/deployment"
)

// rolloutWorld is a store with a deployment that is being rolled out.
func rolloutWorld(t *testing.T) (deployment.Commands, func(status map[string]any)) {
	t.Helper()
	kinds := kindsOf(api.ClusterAPI)
	store := fake.NewStore(fake.Options{Kinds: []fake.ServedKind{
		{GVK: kinds.Deployment.GVK, Status: true}, {GVK: kinds.Set.GVK, Status: true}, {GVK: kinds.Machine.GVK, Status: true},
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
	o.interval = time.Millisecond
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
	require.Equal(t, "Waiting for \"workers\" to finish: 1 of 2 new Machines have been created, 2 Machines are available, 2 are old\n"+
		"  Rolling out 2 not up-to-date replicas\n  * waiting for workers-1\n", said)
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

// flaky is a client whose first reads of one object fail, one after the other.
type flaky struct {
	client.Client

	errs []error
}

func (f *flaky) Get(ctx context.Context, key client.ObjectKey, obj client.Object, options ...client.GetOption) error {
	if len(f.errs) > 0 {
		err := f.errs[0]
		f.errs = f.errs[1:]
		return err
	}
	return f.Client.Get(ctx, key, obj, options...)
}

// refused is a failure whose text has the port of this process, which is another one in each attempt.
func refused(port int) error {
	here, there := &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: port}, &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 6443}
	dial := &net.OpError{Op: "read", Net: "tcp", Source: here, Addr: there, Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
	return &url.Error{Op: "Get", URL: "https://127.0.0.1", Err: dial}
}

func TestAWatchedStatusGoesOnThroughErrorsThatPass(t *testing.T) {
	t.Parallel()
	c, status := rolloutWorld(t)
	status(map[string]any{"replicas": int64(2), "upToDateReplicas": int64(2), "availableReplicas": int64(2), "observedGeneration": int64(1)})
	resource := schema.GroupResource{Group: "cluster.x-k8s.io", Resource: "machinedeployments"}
	c.Client = &flaky{c.Client, []error{
		refused(1), refused(2), apierrors.NewTooManyRequestsError("slow down"), apierrors.NewServerTimeout(resource, "get", 1),
		apierrors.NewInternalError(errors.New("etcd has no leader")), &url.Error{Op: "Get", URL: "https://127.0.0.1", Err: io.EOF},
	}}
	said, err := run(t, c, "status", "workers", "--watch")
	require.NoError(t, err)
	lines := strings.Split(strings.TrimSpace(said), "\n")
	require.Len(t, lines, 6, "what repeats itself is said once: %s", said)
	require.Contains(t, lines[0], "127.0.0.1:6443: connect: connection refused")
	require.Contains(t, lines[1], "slow down")
	require.Equal(t, "\"workers\" has been rolled out", lines[5])

	c.Client = &flaky{c.Client, []error{refused(1)}}
	_, err = run(t, c, "status", "workers")
	require.ErrorContains(t, err, "connection refused", "without --watch there is one read")
}

func TestAWatchedStatusEndsAtAnErrorThatStays(t *testing.T) {
	t.Parallel()
	c, _ := rolloutWorld(t)
	resource := schema.GroupResource{Group: "cluster.x-k8s.io", Resource: "machinedeployments"}
	for name, stays := range map[string]error{
		"not found":     apierrors.NewNotFound(resource, "workers"),
		"forbidden":     apierrors.NewForbidden(resource, "workers", errors.New("no right")),
		"unauthorized":  apierrors.NewUnauthorized("who are you"),
		"not installed": &meta.NoKindMatchError{GroupKind: schema.GroupKind{Kind: "MachineDeployment"}},
		"not trusted": &url.Error{Op: "Get", URL: "https://127.0.0.1",
			Err: &tls.CertificateVerificationError{Err: x509.UnknownAuthorityError{}}},
		"refused by the server": &url.Error{Op: "Get", URL: "https://127.0.0.1",
			Err: &net.OpError{Op: "remote error", Err: errors.New("bad certificate")}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			broken := deployment.Commands{Client: &flaky{c.Client, []error{refused(1), stays}}, Kinds: c.Kinds}
			said, err := run(t, broken, "status", "workers", "--watch")
			require.ErrorIs(t, err, stays)
			require.Contains(t, said, "connection refused")
		})
	}
	_, err := run(t, deployment.Commands{Client: &flaky{c.Client, slices.Repeat([]error{refused(1)}, 100_000)}, Kinds: c.Kinds},
		"status", "workers", "--watch", "--timeout", "50ms")
	require.ErrorIs(t, err, context.DeadlineExceeded)
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
