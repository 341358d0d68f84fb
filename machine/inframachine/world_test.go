package inframachine_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/fake"
	"github.com/machinist-dev/machinist/internal/engine"
	"github.com/machinist-dev/machinist/internal/external"
	"github.com/machinist-dev/machinist/machine"
	"github.com/machinist-dev/machinist/machine/inframachine"
	"github.com/machinist-dev/machinist/machine/provider"
)

// userAgent is that of the provider under test.
const userAgent = "inframachine-under-test"

// silence has what has no logger of its own say nothing. Worlds are made in parallel.
var silence = sync.OnceFunc(func() { ctrl.SetLogger(logr.Discard()) })

// world is a store with package machine, a bootstrap provider and the infrastructure provider under test, all running.
type world struct {
	t       *testing.T
	version contract.Version
	store   *fake.Store
	client  client.WithWatch
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
		pause.Base, pause.Max = min(pause.Base, 10*time.Millisecond), min(pause.Max, 20*time.Millisecond)
		b[class] = pause
	}
	b[provider.Unauthenticated] = provider.Pause{Parks: true}
	return b
}

func newWorld(t *testing.T, o worldOptions) *world {
	t.Helper()
	silence()
	if o.version == "" {
		o.version = contract.V1Beta2
	}
	kinds, err := inframachine.ClusterAPI(cloudMachineGVK(), o.version)
	require.NoError(t, err)
	served := []fake.ServedKind{{GVK: kinds.Machine.GVK, Status: true}, {GVK: fake.ClusterGVK(), Status: true}}
	store := fake.NewStore(fake.Options{Kinds: served})
	w := &world{t: t, version: o.version, store: store, client: store.Client(), cloud: fake.NewDriver(o.cloud)}
	w.create(cloudMachineCRD(o.version), fake.CRD(fake.BootstrapConfigGVK(contract.V1Beta2), contract.V1Beta2))
	ctx, cancel := context.WithCancel(context.Background()) //nolint:forbidigo // ends in Cleanup, after the test's own context
	settled := store.Start(ctx, fake.AllLoops())
	others, ours := w.manager("others"), w.manager(userAgent)
	if !o.noBootstrap {
		bootstrap := fake.Bootstrap{Data: func(obj *unstructured.Unstructured) []byte { return []byte("boot " + obj.GetName()) }}
		bootstrap.Machine = kinds.Machine.GVK
		require.NoError(t, bootstrap.SetupWithManager(others))
	}
	_, err = machine.SetupWithManager(ctx, others, kinds.Machine, machine.Options{
		Options: engine.Options{StatusDelay: 100 * time.Millisecond},
	})
	require.NoError(t, err)
	w.setup(ctx, ours, kinds, o)
	done := make(chan error, 2)
	for _, mgr := range []ctrl.Manager{others, ours} {
		go func() { done <- mgr.Start(ctx) }()
	}
	t.Cleanup(func() {
		cancel()
		for range 2 {
			if err := <-done; err != nil {
				t.Errorf("manager: %v", err)
			}
		}
		settled()
	})
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
					if err := w.client.Create(ctx, fake.Node(i.Name, i.ProviderID)); err != nil && !apierrors.IsAlreadyExists(err) {
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

func (w *world) manager(agent string) ctrl.Manager {
	w.t.Helper()
	rest := w.store.RESTConfig()
	rest.UserAgent = agent
	mgr, err := ctrl.NewManager(rest, w.store.ManagerOptions(ctrl.Options{
		Logger: logr.Discard(), Controller: config.Controller{SkipNameValidation: new(true), MaxConcurrentReconciles: 4},
	}))
	require.NoError(w.t, err)
	return mgr
}

func (w *world) create(objects ...client.Object) {
	w.t.Helper()
	for _, obj := range objects {
		require.NoError(w.t, w.client.Create(w.t.Context(), obj))
	}
}

// cloudMachine returns an InfraMachine of a size.
func cloudMachine(name, size string) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"size": size}}}
	u.SetGroupVersionKind(cloudMachineGVK())
	u.SetNamespace("default")
	u.SetName(name)
	return u
}

// machineOf creates a Machine, its BootstrapConfig and its InfraMachine of a size.
func (w *world) machineOf(name, size string) (m, infra *unstructured.Unstructured) {
	w.t.Helper()
	infra = cloudMachine(name, size)
	w.create(infra)
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
	w.create(config, m)
	return m
}

// change writes what a function does to an object without its status.
func (w *world) change(obj *unstructured.Unstructured, do func(*unstructured.Unstructured)) {
	w.t.Helper()
	fresh := w.get(obj)
	require.NotNil(w.t, fresh)
	base := fresh.DeepCopy()
	do(fresh)
	require.NoError(w.t, w.client.Patch(w.t.Context(), fresh, client.MergeFrom(base)))
}

// get reads an object again, nil when it is gone.
func (w *world) get(obj *unstructured.Unstructured) *unstructured.Unstructured {
	w.t.Helper()
	fresh := &unstructured.Unstructured{}
	fresh.SetGroupVersionKind(obj.GroupVersionKind())
	err := w.client.Get(w.t.Context(), client.ObjectKeyFromObject(obj), fresh)
	if apierrors.IsNotFound(err) {
		return nil
	}
	require.NoError(w.t, err)
	return fresh
}

// eventually polls until check says nothing any more, and fails with what it said last.
func (w *world) eventually(what string, check func() string) {
	w.t.Helper()
	last := ""
	err := wait.PollUntilContextTimeout(w.t.Context(), 20*time.Millisecond, 2*time.Minute, true, func(context.Context) (bool, error) {
		last = check()
		return last == "", nil
	})
	if err != nil {
		w.t.Fatalf("%s: %s", what, last)
	}
}

func (w *world) reaches(m *unstructured.Unstructured, phase string) {
	w.t.Helper()
	w.eventually("reach "+phase, func() string {
		fresh := w.get(m)
		if fresh == nil {
			return "the Machine is gone"
		}
		if got, _, _ := unstructured.NestedString(fresh.Object, "status", "phase"); got != phase {
			return fmt.Sprintf("phase %q: %v; infrastructure: %v", got, fresh.Object["status"], w.get(cloudMachine(m.GetName(), "")))
		}
		return ""
	})
}

func (w *world) goes(objects ...*unstructured.Unstructured) {
	w.t.Helper()
	for _, obj := range objects {
		w.eventually("deletion of "+obj.GetKind()+" "+obj.GetName(), func() string {
			if fresh := w.get(obj); fresh != nil {
				return fmt.Sprintf("it is still there: %v", fresh.Object)
			}
			return ""
		})
	}
}

// says waits for a condition of an InfraMachine to have a reason, and returns it.
func (w *world) says(infra *unstructured.Unstructured, kind, reason string) metav1.Condition {
	w.t.Helper()
	var c metav1.Condition
	w.eventually(kind+" to say "+reason, func() string {
		fresh := w.get(infra)
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

// isQuiet waits until the provider makes no request for a while, events aside.
func (w *world) isQuiet() {
	w.t.Helper()
	quiet := 0
	w.eventually("make no request", func() string {
		for _, r := range w.store.Requests() {
			if r.UserAgent == userAgent && r.Verb != "watch" && r.GVK.Kind != "Event" {
				quiet = 0
				w.store.ResetRequests()
				return fmt.Sprintf("it still makes them: %+v", r)
			}
		}
		if quiet++; quiet < 20 {
			return "not quiet for long enough"
		}
		return ""
	})
}

// instances are those of the cloud.
func (w *world) instances() []provider.Instance {
	w.t.Helper()
	all, err := w.cloud.List(w.t.Context(), provider.Request{Cluster: "demo"})
	require.NoError(w.t, err)
	return all
}
