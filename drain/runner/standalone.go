package runner

import (
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Standalone returns what [Drain] requires for one cluster, for a program that has only its address: live clients for Nodes and Pods,
// evictions and deletions without retries in the client, and a cache that holds only PodDisruptionBudgets. Both results may be changed
// before they are used. They serve one Drain.
//
// client-go limits a client to 5 requests a second unless restConfig contains another limit. Standalone removes that limit on a copy when
// QPS is 0 and RateLimiter is nil, because the Runner has limits of its own.
func Standalone(restConfig *rest.Config) (Config, DrainOptions, error) {
	if restConfig == nil {
		return Config{}, DrainOptions{}, errors.New("standalone drain: the rest config is nil")
	}
	restConfig = rest.CopyConfig(restConfig)
	if restConfig.QPS == 0 && restConfig.RateLimiter == nil {
		restConfig.QPS = -1
	}
	if restConfig.UserAgent == "" {
		restConfig.UserAgent = rest.DefaultKubernetesUserAgent()
	}
	cfg, options, err := standalone(restConfig)
	if err != nil {
		return Config{}, DrainOptions{}, fmt.Errorf("standalone drain: %w", err)
	}
	return cfg, options, nil
}

// standalone makes the results of Standalone.
func standalone(restConfig *rest.Config) (cfg Config, options DrainOptions, err error) {
	httpClient, err := rest.HTTPClientFor(restConfig)
	if err != nil {
		return cfg, options, err
	}
	mapper := builtInKinds()
	budgets, err := cache.New(restConfig, cache.Options{Scheme: scheme.Scheme, HTTPClient: httpClient, Mapper: mapper})
	if err != nil {
		return cfg, options, err
	}
	cfg, live, err := configOver(restConfig, client.Options{Scheme: scheme.Scheme, HTTPClient: httpClient, Mapper: mapper}, budgets)
	cfg.beside = budgets.Start
	return cfg, DrainOptions{Nodes: live}, err
}

// builtInKinds knows the kinds of a drain without discovery requests, which ignore the contexts of their callers.
func builtInKinds() meta.RESTMapper {
	mapper := meta.NewDefaultRESTMapper(nil)
	for _, kind := range []string{"Node", "Namespace", "PersistentVolume"} {
		mapper.Add(corev1.SchemeGroupVersion.WithKind(kind), meta.RESTScopeRoot)
	}
	mapper.Add(storagev1.SchemeGroupVersion.WithKind("VolumeAttachment"), meta.RESTScopeRoot)
	for _, kind := range []string{"Pod", "PersistentVolumeClaim"} {
		mapper.Add(corev1.SchemeGroupVersion.WithKind(kind), meta.RESTScopeNamespace)
	}
	mapper.Add(policyv1.SchemeGroupVersion.WithKind("PodDisruptionBudget"), meta.RESTScopeNamespace)
	return mapper
}

// configOver returns a Config that sends requests through live clients and reads budgets from the cache, and its client for Nodes and Pods.
func configOver(restConfig *rest.Config, o client.Options, budgets cache.Cache) (Config, client.WithWatch, error) {
	clientset, err := kubernetes.NewForConfigAndClient(restConfig, o.HTTPClient)
	if err != nil {
		return Config{}, nil, err
	}
	live, err := client.NewWithWatch(restConfig, o)
	if err != nil {
		return Config{}, nil, err
	}
	pods, errPods := NewScopedPodSource(live)
	evictor, errEvictor := NewRESTEvictor(clientset)
	deleter, errDeleter := NewRESTDeleter(clientset)
	cfg := Config{Nodes: live, Pods: pods, Evictor: evictor, Deleter: deleter, Budgets: budgets, Informers: budgets}
	return cfg, live, errors.Join(errPods, errEvictor, errDeleter)
}
