package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
)

const (
	crdPoll  = 50 * time.Millisecond
	crdLimit = time.Minute
)

var crdResource = schema.GroupVersionResource{
	Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions",
}

// InstallCRDs creates or replaces CustomResourceDefinitions (apiextensions.k8s.io/v1) and returns when the API
// server lists every served version of each, and its discovery describes them. It waits a minute for each at most. The
// objects are not changed.
func InstallCRDs(ctx context.Context, config *rest.Config, crds ...*unstructured.Unstructured) error {
	client, err := dynamic.NewForConfig(config)
	served, undiscovered := discovery.NewDiscoveryClientForConfig(config)
	if err := errors.Join(err, undiscovered); err != nil {
		return fmt.Errorf("install CRDs: %w", err)
	}
	for _, crd := range crds {
		if err := applyCRD(ctx, client, crd); err != nil {
			return fmt.Errorf("install the CRD %s: %w", crd.GetName(), err)
		}
	}
	for _, crd := range crds {
		if err := waitForCRD(ctx, client, served, crd); err != nil {
			return fmt.Errorf("wait for the CRD %s: %w", crd.GetName(), err)
		}
	}
	return nil
}

func applyCRD(ctx context.Context, client dynamic.Interface, crd *unstructured.Unstructured) error {
	api := client.Resource(crdResource)
	_, err := api.Create(ctx, crd.DeepCopy(), metav1.CreateOptions{})
	if !apierrors.IsAlreadyExists(err) {
		return err
	}
	existing, err := api.Get(ctx, crd.GetName(), metav1.GetOptions{})
	if err != nil {
		return err
	}
	updated := crd.DeepCopy()
	updated.SetResourceVersion(existing.GetResourceVersion())
	_, err = api.Update(ctx, updated, metav1.UpdateOptions{})
	return err
}

// waitForCRD asks for the objects and for the description of their version, because the API server has the condition Established shortly
// before it serves them, and serves them shortly before its discovery lists them: a RESTMapper keeps an answer without them.
func waitForCRD(ctx context.Context, client dynamic.Interface, served discovery.DiscoveryInterface, crd *unstructured.Unstructured) error {
	resources, err := servedResources(crd)
	if err != nil {
		return err
	}
	var last error
	err = wait.PollUntilContextTimeout(ctx, crdPoll, crdLimit, true, func(ctx context.Context) (bool, error) {
		last = listAll(ctx, client, served, resources)
		return last == nil, nil
	})
	return errors.Join(err, last) // both or none
}

func listAll(ctx context.Context, client dynamic.Interface, served discovery.DiscoveryInterface, all []schema.GroupVersionResource) error {
	for _, resource := range all {
		if _, err := client.Resource(resource).List(ctx, metav1.ListOptions{Limit: 1}); err != nil {
			return fmt.Errorf("list %s: %w", resource, err)
		}
		described, err := served.ServerResourcesForGroupVersion(resource.GroupVersion().String())
		if err != nil {
			return fmt.Errorf("discover %s: %w", resource, err)
		}
		if !slices.ContainsFunc(described.APIResources, func(r metav1.APIResource) bool { return r.Name == resource.Resource }) {
			return fmt.Errorf("discover %s: it is not listed", resource)
		}
	}
	return nil
}

func servedResources(crd *unstructured.Unstructured) ([]schema.GroupVersionResource, error) {
	group, _, err := unstructured.NestedString(crd.Object, "spec", "group")
	if err != nil {
		return nil, err
	}
	plural, _, err := unstructured.NestedString(crd.Object, "spec", "names", "plural")
	if err != nil {
		return nil, err
	}
	versions, _, err := unstructured.NestedSlice(crd.Object, "spec", "versions")
	if err != nil {
		return nil, err
	}
	var resources []schema.GroupVersionResource
	for _, item := range versions {
		version, _ := item.(map[string]any)
		name, _ := version["name"].(string)
		if version["served"] == true {
			resources = append(resources, schema.GroupVersionResource{Group: group, Version: name, Resource: plural})
		}
	}
	if len(resources) == 0 {
		return nil, errors.New("it serves no version")
	}
	return resources, nil
}
