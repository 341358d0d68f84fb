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
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/contract/pass"
	"github.com/machinist-dev/machinist/drain"
	"github.com/machinist-dev/machinist/fake"
	"github.com/machinist-dev/machinist/machine"
	"github.com/machinist-dev/machinist/noderef/cluster"
	"github.com/machinist-dev/machinist/phases"
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

// Run the reconciler in a controller of your own, which decides what is reconciled when.
func ExampleReconciler() {
	_ = func(r *machine.Reconciler, mine func(reconcile.Request) bool) reconcile.Func {
		return func(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
			if !mine(request) {
				return reconcile.Result{}, nil
			}
			return r.Reconcile(ctx, request)
		}
	}
	// Output:
}

// MachineDrainRules can stand among the filters of kubectl drain, or any other rules.
func ExampleMachineDrainRules() {
	amongKubectls := func(ofMachine drain.MachineDrainRules, namespaces drain.NamespaceLabels) []drain.Rule {
		return drain.KubectlRules(drain.KubectlOptions{
			Force: true, IgnoreAllDaemonSets: true, DeleteEmptyDirData: true, // the deletion of a Machine asks no person
			Additional: []drain.Rule{ofMachine.Rule(namespaces)},
		})
	}
	options := machine.Options{Policy: machine.Policy{
		DrainRules: machine.MachineDrainRules(amongKubectls),
	}}
	fmt.Println(options.Policy.DrainRules != nil)
	// Output: true
}

// The phases are Kubermatic's, and the spec counts as valid as soon as a step of the embedder has said so.
func ExamplePhaseStep() {
	facts := func(s *machine.Scope) phases.KubermaticFacts {
		f := machine.KubermaticFacts(s)
		accepted, _ := s.Condition("SpecAccepted")
		f.Valid = f.Valid || accepted.Status == "True"
		return f
	}
	steps := machine.Steps().Replace(machine.StepPhase, machine.PhaseStep(phases.Kubermatic(), facts)).
		InsertAfter(machine.StepPhase, machine.Step{
			Name: "explain", On: pass.InBoth, Closing: true, Run: func(_ context.Context, s *machine.Scope) (machine.Result, error) {
				fmt.Printf("%s is %s and waits for %s\n", s.State.Key, s.Phase.Phase, s.Phase.Waiting)
				return machine.Result{}, nil
			},
		})
	fmt.Println(len(steps) - len(machine.Steps()))
	// Output: 1
}

// The phases of Cluster API v0.3, for the tools that know them.
func ExampleClusterAPIFacts() {
	steps := machine.Steps().Replace(machine.StepPhase,
		machine.PhaseStep(phases.ClusterAPIV1Alpha3(), machine.ClusterAPIFacts))
	fmt.Println(len(steps) == len(machine.Steps()))
	// Output: true
}

// A stage of your own in a deletion: a backup of the machine before its drain, for ten minutes at most. The annotation of a person leaves it
// out, and a Machine that never got a Node has nothing to back up.
func ExampleStage() {
	backup := func(context.Context, string) (done bool, err error) { return true, nil } // your own API
	stage := machine.Stage{
		Name: "backup", Reason: "BackingUp",
		Excluded: func(s *machine.Scope) string {
			if s.State.Annotations["example.com/no-backup"] != "" {
				return "the Machine has the annotation example.com/no-backup"
			}
			return ""
		},
		Limit: func(*machine.Scope) time.Duration { return 10 * time.Minute },
		Needs: func(s *machine.Scope) string {
			if !s.NodesSynced {
				return "the Nodes could not be read yet"
			}
			return ""
		},
		Run: func(ctx context.Context, s *machine.Scope) (machine.Result, error) {
			done, err := backup(ctx, s.State.ProviderID)
			if err != nil || done {
				return machine.Result{}, err
			}
			wait := s.Wait("BackingUp", "The backup is under way")
			wait.RequeueAfter = 30 * time.Second
			return wait, nil
		},
	}
	steps := machine.Steps().InsertBefore(machine.StepDrain, stage.Step())
	fmt.Println(len(steps) - len(machine.Steps()))
	// Output: 1
}
