package main

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/fake"
)

const (
	fleet    = "fleet" // the name of the MachineDeployment and of its templates
	machines = 3       // its replicas
	// The versions that its rollout starts from and goes to.
	oldVersion = "v1.36.2"
	newVersion = "v1.36.3"

	workload = "web"          // the name of the Deployment, of its budget, and of the label that selects its pods
	pods     = 3*machines - 1 // its replicas: two or three on each Node, so that a drain must wait
)

// kinds are the CustomResourceDefinitions; those of providers have the contract label.
func kinds() []client.Object {
	crds := []client.Object{fake.CRD(fake.MachineGVK()), fake.CRD(capi("MachineSet")), fake.CRD(capi("MachineDeployment"))}
	for _, gvk := range provided() {
		crds = append(crds, fake.CRD(gvk, contract.V1Beta2), fake.CRD(templateOf(gvk), contract.V1Beta2))
	}
	return crds
}

// fleetObjects are a MachineDeployment and its templates, as a user creates them.
func fleetObjects() []client.Object {
	var objects []client.Object
	var refs []map[string]any
	for _, gvk := range provided() {
		template := object(templateOf(gvk), fleet)
		template.Object["spec"] = map[string]any{"template": map[string]any{"spec": map[string]any{}}}
		objects = append(objects, template)
		refs = append(refs, map[string]any{"apiGroup": gvk.Group, "kind": template.GetKind(), "name": fleet})
	}
	labels := map[string]any{"fleet": fleet}
	d := object(capi("MachineDeployment"), fleet)
	d.Object["spec"] = map[string]any{
		"clusterName": "demo", "replicas": int64(machines), "selector": map[string]any{"matchLabels": labels},
		"template": map[string]any{"metadata": map[string]any{"labels": labels}, "spec": map[string]any{
			"clusterName": "demo", "version": oldVersion, "infrastructureRef": refs[0], "bootstrap": map[string]any{"configRef": refs[1]},
		}},
	}
	return append(objects, d)
}

// workloadObjects are a Deployment and its budget.
func workloadObjects(minAvailable int) []client.Object {
	labels := map[string]string{"app": workload}
	selector := &metav1.LabelSelector{MatchLabels: labels}
	meta := metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: workload}
	return []client.Object{
		&policyv1.PodDisruptionBudget{ObjectMeta: meta, Spec: policyv1.PodDisruptionBudgetSpec{
			Selector: selector, MinAvailable: new(intstr.FromInt(minAvailable)),
		}},
		&appsv1.Deployment{ObjectMeta: meta, Spec: appsv1.DeploymentSpec{
			Replicas: new(int32(pods)), Selector: selector,
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: workload, Image: "example.com/web:1"}}},
			},
		}},
	}
}

func object(gvk schema.GroupVersionKind, name string) *unstructured.Unstructured {
	obj := &unstructured.Unstructured{Object: map[string]any{}}
	obj.SetGroupVersionKind(gvk)
	obj.SetNamespace(metav1.NamespaceDefault)
	obj.SetName(name)
	return obj
}

func capi(kind string) schema.GroupVersionKind {
	return fake.MachineGVK().GroupVersion().WithKind(kind)
}

// provided are the kinds that the fake providers reconcile.
func provided() []schema.GroupVersionKind {
	return []schema.GroupVersionKind{fake.InfraMachineGVK(contract.V1Beta2), fake.BootstrapConfigGVK(contract.V1Beta2)}
}

// templateOf returns the kind of what a MachineSet makes objects of a kind from.
func templateOf(gvk schema.GroupVersionKind) schema.GroupVersionKind {
	return gvk.GroupVersion().WithKind(gvk.Kind + contract.TemplateSuffix)
}
