package runner

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlcluster "sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/machinist-dev/machinist/drain"
)

// ErrNotListed matches the error about objects that are not listed yet. Retry later.
var ErrNotListed = errors.New("not listed yet")

// AddToManager adds a Runner for the Nodes of the manager's cluster, which runs while the manager is the leader. A reconciler calls
// [Runner.Step] and watches [Runner.Source]. For metrics, call [NewForCluster] and add the Runner to the manager.
func AddToManager(mgr manager.Manager) (*Runner, error) {
	r, err := NewForCluster(mgr, nil)
	if err == nil {
		err = mgr.Add(r)
	}
	return r, err
}

// NewForCluster returns a Runner, not yet started, for the Nodes of a cluster such as a manager. It sends no request. Start it once, for
// example by adding it to the manager. Metrics are optional, as in Config.
//
// It lists PodDisruptionBudgets, attached volumes and the labels of Namespaces when the first Node needs them. A kind that the API server
// does not serve, or does not allow to be listed, delays only results that need it; until then, the Message of a result contains the
// response of the API server.
func NewForCluster(c ctrlcluster.Cluster, metrics *Metrics) (*Runner, error) {
	forLists := c.GetHTTPClient()
	if own, ok := c.(interface{ CacheHTTPClient() *http.Client }); ok {
		forLists = own.CacheHTTPClient()
	}
	r, err := newOver(c.GetConfig(), c.GetHTTPClient(), forLists, func(cfg *Config, _ client.Client) {
		cfg.Nodes, cfg.Metrics = c.GetClient(), metrics
	})
	if err != nil {
		return nil, fmt.Errorf("new drain runner: %w", err)
	}
	r.lists.kinds = c.GetRESTMapper()
	return r, nil
}

// newOver returns a Runner that sends requests through live clients and has lists. change completes the configuration; it gets the client
// of the Runner.
func newOver(restConfig *rest.Config, httpClient, forLists *http.Client, change func(*Config, client.Client)) (*Runner, error) {
	clientset, err := kubernetes.NewForConfigAndClient(restConfig, httpClient)
	if err != nil {
		return nil, err
	}
	live, err := client.NewWithWatch(restConfig, client.Options{Scheme: scheme.Scheme, HTTPClient: forLists, Mapper: builtInKinds()})
	if err != nil {
		return nil, err
	}
	lists := newLists(live)
	cfg := Config{Nodes: live, Pods: lists, Evictor: NewRESTEvictor(clientset), Budgets: lists.budgetsIn}
	change(&cfg, live)
	r, err := New(cfg)
	if err == nil {
		r.lists, lists.budget = lists, r.wakeWaiters
	}
	return r, err
}

// builtInKinds returns the kinds of a drain without discovery requests, which ignore the contexts of their callers.
func builtInKinds() meta.RESTMapper {
	mapper := meta.NewDefaultRESTMapper(nil)
	for _, kind := range []string{"Node", "Namespace", "PersistentVolume"} {
		mapper.Add(corev1.SchemeGroupVersion.WithKind(kind), meta.RESTScopeRoot)
	}
	mapper.Add(storagev1.SchemeGroupVersion.WithKind("VolumeAttachment"), meta.RESTScopeRoot)
	mapper.Add(corev1.SchemeGroupVersion.WithKind("Pod"), meta.RESTScopeNamespace)
	mapper.Add(policyv1.SchemeGroupVersion.WithKind("PodDisruptionBudget"), meta.RESTScopeNamespace)
	return mapper
}

// NamespaceLabels returns a function that reads labels from memory. It does not wait: the first call starts the list of Namespaces, and
// until that is complete the error matches ErrNotListed. It requires a Runner of a cluster.
func (r *Runner) NamespaceLabels(context.Context) (drain.NamespaceLabels, error) {
	if r.lists == nil {
		return nil, errors.New("labels of Namespaces: this Runner has no lists, use NewForCluster")
	}
	namespaces := r.lists.namespaces()
	if err := namespaces.missing(); err != nil {
		return nil, fmt.Errorf("labels for drain rules: %w", err)
	}
	return func(namespace string) (map[string]string, bool) {
		found := named[corev1.Namespace](namespaces, namespace)
		if found == nil {
			return nil, false // a missing Namespace is not listed yet, because a Pod is in it
		}
		return found.Labels, true
	}, nil
}
