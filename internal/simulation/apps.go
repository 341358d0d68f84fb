package simulation

import (
	"context"
	"errors"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/drain/runner"
	"github.com/machinist-dev/machinist/fake"
)

// appName is the name of the ReplicaSet, of its budget and of their label.
const appName = "web"

// apps are the Pods of a cluster with their budget, and what runs them: the controllers, the scheduler and the kubelets. A history without
// Pods has none.
type apps struct {
	evictor runner.Evictor

	replicas int
	budget   budget
	// stops is how long a Pod takes to stop, within its grace period. limit is the one of the drains, 0 without.
	stops, limit time.Duration
	// deletedAt is when the deletion of each Pod was first requested.
	deletedAt map[types.UID]time.Time
	// excused are the Pods that a drain did not wait for, because they terminated on a Node that did not answer.
	excused map[types.UID]bool
	// before is the budget as it was when a request arrived, nil without, and current: its status counted all Pods as they were.
	before  *policyv1.PodDisruptionBudget
	current bool
}

// budget is what a budget has; nothing without.
type budget struct {
	most, least *intstr.IntOrString // Pods that may be unavailable, and that are available
	healthy     int                 // Pods that there must be
}

// drawApps decides which Pods there are; nil for none.
func (w *World) drawApps() *apps {
	if w.choices.pick(2) == 0 {
		return nil
	}
	n := 1 + w.choices.pick(4)
	none, one := intstr.FromInt32(0), intstr.FromInt32(1)
	return &apps{
		replicas: n, budget: oneOf(w,
			budget{}, budget{most: &one, healthy: n - 1}, budget{least: &one, healthy: 1}, budget{most: &none, healthy: n}),
		stops: oneOf(w, 5*time.Second, 40*time.Second, 10*time.Minute), limit: oneOf(w, 0, 10*time.Minute, time.Minute),
		deletedAt: map[types.UID]time.Time{}, excused: map[types.UID]bool{},
	}
}

// deploy creates the Pods' controller and their budget, and starts what runs them.
func (w *World) deploy(ctx context.Context) error {
	a := w.apps
	if a == nil {
		return nil
	}
	clients, err := kubernetes.NewForConfig(w.store.RESTConfig())
	if err != nil {
		return err
	}
	a.evictor = runner.NewRESTEvictor(clients)
	labels := map[string]string{"app": appName}
	template := corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: labels},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}, TerminationGracePeriodSeconds: new(int64(60))},
	}
	selector := &metav1.LabelSelector{MatchLabels: labels}
	meta := metav1.ObjectMeta{Namespace: namespace, Name: appName}
	errs := []error{w.store.Client().Create(ctx, &appsv1.ReplicaSet{
		ObjectMeta: meta, Spec: appsv1.ReplicaSetSpec{Replicas: new(int32(a.replicas)), Selector: selector, Template: template},
	})}
	if a.budget != (budget{}) {
		spec := policyv1.PodDisruptionBudgetSpec{MaxUnavailable: a.budget.most, MinAvailable: a.budget.least, Selector: selector}
		errs = append(errs, w.store.Client().Create(ctx, &policyv1.PodDisruptionBudget{ObjectMeta: meta, Spec: spec}))
	}
	return errors.Join(errs...)
}

// loops are what acts in the cluster; of an apps that is nil too.
func (a *apps) loops() fake.Loops {
	if a == nil {
		return fake.Loops{GarbageCollector: true}
	}
	return fake.Loops{
		Workloads: true, Budgets: true, Scheduler: true, Kubelet: true, GarbageCollector: true, PodGC: true,
		StartPod: 3 * time.Second, StopPodFunc: func(pod *corev1.Pod) time.Duration {
			return min(a.stops, time.Duration(ptr.Deref(pod.DeletionGracePeriodSeconds, 0))*time.Second)
		},
	}
}

// observe takes a write; of an apps that is nil too.
func (a *apps) observe(obj *unstructured.Unstructured) {
	if a == nil || obj.GetKind() != "Pod" {
		return
	}
	uid, at := obj.GetUID(), obj.GetDeletionTimestamp()
	if _, found := a.deletedAt[uid]; !found && at != nil { // a shorter period later moves the time on to that moment
		a.deletedAt[uid] = at.Add(-time.Duration(ptr.Deref(obj.GetDeletionGracePeriodSeconds(), 0)) * time.Second)
	}
}

// budget is the budget as the API server has it; nil without.
func (w *World) budget() *policyv1.PodDisruptionBudget {
	return typed[policyv1.PodDisruptionBudget](w.object(budgetGVK().Kind, namespace, appName))
}

func budgetGVK() schema.GroupVersionKind {
	return policyv1.SchemeGroupVersion.WithKind("PodDisruptionBudget")
}

// typed is an object in the form of Go; nil without.
func typed[T any](obj *unstructured.Unstructured) *T {
	if obj == nil {
		return nil
	}
	into := new(T)
	_ = runtime.DefaultUnstructuredConverter.FromUnstructured(obj.Object, into) // the store made it of such an object
	return into
}

// undeploy is the user who deletes the Pods and their budget with everything else.
func (w *World) undeploy(ctx context.Context) {
	if budget := w.budget(); budget != nil { // a person may have deleted it before
		_ = w.store.Client().Delete(ctx, budget)
	}
	for _, set := range w.Objects("ReplicaSet") {
		w.deletes(set, "", client.PropagationPolicy(metav1.DeletePropagationBackground))
	}
}

// relentAfter is how long a person waits for drains before they delete a budget that cannot be kept.
const relentAfter = 10 * time.Minute

// relent is the person who deletes a budget that allows no eviction, or whose Pods find no other Node, when a drain has waited for long.
func (w *World) relent(ctx context.Context) {
	a, budget := w.apps, w.budget()
	if a == nil || budget == nil || budget.Status.DisruptionsAllowed > 0 || !w.drainsSince(w.Now().Add(-relentAfter)) {
		return
	}
	pods := w.Objects("Pod")
	homeless := slices.ContainsFunc(pods, func(p *unstructured.Unstructured) bool {
		return textAt(p, "spec", "nodeName") == "" && p.GetDeletionTimestamp() == nil
	})
	if homeless || len(pods) == 0 || a.budget.healthy >= a.replicas {
		w.note("user", "delete PodDisruptionBudget "+appName, textOf(w.store.Client().Delete(ctx, budget)))
	}
}

// drainsSince reports whether a Machine or a pool has been deleted for so long, or a Node of a pool been drained.
func (w *World) drainsSince(t time.Time) bool {
	leaving := slices.Concat(w.Objects("Node"), w.Objects("Machine"), w.Objects(poolKind))
	return slices.ContainsFunc(leaving, func(obj *unstructured.Unstructured) bool {
		if obj.GetKind() == "Node" {
			at := nodeDrainStarted(obj)
			return !at.IsZero() && at.Before(t)
		}
		return obj.GetDeletionTimestamp() != nil && obj.GetDeletionTimestamp().Time.Before(t)
	})
}
