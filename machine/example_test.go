package machine_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/contract/pass"
	"github.com/machinist-dev/machinist/fake"
	"github.com/machinist-dev/machinist/machine"
	"github.com/machinist-dev/machinist/noderef/cluster"
)

func Example_embed() {
	mgr, err := ctrl.NewManager(ctrl.GetConfigOrDie(), ctrl.Options{}) // the manager that you already have
	if err != nil {
		log.Fatal(err)
	}
	ctx := ctrl.SetupSignalHandler()
	gvk := schema.GroupVersionKind{Group: "cluster.x-k8s.io", Version: "v1beta2", Kind: "Machine"}
	steps := machine.Steps().InsertBefore(machine.StepDrain, machine.Step{
		Name: "say-goodbye", On: machine.InDeletion, Run: func(_ context.Context, s *machine.Scope) (machine.Result, error) {
			log.Printf("%s is going", s.State.Key) // in every pass of its deletion
			return machine.Result{}, nil
		},
	})
	kind := contract.Unstructured(gvk, contract.LayoutsOf(contract.V1Beta2).Machine)
	if _, err := machine.SetupWithManager(ctx, mgr, kind, machine.Options{Steps: steps}); err != nil {
		log.Fatal(err)
	}
	log.Fatal(mgr.Start(ctx))
}

// A unit test: a Machine with fake providers comes to Running and is deleted, and a step of your own sees it go.
func Example_fakes() {
	ctx, cancel := context.WithCancel(context.Background())
	store := fake.NewStore(fake.Options{})
	settled := store.Start(ctx, fake.AllLoops())
	defer settled()
	defer cancel()
	c, v := store.Client(), contract.V1Beta2
	mgr, err := store.NewManager(ctrl.Options{})
	var once sync.Once
	steps := machine.Steps().InsertBefore(machine.StepDrain, machine.Step{
		Name: "say-goodbye", On: pass.InDeletion, Run: func(_ context.Context, s *machine.Scope) (machine.Result, error) {
			once.Do(func() { fmt.Println(s.State.Key, "is about to be drained") }) // this runs in every pass
			return machine.Result{}, nil
		},
	})
	err = errors.Join(err,
		c.Create(ctx, fake.CRD(fake.MachineGVK())),
		c.Create(ctx, fake.CRD(fake.BootstrapConfigGVK(v), v)), c.Create(ctx, fake.CRD(fake.InfraMachineGVK(v), v)))
	if err != nil {
		fmt.Println(err)
		return
	}
	kind := contract.Unstructured(fake.MachineGVK(), contract.LayoutsOf(contract.V1Beta2).Machine)
	_, err = machine.SetupWithManager(ctx, mgr, kind, machine.Options{
		Options: pass.Options{Name: "example-fakes", StatusDelay: -1}, Steps: steps,
	})
	err = errors.Join(err, (&fake.Bootstrap{ProviderOptions: fake.ProviderOptions{Name: "example-config"}}).SetupWithManager(mgr),
		(&fake.Infrastructure{ProviderOptions: fake.ProviderOptions{Name: "example-infra"}}).SetupWithManager(mgr))
	if err != nil {
		fmt.Println(err)
		return
	}
	stopped := make(chan error, 1)
	go func() { stopped <- mgr.Start(ctx) }()

	m := fake.Machine("one")
	err = errors.Join(c.Create(ctx, fake.BootstrapConfig(v, "one")), c.Create(ctx, fake.InfraMachine(v, "one")), c.Create(ctx, m))
	until := func(what string, done func(error) bool) {
		err := wait.PollUntilContextTimeout(ctx, 10*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
			return done(c.Get(ctx, client.ObjectKeyFromObject(m), m)), nil
		})
		if err != nil {
			what = fmt.Sprint("never ", what, m.Object["status"])
		}
		fmt.Println(what)
	}
	until("Running", func(error) bool {
		phase, _, _ := unstructured.NestedString(m.Object, "status", "phase")
		return phase == "Running"
	})
	err = errors.Join(err, c.Delete(ctx, m))
	until("gone", apierrors.IsNotFound)
	cancel()
	fmt.Println(errors.Join(err, <-stopped))
	// Output:
	// Running
	// default/one is about to be drained
	// gone
	// <nil>
}

// Machines follow their Cluster objects.
func ExampleClusters() {
	_ = func(ctx context.Context, mgr ctrl.Manager, kind contract.Kind, options machine.Options) error {
		ports, err := machine.PortsFromManager(ctx, mgr, options)
		if err != nil {
			return err
		}
		clusters, err := pass.ClustersFromManager(mgr, pass.ClusterOptions{Version: contract.V1Beta2})
		if err != nil {
			return err
		}
		ports.ClusterOf, ports.ClusterEvents = clusters.Of, clusters.Source
		r, err := machine.New(kind, ports, options)
		if err != nil {
			return err
		}
		return r.AddToManager(ctx, mgr)
	}
}

// What a Reconciler does is told to Prometheus, and so is what MachineDeployments ask for. The registry is the one that a manager serves.
func ExampleMetrics() {
	_ = func(ctx context.Context, mgr ctrl.Manager, kind contract.Kind, deployments contract.MachineDeploymentKind) error {
		ours := machine.NewMetrics(machine.MetricsOptions{})
		if err := metrics.Registry.Register(ours); err != nil {
			return err
		}
		if err := ours.WatchDeployments(ctx, mgr.GetCache(), deployments); err != nil {
			return err
		}
		_, err := machine.SetupWithManager(ctx, mgr, kind, machine.Options{Metrics: ours})
		return err
	}
}

// The Nodes are in workload clusters, which Cluster API's kubeconfig Secrets lead to.
func ExampleNew_workloadClusters() {
	_ = func(ctx context.Context, mgr ctrl.Manager, kind contract.Kind, options machine.Options) error {
		secrets, err := cluster.SecretsFromManager(mgr)
		if err != nil {
			return err
		}
		clusters, err := cluster.New(cluster.Options[cluster.Workload]{Access: secrets,
			Setup: cluster.WorkloadOptions{Matching: options.Matching}.Setup()})
		if err != nil {
			return err
		}
		if err := mgr.Add(clusters); err != nil {
			return err
		}
		r, err := machine.New(kind, machine.Ports{
			Ports:   pass.PortsFromManager(mgr),
			NodesOf: cluster.NodesOf(clusters), WorkloadEvents: clusters.Source,
		}, options)
		if err != nil {
			return err
		}
		return r.AddToManager(ctx, mgr)
	}
	// Output:
}

// What is wrong with a list is an error of New, which can be matched.
func ExampleSteps_unknown() {
	_, err := machine.New(contract.Kind{}, machine.Ports{}, machine.Options{Steps: machine.Steps().Remove("farewell")})
	fmt.Println(errors.Is(err, pass.ErrNoStep))
	// Output: true
}

func ExampleSteps() {
	steps := machine.Steps().InsertAfter(machine.StepInfrastructure, machine.Step{
		Name: "register-in-inventory", On: pass.InRunning,
		Run: func(context.Context, *machine.Scope) (machine.Result, error) { return machine.Result{}, nil },
	})
	for _, step := range steps {
		if step.On&pass.InRunning != 0 {
			fmt.Println(step.Name)
		}
	}
	// Output:
	// finalizer
	// paused
	// owners
	// bootstrap
	// infrastructure
	// register-in-inventory
	// node
	// propagate
	// certificates
	// conditions
	// phase
}

// The ClusterRole of an operator that has Nodes beside its Machines, and no Clusters.
func ExamplePolicyRules() {
	wiring := machine.Wiring{
		Kind:       contract.Unstructured(fake.MachineGVK(), contract.LayoutsOf(contract.V1Beta2).Machine),
		References: []schema.GroupResource{{Group: "infrastructure.cluster.x-k8s.io", Resource: "awsmachines"}},
		Drains:     true, Events: true,
	}
	for _, rule := range contract.MergePolicyRules(machine.PolicyRules(wiring), machine.NodePolicyRules(wiring)) {
		for _, resource := range rule.Resources {
			fmt.Println(strings.Join(rule.Verbs, ","), schema.GroupResource{Group: rule.APIGroups[0], Resource: resource})
		}
	}
	// Output:
	// delete,get,list,patch,watch nodes
	// list,watch persistentvolumes
	// delete,list,watch pods
	// create pods/eviction
	// get,list,watch customresourcedefinitions.apiextensions.k8s.io
	// list,patch,watch machines.cluster.x-k8s.io
	// patch machines/status.cluster.x-k8s.io
	// create,patch events.events.k8s.io
	// delete,get,list,patch,watch awsmachines.infrastructure.cluster.x-k8s.io
	// list,watch poddisruptionbudgets.policy
	// list,watch volumeattachments.storage.k8s.io
}
