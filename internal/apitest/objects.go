package apitest

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

var (
	crdKind = schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"}
	// withStatus and withoutStatus are custom kinds that differ in the status subresource.
	withStatus    = schema.GroupVersionKind{Group: "conformance.machinist.dev", Version: "v1", Kind: "Gadget"}
	withoutStatus = schema.GroupVersionKind{Group: "conformance.machinist.dev", Version: "v1", Kind: "Gizmo"}
	// withSchema has a status and says which fields it has.
	withSchema = schema.GroupVersionKind{Group: "conformance.machinist.dev", Version: "v1", Kind: "Gauge"}
)

func (e Env) configMap(name string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: e.Namespace}, Data: map[string]string{"k": "v"}}
}

// madeConfigMap creates a ConfigMap.
func (e Env) madeConfigMap(ctx context.Context, name string) *corev1.ConfigMap {
	cm := e.configMap(name)
	e.must(e.Client.Create(ctx, cm))
	return cm
}

func definition(gvk schema.GroupVersionKind, plural string, status bool) *unstructured.Unstructured {
	root := map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true}
	if gvk == withSchema {
		root = gaugeSchema()
	}
	version := map[string]any{
		"name": gvk.Version, "served": true, "storage": true, "schema": map[string]any{"openAPIV3Schema": root},
	}
	if status {
		version["subresources"] = map[string]any{"status": map[string]any{}}
	}
	crd := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{
		"group": gvk.Group, "scope": "Namespaced", "versions": []any{version},
		"names": map[string]any{"kind": gvk.Kind, "plural": plural, "listKind": gvk.Kind + "List"},
	}}}
	crd.SetGroupVersionKind(crdKind)
	crd.SetName(plural + "." + gvk.Group)
	return crd
}

// gaugeSchema has a field of each type that matters for pruning and for server-side apply.
func gaugeSchema() map[string]any {
	text := map[string]any{"type": "string"}
	object := func(properties map[string]any) map[string]any {
		return map[string]any{"type": "object", "properties": properties}
	}
	part := object(map[string]any{"name": text, "unit": text})
	part["required"] = []any{"name"}
	return object(map[string]any{
		"spec": object(map[string]any{
			"size": map[string]any{"type": "integer"}, "unit": text,
			"free": map[string]any{
				"type": "object", "x-kubernetes-preserve-unknown-fields": true,
				"properties": map[string]any{"known": object(map[string]any{"a": text})},
			},
			"either": map[string]any{"x-kubernetes-int-or-string": true},
			"names":  map[string]any{"type": "object", "additionalProperties": object(map[string]any{"name": text})},
			"tags":   map[string]any{"type": "array", "items": text, "x-kubernetes-list-type": "set"},
			"words":  map[string]any{"type": "array", "items": text},
			"parts": map[string]any{
				"type": "array", "items": part, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": []any{"name"},
			},
		}),
		"status": object(map[string]any{"phase": text}),
	})
}

// serve installs a custom kind unless it is there, and waits until it is served.
func (e Env) serve(ctx context.Context, gvk schema.GroupVersionKind, plural string, status bool) error {
	if err := e.Client.Create(ctx, definition(gvk, plural, status)); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("creating the definition of %s: %w", gvk.Kind, err)
	}
	return eventually(ctx, gvk.Kind+" to be served", func(ctx context.Context) (bool, error) {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(gvk)
		err := e.Client.List(ctx, list, client.InNamespace(e.Namespace))
		return err == nil, err
	})
}

// custom creates an object of withStatus, withoutStatus or withSchema with spec.size 1.
func (e Env) custom(ctx context.Context, gvk schema.GroupVersionKind, name string,
	change ...func(*unstructured.Unstructured),
) *unstructured.Unstructured {
	e.must(e.served(ctx, gvk))
	obj := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"size": int64(1)}}}
	obj.SetGroupVersionKind(gvk)
	obj.SetName(name)
	obj.SetNamespace(e.Namespace)
	for _, c := range change {
		c(obj)
	}
	e.must(e.Client.Create(ctx, obj))
	return obj
}

// served is serve for the kinds of all cases.
func (e Env) served(ctx context.Context, gvk schema.GroupVersionKind) error {
	return e.serve(ctx, gvk, map[string]string{"Gadget": "gadgets", "Gizmo": "gizmos", "Gauge": "gauges"}[gvk.Kind], gvk != withoutStatus)
}

func setField(obj *unstructured.Unstructured, value any, fields ...string) {
	_ = unstructured.SetNestedField(obj.Object, value, fields...) // cannot fail for the cases' own objects
}

func (e Env) pod(name string, labels map[string]string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: e.Namespace, Labels: labels}, Spec: podSpec()}
}

func podSpec() corev1.PodSpec {
	return corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "example.com/image:1"}}}
}

// createPod retries while the namespace's service account is being made.
func (e Env) createPod(ctx context.Context, pod *corev1.Pod) error {
	return eventually(ctx, "pod "+pod.Name+" to be accepted", func(ctx context.Context) (bool, error) {
		err := e.Client.Create(ctx, pod)
		return err == nil, err
	})
}

// readyPod creates a pod on a node and waits until it is Ready.
func (e Env) readyPod(ctx context.Context, name, node string, labels map[string]string) *corev1.Pod {
	pod := e.pod(name, labels)
	pod.Spec.NodeName = node
	e.must(e.createPod(ctx, pod))
	e.must(eventually(ctx, "pod "+name+" to be ready", func(ctx context.Context) (bool, error) {
		err := e.read(ctx, pod)
		return podReady(pod), err
	}))
	return pod
}

func podReady(pod *corev1.Pod) bool {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

// node creates a Node that kwok manages, if it runs, and waits until it is Ready and untainted. Unless schedulable, the Node is
// cordoned, so that only pods that are bound to it by name run on it.
func (e Env) node(ctx context.Context, suffix string, schedulable bool) *corev1.Node {
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name: e.Namespace + "-" + suffix, Labels: map[string]string{"conformance": e.Namespace},
			Annotations: map[string]string{"kwok.x-k8s.io/node": "fake"},
		},
		Spec: corev1.NodeSpec{Unschedulable: !schedulable},
	}
	e.must(e.Client.Create(ctx, node))
	e.must(eventually(ctx, "node "+node.Name+" to be ready", func(ctx context.Context) (bool, error) {
		if err := e.read(ctx, node); err != nil {
			return false, err
		}
		for _, t := range node.Spec.Taints {
			if t.Key == corev1.TaintNodeNotReady {
				return false, nil
			}
		}
		for _, c := range node.Status.Conditions {
			if c.Type == corev1.NodeReady {
				return c.Status == corev1.ConditionTrue, nil
			}
		}
		return false, nil
	}))
	return node
}

func (e Env) budget(name string, labels map[string]string, minAvailable intstr.IntOrString) *policyv1.PodDisruptionBudget {
	return &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: e.Namespace},
		Spec:       policyv1.PodDisruptionBudgetSpec{MinAvailable: &minAvailable, Selector: &metav1.LabelSelector{MatchLabels: labels}},
	}
}

// observed waits until a budget's status has its generation and this number of healthy pods.
func (e Env) observed(ctx context.Context, budget *policyv1.PodDisruptionBudget, healthy int32) error {
	return eventually(ctx, fmt.Sprintf("budget %s to count %d healthy pods", budget.Name, healthy), func(ctx context.Context) (bool, error) {
		err := e.read(ctx, budget)
		return budget.Status.ObservedGeneration == budget.Generation && budget.Status.CurrentHealthy == healthy, err
	})
}

func (e Env) deployment(name string, replicas int32) *appsv1.Deployment {
	labels := map[string]string{"app": name}
	spec := podSpec()
	spec.NodeSelector = map[string]string{"conformance": e.Namespace}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: e.Namespace},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: spec},
		},
	}
}
