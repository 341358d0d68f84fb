package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/intstr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/fake"
	"github.com/machinist-dev/machinist/machine"
	"github.com/machinist-dev/machinist/noderef"
	"github.com/machinist-dev/machinist/phases"
)

const (
	workload  = "web" // the name of the Deployment, of its budget, and of the label that selects its pods
	userAgent = "machinist"
)

// world is the store, the loops that replace a cluster's own controllers, and two managers: one with the Machine
// reconciler, one with the fake providers, which would be two processes in a real cluster.
type world struct {
	store   *fake.Store
	client  client.WithWatch
	seen    chan change // in the order of the watches
	changes chan change // in the order of the changes
	failed  chan error

	stopped context.CancelFunc
	group   sync.WaitGroup
}

// newWorld starts everything. The world runs until the context ends or stop is called.
func newWorld(ctx context.Context, s script, log logr.Logger) (*world, error) {
	ctx, cancel := context.WithCancel(ctx)
	store := fake.NewStore(fake.Options{Seed: s.seed})
	w := &world{
		store: store, client: store.Client(), seen: make(chan change), changes: make(chan change), failed: make(chan error, 8), stopped: cancel,
	}
	for _, begin := range []func() error{
		func() error { return w.installKinds(ctx) },
		func() error { return w.follow(ctx, s.pace.sort) },
		func() error { return w.startCluster(ctx, s) },
		func() error { return w.startProviders(ctx, s, log) },
		func() error { return w.startMachinist(ctx, s, log) },
	} {
		if err := begin(); err != nil {
			w.stop()
			return nil, err
		}
	}
	return w, nil
}

// stop ends the world and waits until all its goroutines have ended.
func (w *world) stop() {
	w.stopped()
	w.group.Wait()
}

// installKinds creates the CustomResourceDefinitions; those of providers have the contract label.
func (w *world) installKinds(ctx context.Context) error {
	for _, crd := range []*unstructured.Unstructured{
		fake.CRD(fake.MachineGVK()),
		fake.CRD(fake.InfraMachineGVK(contract.V1Beta2), contract.V1Beta2),
		fake.CRD(fake.BootstrapConfigGVK(contract.V1Beta2), contract.V1Beta2),
		fake.CRD(capi("MachineSet")), fake.CRD(capi("MachineDeployment")),
		fake.CRD(templates()[0], contract.V1Beta2), fake.CRD(templates()[1], contract.V1Beta2),
	} {
		if err := w.client.Create(ctx, crd); err != nil {
			return fmt.Errorf("install %s: %w", crd.GetName(), err)
		}
	}
	return nil
}

// startCluster starts the loops that replace the controller manager, the scheduler and the kubelets.
func (w *world) startCluster(ctx context.Context, s script) error {
	loops := fake.AllLoops()
	loops.StartPod, loops.StopPod, loops.ReadyNode = s.pace.startPod, s.pace.stopPod, s.pace.readyNode
	w.group.Go(w.store.Start(ctx, loops))
	return nil
}

// startMachinist is everything that an operator needs: a manager, and the reconcilers of Machines, MachineSets and MachineDeployments.
func (w *world) startMachinist(ctx context.Context, s script, log logr.Logger) error {
	mgr, err := w.manager(userAgent, log)
	if err != nil {
		return err
	}
	rollouts, err := startFleets(ctx, mgr, s.pace.status)
	if err != nil {
		return err
	}
	ports, err := machine.PortsFromManager(ctx, mgr, noderef.Rules{})
	if err != nil {
		return err
	}
	ports.RolloutOf, ports.RolloutEvents = rollouts.Of, rollouts.Source
	kind := contract.Unstructured(fake.MachineGVK(), contract.MachineV1Beta2())
	machines, err := machine.New(kind, ports, machine.Options{StatusDelay: s.pace.status, Recorder: mgr.GetEventRecorder("machine")})
	if err == nil {
		err = machines.AddToManager(ctx, mgr)
	}
	if err != nil {
		return err
	}
	w.start(ctx, userAgent, mgr)
	return nil
}

func (w *world) startProviders(ctx context.Context, s script, log logr.Logger) error {
	mgr, err := w.manager("providers", log)
	if err != nil {
		return err
	}
	takes := func(of map[string]time.Duration, shown phases.Phase) func(*unstructured.Unstructured) time.Duration {
		return func(obj *unstructured.Unstructured) time.Duration {
			if !w.shows(ctx, obj.GetName(), shown) {
				return time.Hour // the provider looks again when its Machine changes
			}
			return cmp.Or(of[obj.GetName()], s.pace.stage) // the names of a MachineSet's Machines are not known before
		}
	}
	bootstrap := &fake.Bootstrap{ProviderOptions: fake.ProviderOptions{Delay: takes(s.bootstrap, phases.Pending)}}
	infrastructure := &fake.Infrastructure{
		ProviderOptions: fake.ProviderOptions{Delay: takes(s.infra, phases.Provisioning)}, NodeDelay: takes(s.arrive, phases.Provisioned),
	}
	if err := errors.Join(bootstrap.SetupWithManager(mgr), infrastructure.SetupWithManager(mgr)); err != nil {
		return err
	}
	w.start(ctx, "providers", mgr)
	return nil
}

// shows reports whether a Machine has reached a phase on its way to Running. A stage does not end before that, so that
// every phase is visible even on a busy computer.
func (w *world) shows(ctx context.Context, name string, phase phases.Phase) bool {
	way := []phases.Phase{"", phases.Pending, phases.Provisioning, phases.Provisioned}
	m := fake.Machine(name)
	if w.client.Get(ctx, client.ObjectKeyFromObject(m), m) != nil {
		return true // it was deleted, and its stages do not matter
	}
	got, _, _ := unstructured.NestedString(m.Object, "status", "phase")
	at := slices.Index(way, phases.Phase(got))
	return at < 0 || at >= slices.Index(way, phase)
}

// manager returns a manager whose requests have their own user agent, so that they can be counted separately.
func (w *world) manager(agent string, log logr.Logger) (ctrl.Manager, error) {
	cfg := w.store.RESTConfig()
	cfg.UserAgent = agent
	mgr, err := ctrl.NewManager(cfg, w.store.ManagerOptions(ctrl.Options{
		Logger:     log,
		Controller: config.Controller{SkipNameValidation: new(true)}, // one process may run several stories
	}))
	if err != nil {
		return nil, fmt.Errorf("manager %s: %w", agent, err)
	}
	return mgr, nil
}

func (w *world) start(ctx context.Context, name string, mgr ctrl.Manager) {
	w.group.Go(func() {
		if err := mgr.Start(ctx); err != nil {
			w.failed <- fmt.Errorf("manager %s: %w", name, err)
		}
	})
}

// createMachine creates a Machine and its references, as a user does.
func (w *world) createMachine(ctx context.Context, name string) error {
	role := fake.WithLabels(map[string]string{"node-role.kubernetes.io/worker": ""}) // the reconciler brings it to the Node
	for _, obj := range []client.Object{
		fake.BootstrapConfig(contract.V1Beta2, name), fake.InfraMachine(contract.V1Beta2, name), fake.Machine(name, role),
	} {
		if err := w.client.Create(ctx, obj); err != nil {
			return fmt.Errorf("create %s %s: %w", obj.GetObjectKind().GroupVersionKind().Kind, name, err)
		}
	}
	return nil
}

// createWorkload creates a Deployment and its budget.
func (w *world) createWorkload(ctx context.Context, s script) error {
	labels := map[string]string{"app": workload}
	selector := &metav1.LabelSelector{MatchLabels: labels}
	meta := metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: workload}
	budget := &policyv1.PodDisruptionBudget{ObjectMeta: meta, Spec: policyv1.PodDisruptionBudgetSpec{
		Selector: selector, MinAvailable: new(intstr.FromInt(s.minAvailable)),
	}}
	deployment := &appsv1.Deployment{ObjectMeta: meta, Spec: appsv1.DeploymentSpec{
		Replicas: new(int32(s.replicas)), Selector: selector,
		Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: labels},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: workload, Image: "example.com/web:1"}}},
		},
	}}
	for _, obj := range []client.Object{budget, deployment} {
		if err := w.client.Create(ctx, obj); err != nil {
			return fmt.Errorf("create %T %s: %w", obj, workload, err)
		}
	}
	return nil
}

func (w *world) deleteMachine(ctx context.Context, name string) error {
	if err := w.client.Delete(ctx, fake.Machine(name)); err != nil {
		return fmt.Errorf("delete Machine %s: %w", name, err)
	}
	return nil
}
