package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/examples/controlplane/arms"
	"github.com/machinist-dev/machinist/examples/controlplane/bench"
	"github.com/machinist-dev/machinist/examples/controlplane/capi"
	"github.com/machinist-dev/machinist/examples/controlplane/cluster"
	"github.com/machinist-dev/machinist/fake"
)

const (
	clusterName = "setbench"
	// nextTemplate is the name of the templates that a rollout goes to.
	nextTemplate = "setbench-next"
	// quiet is for how long a manager must not write to be at rest.
	quiet      = 5 * time.Second
	restLimit  = 5 * time.Minute
	phaseLimit = 15 * time.Minute
	statusPoll = 200 * time.Millisecond
)

// comparison measures on one control plane.
type comparison struct {
	options

	say      bench.Say
	built    arms.Programs
	plane    *cluster.ControlPlane
	client   client.Client
	measured map[arms.Name][]figures
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
	return bench.OnControlPlane(ctx, c.say, cluster.Options{KeepDir: c.keep}, func(ctx context.Context, plane *cluster.ControlPlane) error {
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
	if err := (&capi.Objects{Client: c.client, Plane: c.plane, Cluster: clusterName}).Install(ctx); err != nil {
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
		obj.SetNamespace(metav1.NamespaceDefault)
		for _, name := range []string{clusterName, nextTemplate} {
			one := obj.DeepCopy()
			one.SetName(name)
			if err := c.client.Create(ctx, one); err != nil {
				return err
			}
		}
	}
	return startProvider(ctx, c.config("setbench-provider"))
}

func startProvider(ctx context.Context, to *rest.Config) error {
	mgr, err := ctrl.NewManager(to, ctrl.Options{
		Logger: logr.Discard(), Metrics: server.Options{BindAddress: "0"},
		Client: client.Options{Cache: &client.CacheOptions{Unstructured: true}},
		Controller: config.Controller{
			SkipNameValidation: new(true), MaxConcurrentReconciles: 20,
			UsePriorityQueue: new(false), // it can hang when it is shut down: kubernetes-sigs/controller-runtime#3538
		},
	})
	if err != nil {
		return fmt.Errorf("start the provider: %w", err)
	}
	if err := (&fake.Infrastructure{}).SetupWithManager(mgr); err != nil {
		return fmt.Errorf("start the provider: %w", err)
	}
	if err := (&fake.Bootstrap{}).SetupWithManager(mgr); err != nil {
		return fmt.Errorf("start the provider: %w", err)
	}
	go func() { _ = mgr.Start(ctx) }() // what goes wrong shows in what is waited for
	if !mgr.GetCache().WaitForCacheSync(ctx) {
		return context.Cause(ctx)
	}
	return nil
}

// all measures every arm in every round, until ctx ends. The arms take turns.
func (c *comparison) all(ctx context.Context) error {
	for round := range c.rounds {
		for _, arm := range bench.InTurn(c.arms, round) {
			c.say("%s, round %d of %d: %d Machines", arm, round+1, c.rounds, c.machines)
			f, err := c.one(ctx, arm, fmt.Sprintf("%s-%d", arm, round))
			if err != nil {
				return fmt.Errorf("%s: %w", arm, err)
			}
			c.say("%s: %s", arm, f)
			c.measured[arm] = append(c.measured[arm], f)
		}
	}
	return nil
}

// one has an arm scale a set of its own up and down, or a deployment, and roll that out in between.
func (c *comparison) one(ctx context.Context, arm arms.Name, name string) (figures, error) {
	f := figures{machines: c.machines}
	obj := c.object(name)
	if err := c.client.Create(ctx, obj); err != nil {
		return f, err
	}
	mark, err := c.plane.Audit().Mark()
	if err != nil {
		return f, err
	}
	m, err := arms.Start(ctx, c.built, arm, c.plane, flags(arm)...)
	if err != nil {
		return f, err
	}
	defer m.Stop()
	n := int64(c.machines)
	err = m.While(ctx, func(ctx context.Context) error {
		if _, err := c.rest(ctx, m.Agent, mark); err != nil {
			return err
		}
		if f.up, err = c.phase(ctx, m.Agent, obj, scaledTo(n), n); err != nil {
			return err
		}
		if c.rollout {
			next := fmt.Sprintf(`{"spec":{"template":{"spec":{"infrastructureRef":{"name":%q}}}}}`, nextTemplate)
			roll, err := c.phase(ctx, m.Agent, obj, next, n)
			if err != nil {
				return err
			}
			f.roll = &roll
		}
		if f.down, err = c.phase(ctx, m.Agent, obj, scaledTo(0), 0); err != nil {
			return err
		}
		if err := c.client.Delete(ctx, obj); err != nil {
			return err
		}
		return wait.PollUntilContextTimeout(ctx, statusPoll, restLimit, true, func(ctx context.Context) (bool, error) {
			return apierrors.IsNotFound(c.client.Get(ctx, client.ObjectKeyFromObject(obj), obj.DeepCopy())), nil
		})
	})
	m.Stop()
	f.cpu = m.CPU().Seconds()
	return f, err
}

// flags are those of an arm at Cluster API's client limits. That of Cluster API reconciles all kinds anyway.
func flags(arm arms.Name) []string {
	flags := arms.DefaultLimits(arm)
	if arm == armOurs {
		flags = append(flags, "--machinesets", "--machinedeployments")
	}
	return flags
}

func scaledTo(replicas int64) string { return fmt.Sprintf(`{"spec":{"replicas":%d}}`, replicas) }

// kind is what is scaled.
func (o options) kind() string {
	if o.rollout {
		return "MachineDeployment"
	}
	return "MachineSet"
}

// object is a set, or a deployment, without Machines.
func (c *comparison) object(name string) *unstructured.Unstructured {
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
	if c.rollout { // without webhooks there are no defaults
		spec["rollout"] = map[string]any{"strategy": map[string]any{
			"type": contract.RolloutRolling, "rollingUpdate": map[string]any{"maxSurge": "10%", "maxUnavailable": int64(0)},
		}}
	}
	obj := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
	obj.SetAPIVersion("cluster.x-k8s.io/v1beta2")
	obj.SetKind(c.kind())
	obj.SetNamespace(metav1.NamespaceDefault)
	obj.SetName(name)
	return obj
}

// phase changes the object, waits until its status says that all is done and its manager is at rest, and counts.
func (c *comparison) phase(ctx context.Context, agent string, obj *unstructured.Unstructured, change string, n int64) (phase, error) {
	mark, err := c.plane.Audit().Mark()
	if err != nil {
		return phase{}, err
	}
	start := time.Now()
	changed := obj.DeepCopy()
	if err := c.client.Patch(ctx, changed, client.RawPatch(types.MergePatchType, []byte(change))); err != nil {
		return phase{}, err
	}
	err = wait.PollUntilContextTimeout(ctx, statusPoll, phaseLimit, true, func(ctx context.Context) (bool, error) {
		fresh := obj.DeepCopy()
		if err := c.client.Get(ctx, client.ObjectKeyFromObject(obj), fresh); err != nil {
			return false, err
		}
		return c.isDone(ctx, fresh, changed.GetGeneration(), n)
	})
	if err != nil {
		return phase{}, fmt.Errorf("%s: %w", change, err)
	}
	took := time.Since(start)
	events, err := c.rest(ctx, agent, mark)
	return phaseOf(events, took), err
}

// isDone says whether a status is that of a generation, and of n Machines that are all available, and, with a deployment, whether they are
// all those of the set with its template. How many are up to date says nothing right after a change.
func (c *comparison) isDone(ctx context.Context, obj *unstructured.Unstructured, generation, n int64) (bool, error) {
	number := func(of *unstructured.Unstructured, fields ...string) int64 {
		value, _, _ := unstructured.NestedInt64(of.Object, fields...)
		return value
	}
	for _, field := range []string{"replicas", "readyReplicas", "availableReplicas"} {
		_, found, _ := unstructured.NestedInt64(obj.Object, "status", field)
		if !found || number(obj, "status", field) != n {
			return false, nil
		}
	}
	if number(obj, "status", "observedGeneration") < generation || !c.rollout {
		return number(obj, "status", "observedGeneration") >= generation, nil
	}
	sets := &unstructured.UnstructuredList{}
	sets.SetGroupVersionKind(obj.GroupVersionKind().GroupVersion().WithKind("MachineSetList"))
	err := c.client.List(ctx, sets, client.InNamespace(obj.GetNamespace()), client.MatchingLabels{contract.DeploymentNameLabel: obj.GetName()})
	template := []string{"spec", "template", "spec", "infrastructureRef", "name"}
	want, _, _ := unstructured.NestedString(obj.Object, template...)
	for i := range sets.Items {
		name, _, _ := unstructured.NestedString(sets.Items[i].Object, template...)
		if has := number(&sets.Items[i], "status", "replicas"); (name == want && has != n) || (name != want && has != 0) {
			return false, err
		}
	}
	return len(sets.Items) > 0, err
}

// rest waits until a manager writes no more, and returns its requests since a mark.
func (c *comparison) rest(ctx context.Context, agent string, since cluster.AuditMark) (cluster.AuditEvents, error) {
	began := time.Now()
	for {
		events, err := c.plane.Audit().Since(since)
		if err != nil {
			return nil, err
		}
		own, last := events.From(agent), began
		for _, e := range own.Writes().Where(isCounted) {
			if e.Received.After(last) {
				last = e.Received
			}
		}
		left := quiet - time.Since(last)
		if left <= 0 {
			return own, nil
		}
		if time.Since(began) > restLimit {
			return nil, fmt.Errorf("the manager still writes %s after all was done: %s", restLimit, own.Writes())
		}
		if err := bench.Sleep(ctx, left); err != nil {
			return nil, err
		}
	}
}
