package main

import (
	"cmp"
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

	"github.com/machinist-dev/machinist/examples/manager/api"
)

// lookTimeout limits the first requests.
const lookTimeout = 10 * time.Second

// served has the kinds that exist besides Machines.
type served struct {
	clusters bool
	rollouts bool // MachineSets and MachineDeployments
	sets     bool
	checks   bool // MachineHealthChecks
	// lists reports whether the API server has a resource of the group of the kinds, of pools, of classes, or of Cluster API.
	lists func(schema.GroupResource) bool
}

// lookAtServer makes the first requests, so that a connection problem becomes a clear error, and finds the served
// kinds.
func (o settings) lookAtServer(cfg *rest.Config) (served, error) {
	groups := map[string]*metav1.APIResourceList{}
	checks := o.Kinds.Group.MachineHealthCheck().GVK.Group
	looked := []api.Group{o.Kinds.Group, o.Kinds.GroupOfPools(), api.ClusterAPI, api.Group(checks)}
	if o.readsClasses() {
		looked = append(looked, api.Group(o.classes().Group))
	}
	for _, group := range looked {
		version := group.GroupVersion()
		if groups[version.Group] != nil {
			continue
		}
		list, err := resourcesOf(cfg, version)
		if err != nil && !apierrors.IsNotFound(err) {
			return served{}, err
		}
		groups[version.Group] = cmp.Or(list, &metav1.APIResourceList{})
	}
	has := func(r schema.GroupResource) bool { return groups[r.Group] != nil && lists(groups[r.Group], r.Resource) }
	ours := func(resource string) bool { return has(o.ours(resource)) }
	if !ours(machineResource) {
		return served{}, fmt.Errorf("at %s: %w", cfg.Host, o.notServed("", machineResource))
	}
	return served{
		clusters: has(schema.GroupResource{Group: string(api.ClusterAPI), Resource: clusterResource}), sets: ours(setResource),
		rollouts: ours(setResource) && ours(deploymentResource), lists: has,
		checks: has(schema.GroupResource{Group: checks, Resource: healthCheckResource}),
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

// notServed is the error for resources of the group of the kinds, which a flag needs.
func (o settings) notServed(flag, resources string) error {
	return o.notServedBy(o.Kinds.Group, flag, resources)
}

func (o settings) notServedBy(group api.Group, flag, resources string) error {
	if flag != "" {
		flag += ": "
	}
	var install string
	switch group {
	case api.Machinist:
		install = "give --install-crds, or apply what --print-crds prints"
	case api.Kubermatic:
		install = "install the CRDs of Kubermatic's machine-controller (v1.60), which are in its examples/machine-controller.yaml"
	case api.Gardener:
		install = "install the CRDs of Gardener's machine-controller-manager (v0.60), which are in its kubernetes/crds"
	default:
		install = "install Cluster API's CRDs (v1.11 or later), or give --api-group=" + string(api.Machinist)
	}
	return fmt.Errorf("%sthe API server does not serve %s of %s: %s", flag, resources, group.GroupVersion(), install)
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
		strings.Contains(text, string(api.ClusterAPI)+`": prefer a domain-qualified finalizer name`) {
		return
	}
	w.KubeAPIWarningLogger.HandleWarningHeaderWithContext(ctx, code, agent, text)
}
