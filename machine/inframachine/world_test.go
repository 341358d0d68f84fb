package inframachine_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/fake"
	"github.com/machinist-dev/machinist/internal/apitest/testenv"
	"github.com/machinist-dev/machinist/internal/engine"
	"github.com/machinist-dev/machinist/internal/external"
	"github.com/machinist-dev/machinist/machine"
	"github.com/machinist-dev/machinist/machine/inframachine"
	"github.com/machinist-dev/machinist/machine/provider"
)

// userAgent is that of the provider under test.
const userAgent = "inframachine-under-test"

// world is a store with package machine, a bootstrap provider and the infrastructure provider under test, all running.
type world struct {
	*testenv.Env

	t       *testing.T
	version contract.Version
	cloud   *fake.Driver
}

type worldOptions struct {
	// ports changes the ports of the provider under test.
	ports   func(*engine.Ports)
	version contract.Version // default v1beta2
	cloud   fake.DriverOptions
	options inframachine.Options
	// around decorates the Driver.
	around []provider.Decorator
	// clusters has Clusters read by the provider under test.
	clusters bool
	// noBootstrap: no provider makes bootstrap data.
	noBootstrap bool
}

func machineGVK(v contract.Version) schema.GroupVersionKind {
	gvk := fake.MachineGVK()
	gvk.Version = string(v)
	return gvk
}

func cloudMachineGVK() schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: "infrastructure.example.com", Version: "v1", Kind: "CloudMachine"}
}

// cloudMachineCRD is the CRD of a provider, which fulfils one contract. Its schema has what the contract asks for and nothing else, so that
// the store prunes the rest.
func cloudMachineCRD(v contract.Version) *unstructured.Unstructured {
	crd := fake.CRD(cloudMachineGVK(), v)
	text, flag := map[string]any{"type": "string"}, map[string]any{"type": "boolean"}
	object := func(properties map[string]any) map[string]any {
		return map[string]any{"type": "object", "properties": properties}
	}
	list := func(properties map[string]any) map[string]any {
		return map[string]any{"type": "array", "items": object(properties)}
	}
	conditions := list(map[string]any{
		"type": text, "status": text, "reason": text, "message": text,
		"lastTransitionTime": map[string]any{"type": "string", "format": "date-time"}, "observedGeneration": map[string]any{"type": "integer"},
	})
	spec := map[string]any{"size": text, "providerID": text}
	status := map[string]any{"addresses": list(map[string]any{"type": text, "address": text}), "conditions": conditions}
	if v == contract.V1Beta1 {
		spec["failureDomain"] = text
		status["ready"], status["failureReason"], status["failureMessage"] = flag, text, text
		status["conditions"] = list(map[string]any{
			"type": text, "status": text, "reason": text, "message": text, "severity": text,
			"lastTransitionTime": map[string]any{"type": "string", "format": "date-time"},
		})
		status["v1beta2"] = object(map[string]any{"conditions": conditions})
	} else {
		status["initialization"] = object(map[string]any{"provisioned": flag})
		status["failureDomain"] = text
	}
	versions, _, _ := unstructured.NestedSlice(crd.Object, "spec", "versions")
	served, _ := versions[0].(map[string]any)
	served["schema"] = map[string]any{"openAPIV3Schema": object(map[string]any{"spec": object(spec), "status": object(status)})}
	_ = unstructured.SetNestedSlice(crd.Object, versions, "spec", "versions")
	return crd
}

// quickBackoff is a back-off that a test can wait for.
func quickBackoff() provider.Backoff {
	b := provider.DefaultBackoff()
	for class, pause := range b {
		if pause.Base > 0 {
			b[class] = provider.Pause{Base: 10 * time.Millisecond, Max: 20 * time.Millisecond}
		}
	}
	b[provider.Unauthenticated] = provider.Pause{Max: 10 * time.Minute}
	return b
}

// newWorld starts a world. The test runs beside others from here on.
func newWorld(t *testing.T, o worldOptions) *world {
	t.Helper()
	t.Parallel()
	if o.version == "" {
		o.version = contract.V1Beta2
	}
	kinds, err := inframachine.ClusterAPI(cloudMachineGVK(), o.version)
	require.NoError(t, err)
	served := []fake.ServedKind{{GVK: kinds.Machine.GVK, Status: true}, {GVK: fake.ClusterGVK(), Status: true}}
	env := testenv.Start(t, fake.Options{Kinds: served}, fake.AllLoops(), func(e *testenv.Env) {
		e.Create(cloudMachineCRD(o.version), fake.CRD(fake.BootstrapConfigGVK(contract.V1Beta2), contract.V1Beta2))
	})
	w := &world{Env: env, t: t, version: o.version, cloud: fake.NewDriver(o.cloud)}
	others, ours := w.Manager("others", ctrl.Options{}), w.Manager(userAgent, ctrl.Options{})
	if !o.noBootstrap {
		bootstrap := fake.Bootstrap{Data: func(obj *unstructured.Unstructured) []byte { return []byte("boot " + obj.GetName()) }}
		bootstrap.Machine = kinds.Machine.GVK
		require.NoError(t, bootstrap.SetupWithManager(others))
	}
	_, err = machine.SetupWithManager(t.Context(), others, kinds.Machine, machine.Options{
		Options: engine.Options{StatusDelay: 100 * time.Millisecond},
	})
	require.NoError(t, err)
	w.setup(t.Context(), ours, kinds, o)
	w.Run(others)
	w.Run(ours)
	return w
}

// setup adds the provider under test.
func (w *world) setup(ctx context.Context, mgr ctrl.Manager, kinds inframachine.Kinds, o worldOptions) {
	w.t.Helper()
	o.options.Calls = provider.Of(w.cloud, append([]provider.Decorator{w.kubelet()}, o.around...)...)
	if o.options.Backoff == nil {
		o.options.Backoff = quickBackoff()
	}
	o.options.Poll = 10 * time.Millisecond
	if o.options.Recorder == nil {
		o.options.Recorder = mgr.GetEventRecorder("cloudmachine")
	}
	ports := engine.PortsFromManager(mgr)
	if o.clusters {
		clusters, err := external.ClustersFromManager(mgr, external.ClusterOptions{})
		require.NoError(w.t, err)
		ports.ClusterOf, ports.ClusterEvents = clusters.Of, clusters.Source
	}
	if o.ports != nil {
		o.ports(&ports)
	}
	r, err := inframachine.New(kinds, ports, o.options)
	require.NoError(w.t, err)
	require.NoError(w.t, r.AddToManager(ctx, mgr))
}

// kubelet joins the Node of each instance that runs.
func (w *world) kubelet() provider.Decorator {
	return func(c provider.Calls) provider.Calls {
		joins := func(call func(context.Context, provider.Request) (provider.Instance, error),
		) func(context.Context, provider.Request) (provider.Instance, error) {
			return func(ctx context.Context, r provider.Request) (provider.Instance, error) {
				i, err := call(ctx, r)
				if err == nil && i.State == provider.Running {
					if err := w.Client.Create(ctx, fake.Node(i.Name, i.ProviderID)); err != nil && !apierrors.IsAlreadyExists(err) {
						return i, err
					}
				}
				return i, err
			}
		}
		c.Create, c.Get = joins(c.Create), joins(c.Get)
		return c
	}
}

// cloudMachine returns an InfraMachine of a size.
func cloudMachine(name, size string) *unstructured.Unstructured {
	u := testenv.Object(cloudMachineGVK(), name)
	u.Object["spec"] = map[string]any{"size": size}
	return u
}

// machineOf creates a Machine, its BootstrapConfig and its InfraMachine of a size.
func (w *world) machineOf(name, size string) (m, infra *unstructured.Unstructured) {
	w.t.Helper()
	infra = cloudMachine(name, size)
	w.Create(infra)
	return w.machineFor(infra), infra
}

// machineFor creates a Machine with some annotations that names an InfraMachine, and its BootstrapConfig.
func (w *world) machineFor(infra *unstructured.Unstructured, annotations ...string) *unstructured.Unstructured {
	w.t.Helper()
	name, namespace := infra.GetName(), infra.GetNamespace()
	reference := func(gvk schema.GroupVersionKind) map[string]any {
		if w.version == contract.V1Beta1 {
			return map[string]any{"apiVersion": gvk.GroupVersion().String(), "kind": gvk.Kind, "name": name, "namespace": namespace}
		}
		return map[string]any{"apiGroup": gvk.Group, "kind": gvk.Kind, "name": name}
	}
	config := fake.BootstrapConfig(contract.V1Beta2, name)
	m := fake.Machine(name,
		fake.WithField(machineGVK(w.version).GroupVersion().String(), "apiVersion"),
		fake.WithField(reference(cloudMachineGVK()), "spec", "infrastructureRef"),
		fake.WithField(reference(fake.BootstrapConfigGVK(contract.V1Beta2)), "spec", "bootstrap", "configRef"))
	m.SetNamespace(namespace)
	for _, key := range annotations {
		m.SetAnnotations(map[string]string{key: ""})
	}
	config.SetNamespace(namespace)
	w.Create(config, m)
	return m
}

func (w *world) reaches(m *unstructured.Unstructured, phase string) {
	w.t.Helper()
	w.Eventually("reach "+phase, func() string {
		fresh := w.Get(m)
		if fresh == nil {
			return "the Machine is gone"
		}
		if got, _, _ := unstructured.NestedString(fresh.Object, "status", "phase"); got != phase {
			return fmt.Sprintf("phase %q: %v; infrastructure: %v", got, fresh.Object["status"], w.Get(cloudMachine(m.GetName(), "")))
		}
		return ""
	})
}

// says waits for a condition of an InfraMachine to have a reason, and returns it.
func (w *world) says(infra *unstructured.Unstructured, kind, reason string) metav1.Condition {
	w.t.Helper()
	var c metav1.Condition
	w.Eventually(kind+" to say "+reason, func() string {
		fresh := w.Get(infra)
		if fresh == nil {
			return "the InfraMachine is gone"
		}
		var state contract.ProvidedMachineState
		kinds, err := inframachine.ClusterAPI(cloudMachineGVK(), w.version)
		require.NoError(w.t, err)
		require.NoError(w.t, kinds.InfraMachine.Adapter.Read(fresh, &state))
		c, _ = engine.Find(state.Conditions, kind)
		if c.Reason != reason {
			return fmt.Sprintf("it says %+v", state.Conditions)
		}
		return ""
	})
	return c
}

// isQuiet waits until the provider makes no request for a while.
func (w *world) isQuiet() {
	w.t.Helper()
	w.Quiet(userAgent, 400*time.Millisecond)
	w.Store.ResetRequests()
}

// instances are those of the cloud.
func (w *world) instances() []provider.Instance {
	w.t.Helper()
	all, err := w.cloud.List(w.t.Context(), provider.Request{Cluster: "demo"})
	require.NoError(w.t, err)
	return all
}

func TestMain(m *testing.M) { testenv.Main(m) }
