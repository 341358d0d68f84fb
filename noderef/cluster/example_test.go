package cluster_test

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/machinist-dev/machinist/noderef/cluster"
)

// A controller whose Machines are in one cluster and whose Nodes are in many.
func Example() {
	_ = func(mgr ctrl.Manager, machinesOf cluster.Mapper, r func(nodes cache.Informer) reconcile.Result) error {
		secrets, err := cluster.SecretsFromManager(mgr)
		if err != nil {
			return err
		}
		clusters, err := cluster.New(cluster.Options[cache.Informer]{
			Access: secrets,
			Setup: func(ctx context.Context, c *cluster.Connection) (cache.Informer, error) {
				return c.GetCache().GetInformer(ctx, &corev1.Node{}, cache.BlockUntilSynced(false))
			},
		})
		if err != nil {
			return err
		}
		if err := mgr.Add(clusters); err != nil {
			return err
		}
		return ctrl.NewControllerManagedBy(mgr).
			Named("machine").
			WatchesRawSource(clusters.Source(machinesOf)).
			Complete(reconcile.Func(func(_ context.Context, request reconcile.Request) (reconcile.Result, error) {
				view, err := clusters.Get(types.NamespacedName{Namespace: request.Namespace, Name: "the Machine's cluster"})
				if errors.Is(err, cluster.ErrNotConnected) {
					return reconcile.Result{}, nil // say so in a condition; the source wakes us
				}
				return r(view.Value), err
			}))
	}
	// Output:
}

// One cluster is where this controller runs; the others have Secrets.
func ExampleAccess() {
	_ = func(mgr ctrl.Manager, secrets *cluster.Secrets, self types.NamespacedName) cluster.Access {
		return selfHosted{Secrets: secrets, self: self, config: mgr.GetConfig()}
	}
	// Output:
}

// selfHosted keeps the notifications of Secrets.
type selfHosted struct {
	*cluster.Secrets
	self   types.NamespacedName
	config *rest.Config
}

func (s selfHosted) Target(ctx context.Context, key types.NamespacedName) (cluster.Target, error) {
	if key == s.self {
		return cluster.Target{Config: s.config, Version: "the manager's"}, nil
	}
	return s.Secrets.Target(ctx, key)
}

// Kubeconfigs are in Secrets of one's own, such as access.prod with the key config.
func ExampleSecretLayout() {
	_ = func(mgr ctrl.Manager) (cluster.Access, error) {
		layout := cluster.SecretLayout{Prefix: "access.", Key: "config", Label: "example.com/access"}
		return layout.FromManager(mgr)
	}
	_ = cluster.SecretLayout{Suffix: ".kubeconfig"} // or prod.kubeconfig, with the key and the label of Cluster API
	// Output:
}

// Nothing is known of a cluster that was never asked for; the answer comes at once all the same.
func ExampleClusters_Get() {
	clusters, err := cluster.New(cluster.Options[struct{}]{
		Access: cluster.AccessFunc(func(context.Context, types.NamespacedName) (cluster.Target, error) {
			return cluster.Target{}, cluster.ErrNoKubeconfig
		}),
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	view, err := clusters.Get(client.ObjectKey{Namespace: "default", Name: "prod"})
	fmt.Println(view.Reason == "", view.Reason, view.LastSeen.IsZero())
	fmt.Println(err)
	// Output:
	// false Connecting true
	// cluster default/prod is not connected yet: connecting in the background
}

func ExampleParseKubeconfig() {
	_, err := cluster.ParseKubeconfig([]byte(`
apiVersion: v1
kind: Config
current-context: prod
contexts: [{name: prod, context: {cluster: prod, user: admin}}]
clusters: [{name: prod, cluster: {server: "https://192.0.2.1:6443"}}]
users: [{name: admin, user: {exec: {apiVersion: client.authentication.k8s.io/v1, command: sh}}}]
`))
	fmt.Println(err)
	fmt.Println(errors.Is(err, cluster.ErrUnsafeKubeconfig))
	// Output:
	// unsafe kubeconfig: user "admin" has an exec plugin; put a token or a certificate in its place
	// true
}

// Metrics of your own count clusters by why they are not connected.
func ExampleNotConnectedError() {
	count := map[cluster.Reason]int{}
	for _, err := range []error{
		&cluster.NotConnectedError{Reason: cluster.ReasonUnauthorized},
		fmt.Errorf("edge: %w", &cluster.NotConnectedError{Reason: cluster.ReasonUnreachable}),
	} {
		if down, ok := errors.AsType[*cluster.NotConnectedError](err); ok {
			count[down.Reason]++
		}
	}
	fmt.Println(count)
	// Output: map[Unauthorized:1 Unreachable:1]
}
