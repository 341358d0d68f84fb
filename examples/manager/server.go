package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"
)

// lookTimeout limits the first requests.
const lookTimeout = 10 * time.Second

// served tells which of Cluster API's kinds exist besides Machines.
type served struct {
	clusters bool
	rollouts bool // MachineSets and MachineDeployments
	sets     bool
	pools    bool
	checks   bool // MachineHealthChecks
	// lists reports whether the version has a resource.
	lists func(resource string) bool
}

// lookAtServer makes the first requests, so that a connection problem becomes a clear error, and finds the served
// kinds.
func lookAtServer(cfg *rest.Config) (served, error) {
	list, err := resourcesOf(cfg, machineGVK().GroupVersion())
	switch {
	case apierrors.IsNotFound(err):
		return served{}, notServed(cfg)
	case err != nil:
		return served{}, err
	}
	has := func(resource string) bool { return lists(list, resource) }
	if !has(machineResource) {
		return served{}, notServed(cfg)
	}
	return served{
		clusters: has(clusterResource), sets: has(setResource), rollouts: has(setResource) && has(deploymentResource), pools: has(poolResource),
		checks: has(healthCheckResource), lists: has,
	}, nil
}

// resourcesOf returns the resources of a version that the API server serves.
func resourcesOf(cfg *rest.Config, version schema.GroupVersion) (*metav1.APIResourceList, error) {
	quick := rest.CopyConfig(cfg)
	quick.Timeout = lookTimeout
	client, err := discovery.NewDiscoveryClientForConfig(quick)
	if err != nil {
		return nil, fmt.Errorf("the configuration for %s cannot be used: %w", cfg.Host, err)
	}
	list, err := client.ServerResourcesForGroupVersion(version.String())
	if err != nil {
		return nil, fmt.Errorf("the API server at %s cannot be used: %w; check the kubeconfig, and that the server runs", cfg.Host, err)
	}
	return list, nil
}

func lists(list *metav1.APIResourceList, resource string) bool {
	return slices.ContainsFunc(list.APIResources, func(r metav1.APIResource) bool { return r.Name == resource })
}

func notServed(cfg *rest.Config) error {
	return fmt.Errorf("the API server at %s does not serve %s of %s: install Cluster API's CRDs (v1.11 or later)",
		cfg.Host, machineResource, machineGVK().GroupVersion())
}

// warnings logs the API server's warnings, except that Cluster API's finalizers have no slash. That comes with every
// Machine and cannot be changed. Cluster API's own managers ignore it too.
type warnings struct{ *ctrllog.KubeAPIWarningLogger }

func newWarnings() warnings {
	return warnings{ctrllog.NewKubeAPIWarningLogger(ctrllog.KubeAPIWarningLoggerOptions{})}
}

// HandleWarningHeaderWithContext implements rest.WarningHandlerWithContext.
func (w warnings) HandleWarningHeaderWithContext(ctx context.Context, code int, agent, text string) {
	if strings.HasPrefix(text, "metadata.finalizers: ") &&
		strings.Contains(text, clusterAPIGroup+`": prefer a domain-qualified finalizer name`) {
		return
	}
	w.KubeAPIWarningLogger.HandleWarningHeaderWithContext(ctx, code, agent, text)
}
