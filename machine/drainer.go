package machine

import (
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlcluster "sigs.k8s.io/controller-runtime/pkg/cluster"

	"github.com/machinist-dev/machinist/drain/runner"
)

// newDrainer returns a drain runner for the Nodes of a cluster, such as a manager, that is yet to be started.
func newDrainer(c ctrlcluster.Cluster) (*runner.Runner, error) {
	clients, err := kubernetes.NewForConfigAndClient(c.GetConfig(), c.GetHTTPClient())
	if err != nil {
		return nil, err
	}
	evictor, err := runner.NewRESTEvictor(clients)
	if err != nil {
		return nil, err
	}
	live, err := client.NewWithWatch(c.GetConfig(), client.Options{
		HTTPClient: c.GetHTTPClient(), Scheme: c.GetScheme(), Mapper: c.GetRESTMapper(),
	})
	if err != nil {
		return nil, err
	}
	pods, err := runner.NewScopedPodSource(live, runner.ScopedOptions{})
	if err != nil {
		return nil, err
	}
	return runner.New(runner.Config{
		Nodes: c.GetClient(), Pods: pods, Evictor: evictor, Budgets: c.GetCache(), Informers: c.GetCache(),
	})
}
