package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/yaml"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/contract/pass"
	"github.com/machinist-dev/machinist/examples/manager/api"
	"github.com/machinist-dev/machinist/examples/manager/kwokdriver"
	"github.com/machinist-dev/machinist/examples/manager/options"
	"github.com/machinist-dev/machinist/fake"
	"github.com/machinist-dev/machinist/machine"
	"github.com/machinist-dev/machinist/machine/provider"
	"github.com/machinist-dev/machinist/machine/remediation"
	"github.com/machinist-dev/machinist/machineset"
	"github.com/machinist-dev/machinist/machineset/deployment"
)

func TestRightsFollowTheDriver(t *testing.T) {
	t.Parallel()
	require.NotContains(t, rightsOf(t, "--print-rbac")["/nodes"], "create")
	step := rightsOf(t, "--print-rbac", "--driver=kwok")
	require.Contains(t, step["/nodes"], "create")
	require.NotContains(t, step, "/secrets")
	require.NotContains(t, step, "infrastructure.cluster.x-k8s.io/*", "the driver takes the place of infrastructure objects")
	require.Contains(t, step["bootstrap.cluster.x-k8s.io/*"], "delete", "Machines of Cluster API have bootstrap data")
	pools := rightsOf(t, "--print-rbac", "--driver=kwok", "--machinepools")
	require.Contains(t, pools["infrastructure.cluster.x-k8s.io/*"], "delete", "pools have their infrastructure objects")
	for _, kinds := range [][]string{nil, {"--machinesets", "--machinedeployments"}} {
		for right := range rightsOf(t, append(kinds, "--print-rbac", "--driver=kwok", "--api-group=machinist.dev", "--install-crds")...) {
			require.False(t, strings.HasPrefix(right, "infrastructure.") || strings.HasPrefix(right, "bootstrap."), right)
		}
	}
	own := rightsOf(t, "--print-rbac", "--driver=kwok", "--driver-as=inframachine", "--driver-kubeconfig=far.yaml", "--provider-resources=")
	require.NotContains(t, own["/nodes"], "create", "the Nodes are elsewhere")
	require.Equal(t, []string{"get"}, own["/secrets"])
	require.Equal(t, []string{"patch"}, own["infrastructure.cluster.x-k8s.io/kwokmachines/status"])
}

func TestTheCRDsOfTheDriverArePrintedAndAskedFor(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	require.Equal(t, exitDone, execute([]string{"--print-crds", "--driver=kwok", "--driver-as=inframachine"}, &out, io.Discard))
	require.Contains(t, out.String(), "name: kwokmachines.infrastructure.cluster.x-k8s.io")
	require.Len(t, strings.Split(out.String(), "\n---\n"), 8)

	store := fake.NewStore(fake.Options{})
	require.NoError(t, store.Client().Create(t.Context(), fake.CRD(fake.MachineGVK())))
	o := given(t, "--driver=kwok", "--driver-as=inframachine")
	_, err := newManager(t.Context(), store.RESTConfig(), o, logr.Discard())
	require.ErrorContains(t, err, "does not serve kwokmachines of infrastructure.cluster.x-k8s.io/v1alpha1: install what --print-crds prints")
	o.Driver.As, o.Driver.Kubeconfig = options.DriverStep, "nowhere.yaml"
	mgr := storeManager(t, store, api.ClusterAPI)
	require.ErrorContains(t, o.addDriver(t.Context(), mgr, nil, &machine.Options{}), "--driver-kubeconfig: --kubeconfig nowhere.yaml")
}

func storeManager(t *testing.T, store *fake.Store, group api.Group) ctrl.Manager {
	t.Helper()
	scheme, err := newScheme(group)
	require.NoError(t, err)
	mgr, err := ctrl.NewManager(store.RESTConfig(), store.ManagerOptions(ctrl.Options{
		Scheme: scheme, Logger: logr.Discard(), Controller: config.Controller{SkipNameValidation: new(true)},
	}))
	require.NoError(t, err)
	return mgr
}

func TestMachinesAreCountedByTheNameOfTheDriver(t *testing.T) {
	t.Parallel()
	step := given(t, "--driver=kwok")
	require.Equal(t, "kwok", step.driverMetrics().Provider(&contract.MachineState{}), "one without a provider ID too")
	for _, other := range []settings{given(t), given(t, "--driver=kwok", "--driver-as=inframachine")} {
		require.Nil(t, other.driverMetrics().Provider, "the kind of the infrastructure object counts")
	}
}

// Metrics are registered once in a process, so only the test of the provider goes through add.
func TestMachinesRunOnNodesOfKwokBothWays(t *testing.T) {
	t.Parallel()
	for _, as := range []string{options.DriverStep, options.DriverInfraMachine} {
		t.Run(as, func(t *testing.T) {
			t.Parallel()
			store := fake.NewStore(fake.Options{Kinds: []fake.ServedKind{{GVK: fake.MachineGVK(), Status: true}}})
			for document := range strings.SplitSeq(kwokdriver.CRDs(), "\n---\n") {
				var crd unstructured.Unstructured
				require.NoError(t, yaml.Unmarshal([]byte(document), &crd.Object))
				require.NoError(t, store.Client().Create(t.Context(), &crd))
			}
			o := given(t, "--concurrency=4", "--driver=kwok", "--driver-as="+as, "--driver-qps=1000", "--driver-latency=1ms",
				"--driver-boot-time=50ms", "--driver-hidden-time=20ms", "--driver-deletion-time=50ms", "--driver-refuse-qps=1000",
				"--driver-lose-every=20")
			runMachines(t, store, storeManager(t, store, api.ClusterAPI), o)
			livesOnKwok(t, store, as)
		})
	}
}

// runMachines starts the reconciler of Machines with the driver of the flags, and those of sets and deployments if they ask for them.
func runMachines(t *testing.T, store *fake.Store, mgr ctrl.Manager, o settings) {
	t.Helper()
	into := machine.Options{Options: pass.Options{StatusDelay: 50 * time.Millisecond, Recorder: mgr.GetEventRecorder(userAgent)}}
	ports, err := machine.PortsFromManager(t.Context(), mgr, into)
	require.NoError(t, err)
	if o.Driver.IsProvider() {
		require.NoError(t, o.addDriver(t.Context(), mgr, nil, &into))
	} else {
		c, err := o.driverClient(mgr)
		require.NoError(t, err)
		into.Steps = o.driverSteps(machine.DriverOptions{
			Calls: o.driverCalls(c, mgr.GetAPIReader(), nil), Poll: 20 * time.Millisecond,
			Backoff: provider.Backoff{provider.Invalid: {Max: 50 * time.Millisecond}},
		}, mgr.GetCache(), mgr.GetAPIReader())
	}
	r, err := machine.New(o.Kinds.Group.Machine(), ports, into)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background()) // ends in Cleanup, after the test's own context
	require.NoError(t, r.AddToManager(ctx, mgr))
	if o.Kinds.MachineSets {
		sets, err := machineset.New(kindsOf(o.Kinds.Group), pass.PortsFromManager(mgr), machineset.Options{Shared: o.shared()})
		require.NoError(t, err)
		require.NoError(t, sets.AddToManager(ctx, mgr))
	}
	if o.Kinds.MachineHealthChecks {
		checks, err := remediation.New(kindsOf(o.Kinds.Group), remediation.Ports{Ports: ports.Ports, Workload: ports.Workload},
			remediation.Options{Checks: joining(o.Kinds.JoinTimeout)})
		require.NoError(t, err)
		require.NoError(t, checks.AddToManager(ctx, mgr))
	}
	if o.Kinds.MachineDeployments {
		deployments, err := deployment.New(kindsOf(o.Kinds.Group), pass.PortsFromManager(mgr),
			deployment.Options{Shared: o.shared()})
		require.NoError(t, err)
		require.NoError(t, deployments.AddToManager(ctx, mgr))
	}
	settled := store.Start(ctx, fake.AllLoops())
	done := make(chan error, 1)
	go func() { done <- mgr.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("manager: %v", err)
		}
		settled()
	})
}

// livesOnKwok creates a Machine and what it needs, waits until it runs, and deletes it.
func livesOnKwok(t *testing.T, store *fake.Store, as string) {
	t.Helper()
	gvk := kwokdriver.GVK()
	infra := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"cpu": "2"}}}
	infra.SetGroupVersionKind(gvk)
	infra.SetNamespace("default")
	infra.SetName("m1")
	secret := &corev1.Secret{Data: map[string][]byte{"value": []byte("boot")}}
	secret.Namespace, secret.Name = "default", "boot"
	m := fake.Machine("m1",
		fake.WithField(map[string]any{"dataSecretName": "boot"}, "spec", "bootstrap"),
		fake.WithField(map[string]any{"apiGroup": gvk.Group, "kind": gvk.Kind, "name": "m1"}, "spec", "infrastructureRef"))
	objects := []client.Object{secret, m}
	if as == options.DriverInfraMachine {
		objects = append(objects, infra)
	}
	for _, obj := range objects {
		require.NoError(t, store.Client().Create(t.Context(), obj))
	}
	eventually(t, "Running on a Node", func(ctx context.Context) string {
		var nodes corev1.NodeList
		require.NoError(t, store.Client().List(ctx, &nodes))
		require.NoError(t, store.Client().Get(ctx, client.ObjectKeyFromObject(m), m))
		phase, _, _ := unstructured.NestedString(m.Object, "status", "phase")
		if phase != "Running" || len(nodes.Items) != 1 || nodes.Items[0].Annotations[kwokdriver.NodeAnnotation] != "fake" {
			return fmt.Sprintf("phase %q, %d Nodes: %v", phase, len(nodes.Items), m.Object["status"])
		}
		return ""
	})
	require.NoError(t, store.Client().Delete(t.Context(), m))
	eventually(t, "nothing is left", func(ctx context.Context) string {
		var nodes corev1.NodeList
		require.NoError(t, store.Client().List(ctx, &nodes))
		err := store.Client().Get(ctx, client.ObjectKeyFromObject(m), m)
		if !apierrors.IsNotFound(err) || len(nodes.Items) > 0 {
			return fmt.Sprintf("%d Nodes, and the Machine: %v %v", len(nodes.Items), err, m.Object["status"])
		}
		return ""
	})
}

func eventually(t *testing.T, what string, check func(context.Context) string) {
	t.Helper()
	last := ""
	err := wait.PollUntilContextTimeout(t.Context(), 20*time.Millisecond, 2*time.Minute, true, func(ctx context.Context) (bool, error) {
		last = check(ctx)
		return last == "", nil
	})
	if err != nil {
		t.Fatalf("%s: %s", what, last)
	}
}
