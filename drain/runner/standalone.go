package runner

import (
	"errors"
	"fmt"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Standalone returns all that [Drain] needs of one cluster, for a program that has nothing but its address: live clients for
// Nodes and pods, evictions and deletions without hidden retries, and a cache that holds PodDisruptionBudgets only. Both
// results may be changed before they are used, and serve one Drain.
//
// client-go limits a client to 5 requests a second unless restConfig says otherwise; Standalone lifts that limit on a copy
// when QPS is 0 and there is no RateLimiter, because the Runner has limits of its own.
func Standalone(restConfig *rest.Config) (Config, DrainOptions, error) {
	if restConfig == nil {
		return Config{}, DrainOptions{}, errors.New("standalone drain: the rest config is nil")
	}
	restConfig = rest.CopyConfig(restConfig)
	if restConfig.QPS == 0 && restConfig.RateLimiter == nil {
		restConfig.QPS = -1
	}
	fail := func(err error) (Config, DrainOptions, error) {
		return Config{}, DrainOptions{}, fmt.Errorf("standalone drain: %w", err)
	}
	clientset, err := kubernetes.NewForConfig(restConfig)
	if err != nil {
		return fail(err)
	}
	live, err := client.NewWithWatch(restConfig, client.Options{Scheme: scheme.Scheme})
	if err != nil {
		return fail(err)
	}
	budgets, err := cache.New(restConfig, cache.Options{Scheme: scheme.Scheme})
	if err != nil {
		return fail(err)
	}
	evictor, err := NewRESTEvictor(clientset)
	if err != nil {
		return fail(err)
	}
	deleter, err := NewRESTDeleter(clientset)
	if err != nil {
		return fail(err)
	}
	pods, err := NewScopedPodSource(live, ScopedOptions{})
	if err != nil {
		return fail(err)
	}
	cfg := Config{Nodes: live, Pods: pods, Evictor: evictor, Deleter: deleter, Budgets: budgets, Informers: budgets}
	return cfg, DrainOptions{Nodes: live, Beside: budgets.Start}, nil
}
