package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/machinist-dev/machinist/examples/manager/api"
	"github.com/machinist-dev/machinist/examples/manager/kwokdriver"
)

// Limits of --install-crds.
const (
	installPoll  = 100 * time.Millisecond
	installLimit = time.Minute
)

// documents returns the YAML documents of a text.
func documents(text string) []string {
	all := strings.Split("\n"+strings.TrimSpace(text), "\n---\n")
	return slices.DeleteFunc(all, func(document string) bool { return strings.TrimSpace(document) == "" })
}

// printedCRDs are the CustomResourceDefinitions of --print-crds.
func printedCRDs(o settings) string {
	all := documents(api.CRDs())
	if o.Driver.IsProvider() {
		all = append(all, documents(kwokdriver.CRDs())...)
	}
	return strings.Join(all, "\n---\n") + "\n"
}

// ownCRDs are the CustomResourceDefinitions that the flags need: those of machinist.dev, and those of the driver. Cluster API's
// are its own to install.
func ownCRDs(o settings) []*unstructured.Unstructured {
	var all []*unstructured.Unstructured
	for _, document := range documents(printedCRDs(o)) {
		crd := &unstructured.Unstructured{}
		_ = yaml.Unmarshal([]byte(document), &crd.Object) // a test reads all of them
		group, _, _ := unstructured.NestedString(crd.Object, "spec", "group")
		plural, _, _ := unstructured.NestedString(crd.Object, "spec", "names", "plural")
		needed := o.Kinds.Group == api.Machinist ||
			plural == poolResource && o.Kinds.MachinePools && o.Kinds.GroupOfPools() == api.Machinist ||
			plural == healthCheckResource && o.Kinds.MachineHealthChecks && o.Kinds.Group.IsForeign() ||
			plural == classResource && o.readsClasses() && o.classes().Group == string(api.Machinist)
		if group != string(api.Machinist) || needed {
			all = append(all, crd)
		}
	}
	return all
}

// crdResource returns the resource of CustomResourceDefinitions.
func crdResource() schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
}

// installRules are the rights of --install-crds.
func installRules(o settings) []rbacv1.PolicyRule {
	var names []string
	for _, crd := range ownCRDs(o) {
		names = append(names, crd.GetName())
	}
	return []rbacv1.PolicyRule{{
		APIGroups: []string{crdResource().Group}, Resources: []string{crdResource().Resource},
		Verbs: []string{"get", "create", "patch"}, ResourceNames: names,
	}}
}

// installCRDs applies CustomResourceDefinitions with server-side apply, and returns when the API server serves them. A field that another
// manager owns and that differs is a conflict, which is an error: the other one may be newer.
func installCRDs(ctx context.Context, cfg *rest.Config, crds []*unstructured.Unstructured) error {
	ctx, cancel := context.WithTimeout(ctx, installLimit)
	defer cancel()
	c, err := dynamic.NewForConfig(cfg)
	if err != nil {
		return fmt.Errorf("--install-crds: %w", err)
	}
	for _, crd := range crds {
		_, err := c.Resource(crdResource()).Apply(ctx, crd.GetName(), crd, metav1.ApplyOptions{FieldManager: userAgent})
		if err != nil {
			return fmt.Errorf("--install-crds: apply CustomResourceDefinition %s: %w", crd.GetName(), err)
		}
	}
	for _, crd := range crds {
		last := errors.New("there was no time")
		err := wait.PollUntilContextCancel(ctx, installPoll, true, func(ctx context.Context) (bool, error) {
			last = crdIsServed(ctx, c, cfg, crd.GetName())
			return last == nil, nil
		})
		if err != nil {
			return fmt.Errorf("--install-crds: wait for CustomResourceDefinition %s: %w: %w", crd.GetName(), err, last)
		}
	}
	return nil
}

// crdIsServed returns an error until a CustomResourceDefinition is Established and the API server lists it, which is a moment later.
func crdIsServed(ctx context.Context, c dynamic.Interface, cfg *rest.Config, name string) error {
	obj, err := c.Resource(crdResource()).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	var crd apiextensionsv1.CustomResourceDefinition
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(obj.Object, &crd); err != nil {
		return err
	}
	for _, c := range crd.Status.Conditions {
		if c.Type == apiextensionsv1.NamesAccepted && c.Status == apiextensionsv1.ConditionFalse {
			return fmt.Errorf("its names are not accepted: %s", c.Message)
		}
	}
	if !slices.ContainsFunc(crd.Status.Conditions, func(c apiextensionsv1.CustomResourceDefinitionCondition) bool {
		return c.Type == apiextensionsv1.Established && c.Status == apiextensionsv1.ConditionTrue
	}) {
		return errors.New("it is not Established")
	}
	for _, version := range crd.Spec.Versions {
		list, err := resourcesOf(cfg, schema.GroupVersion{Group: crd.Spec.Group, Version: version.Name})
		if err != nil {
			return err
		}
		if !lists(list, crd.Spec.Names.Plural) {
			return fmt.Errorf("%s does not list it", version.Name)
		}
	}
	return nil
}
