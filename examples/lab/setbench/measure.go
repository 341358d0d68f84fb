package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/examples/lab/arms"
	"github.com/machinist-dev/machinist/examples/lab/bench"
	"github.com/machinist-dev/machinist/examples/lab/capi"
	"github.com/machinist-dev/machinist/examples/lab/cluster"
	"github.com/machinist-dev/machinist/fake"
)

const (
	clusterName = "setbench"
	// nextTemplate is the name of the templates that a rollout goes to.
	nextTemplate = "setbench-next"
	phaseLimit   = 15 * time.Minute
	statusLimit  = 5 * time.Minute
	statusPoll   = 200 * time.Millisecond
	// deployments is how many MachineDeployments a fleet has, one of which is rolled out.
	deployments = 10
)

// comparison measures on one control plane.
type comparison struct {
	options

	say      bench.Say
	built    arms.Programs
	plane    *cluster.ControlPlane
	client   client.Client
	cached   client.Reader // the cache of the provider
	measured map[arms.Name][]figures
	// floorProgram is empty without --floor.
	floorProgram string
}

func (c *comparison) measure(ctx context.Context) error {
	dir, err := os.MkdirTemp("", "setbench-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	if c.built, err = arms.Build(ctx, c.arms, dir, c.say); err != nil {
		return err
	}
	if err := c.makeFloor(ctx, dir); err != nil {
		return err
	}
	o := cluster.Options{KeepDir: c.keep}
	if c.floor {
		o.AuditObjects, o.AuditManagedFields = written(), true
	}
	if c.health {
		o.ManagedNodes = livingNodes
	}
	return bench.OnControlPlane(ctx, c.say, o, func(ctx context.Context, plane *cluster.ControlPlane) error {
		c.plane = plane
		if err := c.install(ctx); err != nil {
			return err
		}
		return c.all(ctx)
	})
}

func (c *comparison) config(agent string) *rest.Config {
	to := c.plane.Config()
	to.UserAgent = agent
	return to
}

// install brings CRDs, the Cluster and templates, and starts the provider until ctx ends.
func (c *comparison) install(ctx context.Context) error {
	var err error
	if c.client, err = client.New(c.config("setbench"), client.Options{Scheme: scheme.Scheme}); err != nil {
		return err
	}
	for i := range c.managers {
		if err := c.installIn(ctx, namespaceOf(i)); err != nil {
			return err
		}
	}
	c.cached, err = startProvider(ctx, c.config("setbench-provider"))
	return err
}

// namespaceOf is the namespace of a manager.
func namespaceOf(manager int) string {
	if manager == 0 {
		return metav1.NamespaceDefault
	}
	return fmt.Sprintf("%s-%d", clusterName, manager)
}

// installIn brings them to one namespace.
func (c *comparison) installIn(ctx context.Context, namespace string) error {
	if namespace != metav1.NamespaceDefault {
		if err := c.client.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}); err != nil {
			return err
		}
	}
	objects := &capi.Objects{Client: c.client, Plane: c.plane, Cluster: clusterName, Namespace: namespace, Infrastructure: c.health}
	if err := objects.Install(ctx); err != nil {
		return err
	}
	for _, gvk := range []schema.GroupVersionKind{fake.InfraMachineGVK(contract.V1Beta2), fake.BootstrapConfigGVK(contract.V1Beta2)} {
		template := gvk.GroupVersion().WithKind(gvk.Kind + contract.TemplateSuffix)
		if err := cluster.InstallCRDs(ctx, c.plane.Config(), fake.CRD(template, contract.V1Beta2)); err != nil {
			return err
		}
		obj := &unstructured.Unstructured{Object: map[string]any{
			"spec": map[string]any{"template": map[string]any{"spec": map[string]any{"size": "large"}}},
		}}
		obj.SetGroupVersionKind(template)
		obj.SetNamespace(namespace)
		for _, name := range []string{clusterName, nextTemplate} {
			one := obj.DeepCopy()
			one.SetName(name)
			if err := c.client.Create(ctx, one); err != nil {
				return err
			}
		}
	}
	return nil
}

// startProvider runs the contract provider in this process until ctx ends, and returns what it has cached.
func startProvider(ctx context.Context, to *rest.Config) (client.Reader, error) {
	mgr, err := ctrl.NewManager(to, ctrl.Options{
		Logger: logr.Discard(), Metrics: server.Options{BindAddress: "0"},
		Client: client.Options{Cache: &client.CacheOptions{Unstructured: true}},
		Controller: config.Controller{
			SkipNameValidation: new(true), MaxConcurrentReconciles: 20,
			UsePriorityQueue: new(false), // it can hang when it is shut down: kubernetes-sigs/controller-runtime#3538
		},
	})
	if err != nil {
		return nil, fmt.Errorf("start the provider: %w", err)
	}
	if err := (&fake.Infrastructure{Node: nodeOf}).SetupWithManager(mgr); err != nil {
		return nil, fmt.Errorf("start the provider: %w", err)
	}
	if err := (&fake.Bootstrap{}).SetupWithManager(mgr); err != nil {
		return nil, fmt.Errorf("start the provider: %w", err)
	}
	go func() { _ = mgr.Start(ctx) }() // what goes wrong shows in what is waited for
	if !mgr.GetCache().WaitForCacheSync(ctx) {
		return nil, context.Cause(ctx)
	}
	return mgr.GetClient(), nil
}

// all measures every arm in every round, until ctx ends. The arms take turns.
func (c *comparison) all(ctx context.Context) error {
	for round := range c.rounds {
		for _, arm := range bench.InTurn(c.arms, round) {
			c.say("%s, round %d of %d: %d Machines", arm, round+1, c.rounds, c.machines)
			f, err := c.one(ctx, arm, fmt.Sprintf("%s-%d", arm, round))
			if len(f.phases) > 0 {
				c.say("%s: %s", arm, f)
				c.measured[arm] = append(c.measured[arm], f)
			}
			if err != nil {
				return fmt.Errorf("%s: %w", arm, err)
			}
		}
	}
	return nil
}

// flags are those of an arm, at Cluster API's client limits but for a fleet. That of Cluster API reconciles all kinds anyway.
func (o options) flags(arm arms.Name) []string {
	flags := arms.DefaultLimits(arm)
	if o.fleet {
		flags = arms.NoLimits(arm)
	}
	if arm != armOurs {
		return flags
	}
	flags = append(flags, "--machinesets", "--machinedeployments")
	if o.fleet || o.health {
		flags = append(flags, fmt.Sprintf("--worker-count=%d", o.workers)) // the default is as many as Cluster API's
	}
	if o.health {
		flags = append(flags, "--machinehealthchecks")
	}
	return flags
}

func scaledTo(replicas int64) string { return fmt.Sprintf(`{"spec":{"replicas":%d}}`, replicas) }

// hasDeployments reports whether MachineDeployments are measured, and not a set.
func (o options) hasDeployments() bool { return o.rollout || o.fleet }

// kind is what is scaled.
func (o options) kind() string {
	if o.hasDeployments() {
		return "MachineDeployment"
	}
	return "MachineSet"
}

// objects are the set, or the deployments, without Machines.
func (c *comparison) objects(name string) []*unstructured.Unstructured {
	if !c.fleet {
		return []*unstructured.Unstructured{c.object(name, metav1.NamespaceDefault)}
	}
	var all []*unstructured.Unstructured
	for i := range deployments {
		all = append(all, c.object(fmt.Sprintf("%s-%d", name, i), namespaceOf(i%c.managers)))
	}
	return all
}

// object is a set, or a deployment, without Machines.
func (c *comparison) object(name, namespace string) *unstructured.Unstructured {
	ref := func(gvk schema.GroupVersionKind) map[string]any {
		return map[string]any{"apiGroup": gvk.Group, "kind": gvk.Kind + contract.TemplateSuffix, "name": clusterName}
	}
	pool := map[string]any{"pool": name, contract.ClusterNameLabel: clusterName}
	spec := map[string]any{
		"clusterName": clusterName, "replicas": int64(0), "selector": map[string]any{"matchLabels": pool},
		"template": map[string]any{
			"metadata": map[string]any{"labels": pool},
			"spec": map[string]any{
				"clusterName": clusterName, "infrastructureRef": ref(fake.InfraMachineGVK(contract.V1Beta2)),
				"bootstrap": map[string]any{"configRef": ref(fake.BootstrapConfigGVK(contract.V1Beta2))},
			},
		},
	}
	if c.hasDeployments() { // without webhooks there are no defaults
		spec["rollout"] = map[string]any{"strategy": map[string]any{
			"type": contract.RolloutRolling, "rollingUpdate": map[string]any{"maxSurge": "10%", "maxUnavailable": int64(0)},
		}}
	}
	obj := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
	obj.SetAPIVersion("cluster.x-k8s.io/v1beta2")
	obj.SetKind(c.kind())
	obj.SetNamespace(namespace)
	obj.SetName(name)
	return obj
}
