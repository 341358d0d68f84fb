package simulation

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/fake"
	cloud "github.com/machinist-dev/machinist/machine/provider"
)

// evictAfter is how long Pods tolerate a Node that is not ready before the cluster deletes them.
const evictAfter = 5 * time.Minute

// typedNodes are the Nodes as the API server has them.
func (w *World) typedNodes() []*corev1.Node {
	var all []*corev1.Node
	for _, obj := range w.Objects("Node") {
		all = append(all, w.typed.of(obj))
	}
	return all
}

func readyOf(node *corev1.Node) *corev1.NodeCondition {
	for i := range node.Status.Conditions {
		if c := &node.Status.Conditions[i]; c.Type == corev1.NodeReady {
			return c
		}
	}
	return &corev1.NodeCondition{}
}

// chooseNode returns one of the Nodes that match, every other time one that is being drained; nil without.
func (w *World) chooseNode(match func(*corev1.Node) bool) *corev1.Node {
	var some, drained []*corev1.Node
	for _, node := range w.typedNodes() {
		if !match(node) {
			continue
		}
		if some = append(some, node); node.Spec.Unschedulable {
			drained = append(drained, node)
		}
	}
	if len(drained) > 0 && w.choices.pick(2) == 0 {
		some = drained
	}
	if len(some) == 0 {
		return nil
	}
	return some[w.choices.pick(len(some))]
}

// reports writes what a kubelet says into a Node.
func (w *World) reports(node *corev1.Node, ready corev1.ConditionStatus) {
	fake.SetNodeCondition(node, corev1.NodeReady, ready, w.Now())
	for _, pressure := range []corev1.NodeConditionType{corev1.NodeMemoryPressure, corev1.NodeDiskPressure, corev1.NodePIDPressure} {
		fake.SetNodeCondition(node, pressure, corev1.ConditionFalse, w.Now())
	}
}

// setReady is what the cluster reports about a kubelet.
func (w *World) setReady(ctx context.Context, node *corev1.Node, status corev1.ConditionStatus) {
	node = node.DeepCopy()
	w.reports(node, status)
	w.note("kubelet", fmt.Sprintf("Node %s is ready: %s", node.Name, status), said(w.clientOf(node).Status().Update(ctx, node)))
}

// turnsOne gives one of the Nodes that have a status another one.
func (w *World) turnsOne(ctx context.Context, to corev1.ConditionStatus, from ...corev1.ConditionStatus) {
	if node := w.chooseNode(func(n *corev1.Node) bool { return slices.Contains(from, readyOf(n).Status) }); node != nil {
		w.setReady(ctx, node, to)
	}
}

func (w *World) kubeletDies(ctx context.Context) {
	w.turnsOne(ctx, corev1.ConditionUnknown, corev1.ConditionTrue, corev1.ConditionFalse, "")
}

func (w *World) kubeletFails(ctx context.Context) {
	w.turnsOne(ctx, corev1.ConditionFalse, corev1.ConditionTrue)
}

func (w *World) kubeletReturns(ctx context.Context) {
	for _, m := range w.owned() { // one that is marked may be spared yet
		if node := w.nodeOf(m); statusOf(m, contract.ConditionOwnerRemediated) == "False" && m.GetDeletionTimestamp() == nil && node != nil && w.choices.pick(2) == 1 {
			w.setReady(ctx, node, corev1.ConditionTrue)
			return
		}
	}
	w.turnsOne(ctx, corev1.ConditionTrue, corev1.ConditionFalse, corev1.ConditionUnknown, "")
}

// nodeIsDeleted: a person deletes a Node, and its kubelet registers again, with another UID, at once or later.
func (w *World) nodeIsDeleted(ctx context.Context) {
	node := w.chooseNode(func(*corev1.Node) bool { return true })
	if node == nil {
		return
	}
	w.note("user", "delete Node "+node.Name, said(w.clientOf(node).Delete(ctx, node)))
	if w.choices.pick(2) == 0 {
		return
	}
	for _, i := range w.instances() {
		if sameID(i.ProviderID, node.Spec.ProviderID) && i.State == cloud.Running {
			w.joins(ctx, i)
		}
	}
}

// machineWith returns the Machine with a provider ID; nil without.
func (w *World) machineWith(id string) *unstructured.Unstructured {
	for _, m := range w.Objects("Machine") {
		if sameID(providerIDIn(m), id) && !isMisplaced(m) {
			return m
		}
	}
	return nil
}

// revive repairs the kubelets of Machines that stay, and those that answer and are not ready: nothing else ends that. Those of Machines
// that are being deleted stay dead.
func (w *World) revive(ctx context.Context) {
	for _, obj := range w.Objects("Node") {
		node, m := w.typed.of(obj), w.machineWith(providerIDIn(obj))
		leaves := m != nil && m.GetDeletionTimestamp() != nil
		ended := isOfPool(node.Name) && w.hasEnded(obj)
		switch status := readyOf(node).Status; {
		case ended, !leaves && w.isJudged(m): // a check acts, or says what a person has to do
		case status == corev1.ConditionFalse, status == corev1.ConditionUnknown && !leaves:
			w.setReady(ctx, node, corev1.ConditionTrue)
		}
	}
}

// evictions are what the cluster does about Nodes that are not ready: their Pods count as not ready, until the Node is back, and after some
// minutes they are deleted.
func evictions(ctx context.Context, w *World) []due {
	var all []due
	for _, node := range w.typedNodes() {
		well := readyOf(node).Status == corev1.ConditionTrue
		for _, pod := range w.podsOn(node) {
			if pod.DeletionTimestamp != nil {
				continue
			}
			if pod.Status.Phase == corev1.PodRunning && isReady(pod) != well {
				all = append(all, due{do: func() { w.setPodReady(ctx, pod, well) }})
			}
			if !well {
				all = append(all, due{readyOf(node).LastTransitionTime.Add(evictAfter), func() {
					w.note("cluster", "delete Pod "+pod.Name, said(w.store.Client().Delete(ctx, pod.DeepCopy())))
				}})
			}
		}
	}
	return all
}

// setPodReady is what the cluster says of a Pod whose kubelet does not answer, and the kubelet once it is back.
func (w *World) setPodReady(ctx context.Context, pod *corev1.Pod, ready bool) {
	pod = pod.DeepCopy()
	status := map[bool]corev1.ConditionStatus{false: corev1.ConditionFalse, true: corev1.ConditionTrue}[ready]
	for i := range pod.Status.Conditions {
		if c := &pod.Status.Conditions[i]; c.Type == corev1.PodReady {
			c.Status, c.LastTransitionTime = status, metav1.NewTime(w.Now())
		}
	}
	w.note("cluster", "Pod "+pod.Name+" is ready: "+string(status), said(w.store.Client().Status().Update(ctx, pod)))
}

// refuses reports whether a webhook refuses an eviction.
func (w *World) refuses() bool { return w.drawn([]Fault{EvictionRefused}, 3) != "" }

// refusal is an answer of a webhook, or of a proxy in front of the API server.
func (w *World) refusal() error {
	w.seen[faultPrefix+string(EvictionRefused)]++
	gr, text := schema.GroupResource{Resource: "pods"}, `admission webhook "guard.example.com" denied the request: not now`
	return []error{
		apierrors.NewTooManyRequests(text, 0), apierrors.NewForbidden(gr, "", errors.New(text)),
		apierrors.NewGenericServerResponse(429, "POST", gr, "", "slow down", 0, true),
	}[w.choices.pick(3)]
}

// NodeComesBack means that the instance of a Machine that was drained restarts before it is deleted: its Node registers again, with
// another UID and schedulable, a Pod is scheduled to it, and the cloud does not delete the instance for a while.
const NodeComesBack Fault = "node comes back"

func (w *World) nodeComesBack(ctx context.Context) {
	drained := slices.DeleteFunc(w.owned(), func(m *unstructured.Unstructured) bool {
		return m.GetDeletionTimestamp() == nil || m.GetAnnotations()[contract.DrainedAnnotation] == ""
	})
	if len(drained) == 0 || w.apps == nil {
		return
	}
	m := drained[w.choices.pick(len(drained))]
	for _, i := range w.instances() {
		if i.State != cloud.Running || !isOwn(m, i) {
			continue
		}
		if node := w.nodeOn(i); node != nil {
			w.note("cluster", "delete Node "+i.Name, said(w.clientOf(node).Delete(ctx, node.DeepCopy())))
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
	for _, pod := range w.pods() {
		if pod.Spec.NodeName == node || pod.DeletionTimestamp != nil {
			continue
		}
		moved := pod.DeepCopy()
		moved.Name, moved.UID, moved.ResourceVersion = pod.Name+"-"+string(pod.UID[:4]), types.UID(""), ""
		moved.Spec.NodeName = node
		w.note("cluster", "delete Pod "+pod.Name, said(w.store.Client().Delete(ctx, pod.DeepCopy(), client.GracePeriodSeconds(0))))
		w.note("scheduler", "Pod "+moved.Name+" is on Node "+node, said(w.store.Client().Create(ctx, moved)))
		return
	}
}
