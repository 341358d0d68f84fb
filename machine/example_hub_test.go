package machine_test

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/contract/pass"
	"github.com/machinist-dev/machinist/fake"
	"github.com/machinist-dev/machinist/machine"
	"github.com/machinist-dev/machinist/noderef/cluster"
)

// A hub has the Machines of two workload clusters, whose Nodes have the same name. All three API servers are stores of this test; a
// program has cluster.SecretsFromManager in place of the AccessFunc.
func Example_hub() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	hub := fake.NewStore(fake.Options{Seed: 1})
	workload := map[string]*fake.Store{"east": fake.NewStore(fake.Options{Seed: 2}), "west": fake.NewStore(fake.Options{Seed: 3})}
	must(hub.Client().Create(ctx, fake.CRD(fake.MachineGVK())))
	mgr, err := hub.NewManager(ctrl.Options{})
	must(err)
	clusters, err := cluster.New(cluster.Options[cluster.Workload]{
		Setup: cluster.WorkloadOptions{}.Setup(),
		Access: cluster.AccessFunc(func(_ context.Context, key types.NamespacedName) (cluster.Target, error) {
			return cluster.Target{Config: workload[key.Name].RESTConfig(), Version: "1"}, nil
		}),
	})
	must(err)
	must(mgr.Add(clusters))
	r, err := machine.New(contract.Unstructured(fake.MachineGVK(), contract.LayoutsOf(contract.V1Beta2).Machine), machine.Ports{
		Ports: pass.PortsFromManager(mgr), NodesOf: cluster.NodesOf(clusters), WorkloadEvents: clusters.Source,
	}, machine.Options{Options: pass.Options{Name: "example-hub"}})
	must(err)
	must(r.AddToManager(ctx, mgr))
	stopped := make(chan error, 1)
	go func() { stopped <- mgr.Start(ctx) }()

	for name, store := range workload {
		must(store.Client().Create(ctx, fake.Node("node-1", "example://"+name)))
		must(hub.Client().Create(ctx, fake.Machine("machine-"+name, fake.WithField(map[string]any{
			"clusterName": name, "providerID": "example://" + name,
		}, "spec"))))
	}
	for _, name := range []string{"east", "west"} {
		m := fake.Machine("machine-" + name)
		must(wait.PollUntilContextTimeout(ctx, time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
			err := hub.Client().Get(ctx, client.ObjectKeyFromObject(m), m)
			return m.GetAnnotations()[contract.NodeUIDAnnotation] != "", err
		}))
		node := fake.Node("node-1", "")
		must(workload[name].Client().Get(ctx, client.ObjectKeyFromObject(node), node))
		fmt.Println(m.GetName(), m.GetAnnotations()[contract.NodeUIDAnnotation] == string(node.UID))
	}
	cancel()
	fmt.Println(<-stopped)
	// Output:
	// machine-east true
	// machine-west true
	// <nil>
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}
