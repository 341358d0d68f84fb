//go:build e2e

package e2e_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/fake"
	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/yaml"

	"github.com/machinist-dev/machinist/examples/lab/cluster"
	"github.com/machinist-dev/machinist/examples/lab/measure"
	"github.com/machinist-dev/machinist/examples/lab/rights"
)

// managerAgent is how examples/manager calls itself in the audit log.
const managerAgent = "machinist-manager"

// world is the shared control plane with Cluster API's CRDs, providers in this process, and the manager in its own.
type world struct {
	t      *testing.T
	plane  *cluster.ControlPlane
	client client.WithWatch
}

type worldOptions struct {
	infrastructure fake.Infrastructure
	bootstrap      fake.Bootstrap
	managerFlags   []string
}

// newWorld starts providers and a manager for one test; the control plane is the one of the package.
func newWorld(t *testing.T, o worldOptions) *world {
	t.Helper()
	w := newBareWorld(t, shared(t))
	w.startProviders(o)
	w.startManager(o.managerFlags)
	return w
}

// newBareWorld has Cluster API's CRDs and those of the providers, without a controller.
func newBareWorld(t *testing.T, plane *cluster.ControlPlane) *world {
	t.Helper()
	ctrl.SetLogger(logr.Discard()) // what has no logger of its own says nothing
	live, err := client.NewWithWatch(plane.Config(), client.Options{})
	require.NoError(t, err)
	w := &world{t: t, plane: plane, client: live}
	w.installCRDs("v1beta2")
	return w
}

// installCRDs installs Cluster API's Machine with one API version, and the providers' kinds.
func (w *world) installCRDs(machineVersion string) {
	w.t.Helper()
	crds, err := cluster.ClusterAPICRDs(w.t.Context(), machineVersion, "Machine")
	require.NoError(w.t, err)
	for _, v := range contract.Versions() {
		crds = append(crds, fake.CRD(fake.InfraMachineGVK(v), v), fake.CRD(fake.BootstrapConfigGVK(v), v))
	}
	require.NoError(w.t, cluster.InstallCRDs(w.t.Context(), w.plane.Config(), crds...))
}

func (w *world) startProviders(o worldOptions) {
	w.t.Helper()
	rest := w.plane.Config()
	rest.UserAgent = "fake-provider"
	cached := ctrl.Options{Client: client.Options{Cache: &client.CacheOptions{Unstructured: true}}}
	cached.Controller.MaxConcurrentReconciles = 20
	w.inProcess(rest, cached, func(_ context.Context, mgr ctrl.Manager) error {
		var errs []error
		for _, v := range contract.Versions() {
			infrastructure, bootstrap := o.infrastructure, o.bootstrap
			infrastructure.Contract, bootstrap.Contract = v, v
			errs = append(errs, infrastructure.SetupWithManager(mgr), bootstrap.SetupWithManager(mgr))
		}
		return errors.Join(errs...)
	})
}

// inProcess runs a manager in this process, with what setup adds to it, until the test has ended.
func (w *world) inProcess(rest *rest.Config, o ctrl.Options, setup func(context.Context, ctrl.Manager) error) {
	w.t.Helper()
	o.Logger, o.Metrics = logr.Discard(), server.Options{BindAddress: "0"}
	o.Controller.SkipNameValidation = new(true)
	o.Controller.UsePriorityQueue = new(false) // it can hang when it is shut down: kubernetes-sigs/controller-runtime#3538
	mgr, err := ctrl.NewManager(rest, o)
	require.NoError(w.t, err)
	ctx, cancel := context.WithCancel(context.WithoutCancel(w.t.Context())) // ends in Cleanup, behind the test's own context
	done := make(chan error, 1)
	w.t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			w.t.Errorf("%s: %v", rest.UserAgent, err)
		}
	})
	if err := setup(ctx, mgr); err != nil {
		done <- nil
		w.t.Fatal(err)
	}
	go func() { done <- mgr.Start(ctx) }()
}

// startManager runs examples/manager as a separate process, with no more rights than it asks for.
func (w *world) startManager(flags []string) *managerProcess {
	w.t.Helper()
	binary := managerBinary(w.t)
	flags = append([]string{"--leader-elect", "--leader-election-namespace", "default", "--leader-election-id", leaseName(w.t)}, flags...)
	user, err := rights.Grant(w.t.Context(), w.plane, leaseName(w.t), asksFor(w.t, binary, flags...))
	require.NoError(w.t, err)
	w.t.Cleanup(func() { require.NoError(w.t, user.Close(context.WithoutCancel(w.t.Context()))) })
	return w.startManagerAs(user, binary, nil, flags...)
}

// startManagerAs runs it with the rights of a user. Env adds to the environment.
func (w *world) startManagerAs(user *rights.User, binary string, env []string, flags ...string) *managerProcess {
	w.t.Helper()
	kubeconfig := filepath.Join(w.t.TempDir(), "kubeconfig")
	require.NoError(w.t, cluster.WriteKubeconfig(kubeconfig, user.Config()))
	m := &managerProcess{t: w.t, binary: binary, env: env, args: append([]string{
		"--kubeconfig", kubeconfig, "--health-probe-bind-address", "127.0.0.1:0", "--metrics-bind-address", "0",
	}, flags...)}
	m.start()
	w.t.Cleanup(func() {
		m.stop()
		if w.t.Failed() {
			_, _ = io.Copy(os.Stderr, &m.log)
		}
	})
	return m
}

// managerProcess is examples/manager, which a test may end and start again.
type managerProcess struct {
	t      *testing.T
	binary string
	args   []string
	env    []string
	cmd    *exec.Cmd
	log    bytes.Buffer
}

func (m *managerProcess) start() {
	m.t.Helper()
	m.cmd = exec.Command(m.binary, m.args...) //nolint:noctx // ended by SIGTERM in stop, and by the parent's death
	m.cmd.Env = append(os.Environ(), m.env...)
	m.cmd.Stdout, m.cmd.Stderr = &m.log, &m.log
	measure.Tie(m.cmd)
	require.NoError(m.t, m.cmd.Start())
}

// stop ends it, if it is running.
func (m *managerProcess) stop() {
	m.t.Helper()
	if m.cmd == nil {
		return
	}
	_ = m.cmd.Process.Signal(syscall.SIGTERM)
	if err := m.cmd.Wait(); err != nil {
		m.t.Errorf("the manager did not end cleanly: %v", err)
	}
	m.cmd = nil
}

// leaseName gives each test a Lease of its own, so that none waits for another's to expire.
func leaseName(t *testing.T) string {
	return "e2e-" + strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return '-'
	}, strings.ToLower(t.Name()))
}

// asksFor returns the rights that the manager prints for these flags.
func asksFor(t *testing.T, binary string, flags ...string) rights.Asked {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), binary, append(flags, "--print-rbac")...).Output()
	require.NoError(t, err)
	var asked rights.Asked
	for document := range strings.SplitSeq(string(out), "\n---\n") {
		var role rbacv1.Role // a ClusterRole has the same fields
		require.NoError(t, yaml.Unmarshal([]byte(document), &role))
		if role.Kind == "ClusterRole" {
			asked.Cluster = append(asked.Cluster, role.Rules...)
			continue
		}
		if asked.Namespaces == nil {
			asked.Namespaces = map[string][]rbacv1.PolicyRule{}
		}
		asked.Namespaces[role.Namespace] = append(asked.Namespaces[role.Namespace], role.Rules...)
	}
	return asked
}

// apply creates objects from YAML documents.
func (w *world) apply(documents string) []*unstructured.Unstructured {
	w.t.Helper()
	var all []*unstructured.Unstructured
	for document := range strings.SplitSeq(documents, "\n---\n") {
		obj := &unstructured.Unstructured{}
		require.NoError(w.t, yaml.Unmarshal([]byte(document), &obj.Object), document)
		require.NoError(w.t, w.client.Create(w.t.Context(), obj))
		all = append(all, obj)
	}
	return all
}

func (w *world) get(obj client.Object) *unstructured.Unstructured {
	w.t.Helper()
	fresh := &unstructured.Unstructured{}
	gvk, err := w.client.GroupVersionKindFor(obj)
	require.NoError(w.t, err)
	fresh.SetGroupVersionKind(gvk)
	err = w.client.Get(w.t.Context(), client.ObjectKeyFromObject(obj), fresh)
	if apierrors.IsNotFound(err) {
		return nil
	}
	require.NoError(w.t, err)
	return fresh
}

// eventually polls until check says nothing any more, and fails with what it said last. A whole fleet may be waited for, on a busy computer.
func (w *world) eventually(what string, check func() string) {
	w.t.Helper()
	w.within(5*time.Minute, what, check)
}

func (w *world) within(limit time.Duration, what string, check func() string) {
	w.t.Helper()
	last := ""
	err := wait.PollUntilContextTimeout(w.t.Context(), 100*time.Millisecond, limit, true, func(context.Context) (bool, error) {
		last = check()
		return last == "", nil
	})
	if err != nil {
		w.t.Fatalf("%s: %s", what, last)
	}
}

// ready waits until a Machine says that it is.
func (w *world) ready(m *unstructured.Unstructured) *unstructured.Unstructured {
	w.t.Helper()
	var fresh *unstructured.Unstructured
	w.eventually(m.GetName()+" to be Ready", func() string {
		fresh = w.get(m)
		c, _, err := contract.ConditionsAt("status", "conditions").Find(fresh.Object, "Ready")
		if err != nil || c.Status != metav1.ConditionTrue {
			return describe(fresh)
		}
		return ""
	})
	return fresh
}

func (w *world) gone(objects ...client.Object) {
	w.t.Helper()
	for _, obj := range objects {
		w.eventually("deletion of "+obj.GetName(), func() string {
			if fresh := w.get(obj); fresh != nil {
				return fresh.GetKind() + " is still there: " + describe(fresh)
			}
			return ""
		})
	}
}

func describe(m *unstructured.Unstructured) string {
	phase, _, _ := unstructured.NestedString(m.Object, "status", "phase")
	all, _ := contract.ConditionsAt("status", "conditions").Get(m.Object, nil)
	text := "phase " + phase
	for _, c := range all {
		text += fmt.Sprintf("\n  %s=%s %s: %s", c.Type, c.Status, c.Reason, c.Message)
	}
	return text
}
