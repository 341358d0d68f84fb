package simulation

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/fake"
	cloud "github.com/machinist-dev/machinist/machine/provider"
)

// evictAfter is how long Pods tolerate a Node that is not ready before the cluster deletes them.
const evictAfter = 5 * time.Minute

// chooseNode returns one of the Nodes that match, every other time one that is being drained; nil without.
func (w *World) chooseNode(match func(*unstructured.Unstructured) bool) *unstructured.Unstructured {
	some := slices.DeleteFunc(w.Objects("Node"), func(node *unstructured.Unstructured) bool { return !match(node) })
	drained := func(node *unstructured.Unstructured) bool { return textAt(node, "spec", "unschedulable") == "true" }
	return oneOf(w, rather(w, some, drained)...)
}

// rather returns all of some things or, in half of the cases in which there are any, those that match: what goes wrong with them matters
// most.
func rather[T any](w *World, all []T, match func(T) bool) []T {
	some := slices.DeleteFunc(slices.Clone(all), func(one T) bool { return !match(one) })
	if len(some) > 0 && w.choices.pick(2) == 0 {
		return some
	}
	return all
}

// reports writes the report of a kubelet into a Node.
func (w *World) reports(node *corev1.Node, ready corev1.ConditionStatus) {
	fake.SetNodeCondition(node, corev1.NodeReady, ready, w.Now())
	for _, pressure := range []corev1.NodeConditionType{corev1.NodeMemoryPressure, corev1.NodeDiskPressure, corev1.NodePIDPressure} {
		fake.SetNodeCondition(node, pressure, corev1.ConditionFalse, w.Now())
	}
}

// setReady is what the cluster reports about a kubelet.
func (w *World) setReady(ctx context.Context, obj *unstructured.Unstructured, status corev1.ConditionStatus) {
	node := typed[corev1.Node](obj)
	w.reports(node, status)
	w.note("kubelet", fmt.Sprintf("Node %s is ready: %s", node.Name, status), textOf(w.clientOf(node).Status().Update(ctx, node)))
}

// turned gives one of the Nodes whose kubelets report one of some things another status.
func turned(to corev1.ConditionStatus, from ...string) func(*World, context.Context) {
	return func(w *World, ctx context.Context) {
		node := w.chooseNode(func(node *unstructured.Unstructured) bool { return slices.Contains(from, readinessOf(node)) })
		if node != nil {
			w.setReady(ctx, node, to)
		}
	}
}

func (w *World) kubeletReturns(ctx context.Context) {
	for _, m := range w.owned() { // one that is marked may be spared yet
		node, marked := w.nodeOf(m), statusOf(m, contract.ConditionOwnerRemediated) == "False" && m.GetDeletionTimestamp() == nil
		if marked && node != nil && w.choices.pick(2) == 1 {
			w.setReady(ctx, node, corev1.ConditionTrue)
			return
		}
	}
	turned(corev1.ConditionTrue, "False", "Unknown", "")(w, ctx)
}

// nodeIsDeleted: a person deletes a Node, and its kubelet registers again, with another UID, at once or later.
func (w *World) nodeIsDeleted(ctx context.Context) {
	node := w.chooseNode(func(*unstructured.Unstructured) bool { return true })
	if node == nil {
		return
	}
	if w.deletes(node, ""); w.choices.pick(2) == 0 {
		return
	}
	for _, i := range w.instances() {
		if sameID(i.ProviderID, providerIDIn(node)) && i.State == cloud.Running {
			w.joins(ctx, i)
		}
	}
}

// revive repairs the kubelets of Machines that stay, and those that answer and are not ready: nothing else ends that. Those of Machines
// that are being deleted stay dead.
func (w *World) revive(ctx context.Context) {
	for _, node := range w.Objects("Node") {
		m, status := w.withID("Machine", providerIDIn(node)), readinessOf(node)
		leaves := m != nil && m.GetDeletionTimestamp() != nil
		ended := isOfPool(node.GetName()) && w.hasEnded(node)
		switch {
		case ended, !leaves && w.isJudged(m): // a check acts, or its condition has what a person has to do
		case status == "False", status == "Unknown" && !leaves:
			w.setReady(ctx, node, corev1.ConditionTrue)
		}
	}
}

// evictions are what the cluster does about Nodes that are not ready: their Pods count as not ready, until the Node is back, and after some
// minutes they are deleted.
func evictions(ctx context.Context, w *World) (all []due) {
	for _, node := range w.Objects("Node") {
		well := isReady(node)
		for _, pod := range w.podsOn(node) {
			stays := pod.GetDeletionTimestamp() == nil
			if stays && textAt(pod, "status", "phase") == string(corev1.PodRunning) && isReady(pod) != well {
				all = append(all, due{do: func() { w.setPodReady(ctx, pod, well) }})
			}
			if stays && !well {
				all = append(all, due{at: since(node, contract.ConditionReady).Add(evictAfter), do: func() {
					w.note("cluster", "delete Pod "+pod.GetName(), textOf(w.store.Client().Delete(ctx, pod.DeepCopy())))
				}})
			}
		}
	}
	return all
}

// setPodReady is what the cluster reports of a Pod whose kubelet does not answer, and the kubelet once it is back.
func (w *World) setPodReady(ctx context.Context, pod *unstructured.Unstructured, ready bool) {
	pod = pod.DeepCopy()
	if c := conditionIn(pod, contract.ConditionReady); c != nil {
		c["status"], c["lastTransitionTime"] = isTrue(ready), w.Now().UTC().Format(time.RFC3339)
	}
	w.note("cluster", "Pod "+pod.GetName()+" is ready: "+isTrue(ready), textOf(w.store.Client().Status().Update(ctx, pod)))
}

// strikes reports whether a fault that the history has happens, once in n times, and counts it.
func (w *World) strikes(fault Fault, n int) bool {
	is := w.drawn([]Fault{fault}, n) != ""
	if is {
		w.counts(fault)
	}
	return is
}

// refusal is an answer of a webhook to an eviction, or of a proxy in front of the API server.
func (w *World) refusal() error {
	gr, text := schema.GroupResource{Resource: "pods"}, `admission webhook "guard.example.com" denied the request: not now`
	return []error{
		apierrors.NewTooManyRequests(text, 0), apierrors.NewForbidden(gr, "", errors.New(text)),
		apierrors.NewGenericServerResponse(429, "POST", gr, "", "slow down", 0, true),
	}[w.choices.pick(3)]
}

// nodeComesBack: the instance of a Machine that was drained restarts before it is deleted: its Node registers again, with another UID and
// schedulable, a Pod is scheduled to it, and the cloud does not delete the instance for a while.
func (w *World) nodeComesBack(ctx context.Context) {
	drained := slices.DeleteFunc(w.owned(), func(m *unstructured.Unstructured) bool {
		return w.apps == nil || m.GetDeletionTimestamp() == nil || m.GetAnnotations()[contract.DrainedAnnotation] == ""
	})
	m := oneOf(w, drained...)
	for _, i := range w.instances() {
		if m == nil || i.State != cloud.Running || !w.isOwn(m, i) {
			continue
		}
		if node := w.nodeOn(i); node != nil {
			w.note("cluster", "delete Node "+i.Name, textOf(w.clientOf(node).Delete(ctx, node.DeepCopy())))
		}
		w.joins(ctx, i)
		node := w.nodeOn(i) // another program may still hold the one before, which is cordoned
		if w.homes[i.Token] == w.clusters[0] && node != nil && node.GetDeletionTimestamp() == nil {
			w.moves(ctx, i.Name)
		}
		if w.habits != nil {
			w.habits.of(i.Token).until[CloudKeeps] = w.Now().Add(3 * time.Minute)
		}
	}
}

// moves is a Pod that restarts, and that the scheduler puts on a Node.
func (w *World) moves(ctx context.Context, node string) {
	for _, pod := range w.Objects("Pod") {
		if textAt(pod, "spec", "nodeName") == node || pod.GetDeletionTimestamp() != nil {
			continue
		}
		moved := typed[corev1.Pod](pod)
		moved.Name, moved.UID, moved.ResourceVersion, moved.Spec.NodeName = pod.GetName()+"-"+string(pod.GetUID()[:4]), "", "", node
		w.note("cluster", "delete Pod "+pod.GetName(), textOf(w.store.Client().Delete(ctx, pod.DeepCopy(), client.GracePeriodSeconds(0))))
		w.note("scheduler", "Pod "+moved.Name+" is on Node "+node, textOf(w.store.Client().Create(ctx, moved)))
		return
	}
}
