package simulation

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
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

// setReady is what the cluster says of a kubelet.
func (w *World) setReady(ctx context.Context, node *corev1.Node, status corev1.ConditionStatus) {
	node = node.DeepCopy()
	w.reports(node, status)
	w.note("kubelet", fmt.Sprintf("Node %s is ready: %s", node.Name, status), said(w.store.Client().Status().Update(ctx, node)))
}

// kubeletDies, fails, returns and vanishes are what happens to Nodes.
func (w *World) kubeletDies(ctx context.Context) {
	if node := w.chooseNode(func(n *corev1.Node) bool { return readyOf(n).Status != corev1.ConditionUnknown }); node != nil {
		w.setReady(ctx, node, corev1.ConditionUnknown)
	}
}

func (w *World) kubeletFails(ctx context.Context) {
	if node := w.chooseNode(func(n *corev1.Node) bool { return readyOf(n).Status == corev1.ConditionTrue }); node != nil {
		w.setReady(ctx, node, corev1.ConditionFalse)
	}
}

func (w *World) kubeletReturns(ctx context.Context) {
	for _, m := range w.owned() { // one that is marked may be spared yet
		status, _, _ := conditionOf(m, contract.ConditionOwnerRemediated)
		if node := w.nodeOf(m); status == "False" && m.GetDeletionTimestamp() == nil && node != nil && w.choices.pick(2) == 1 {
			w.setReady(ctx, node, corev1.ConditionTrue)
			return
		}
	}
	if node := w.chooseNode(func(n *corev1.Node) bool { return readyOf(n).Status != corev1.ConditionTrue }); node != nil {
		w.setReady(ctx, node, corev1.ConditionTrue)
	}
}

// nodeIsDeleted: a person deletes a Node, and its kubelet registers again, with another UID, at once or later.
func (w *World) nodeIsDeleted(ctx context.Context) {
	node := w.chooseNode(func(*corev1.Node) bool { return true })
	if node == nil {
		return
	}
	w.note("user", "delete Node "+node.Name, said(w.store.Client().Delete(ctx, node)))
	if w.choices.pick(2) == 0 {
		return
	}
	for _, i := range w.instances() {
		if i.Name == node.Name && i.State == cloud.Running {
			w.joins(ctx, i)
		}
	}
}

// revive repairs the kubelets of Machines that stay, and those that answer and are not ready: nothing else ends that. Those of Machines
// that are being deleted stay dead.
func (w *World) revive(ctx context.Context) {
	leaving := map[string]bool{}
	for _, m := range slices.DeleteFunc(w.Objects("Machine"), isMisplaced) {
		id, _ := m.Object["spec"].(map[string]any)["providerID"].(string)
		leaving[strings.ToLower(id)] = m.GetDeletionTimestamp() != nil
	}
	for _, node := range w.typedNodes() {
		if w.pool != nil && w.pool.ids[node.Spec.ProviderID] != nil && w.pool.ids[node.Spec.ProviderID].ended {
			continue
		}
		switch status := readyOf(node).Status; {
		case !leaving[strings.ToLower(node.Spec.ProviderID)] && w.isChecked(node): // a check acts, or says what a person has to do
		case status == corev1.ConditionFalse, status == corev1.ConditionUnknown && !leaving[strings.ToLower(node.Spec.ProviderID)]:
			w.setReady(ctx, node, corev1.ConditionTrue)
		}
	}
}

// lifecycle is what the cluster does about Nodes that are not ready: their Pods count as not ready, until the Node is back, and after some
// minutes they are deleted.
type lifecycle struct{}

func (lifecycle) can(ctx context.Context, w *World) []func() {
	var all []func()
	for _, node := range w.typedNodes() {
		well := readyOf(node).Status == corev1.ConditionTrue
		over := !well && !w.Now().Before(readyOf(node).LastTransitionTime.Add(evictAfter))
		for _, pod := range w.apps.on(node.Name) {
			switch {
			case pod.Status.Phase == corev1.PodRunning && pod.DeletionTimestamp == nil && isReady(pod) != well:
				all = append(all, func() { w.setPodReady(ctx, pod, well) })
			case over && pod.DeletionTimestamp == nil:
				all = append(all, func() { w.note("cluster", "delete Pod "+pod.Name, said(w.store.Client().Delete(ctx, pod.DeepCopy()))) })
			}
		}
	}
	return all
}

func (lifecycle) next(w *World) time.Time {
	var next time.Time
	for _, node := range w.typedNodes() {
		at := readyOf(node).LastTransitionTime.Add(evictAfter)
		if readyOf(node).Status != corev1.ConditionTrue && at.After(w.Now()) && (next.IsZero() || at.Before(next)) {
			next = at
		}
	}
	return next
}

// setPodReady is what the cluster says of a Pod whose kubelet does not answer, and the kubelet once it is back.
func (w *World) setPodReady(ctx context.Context, pod *corev1.Pod, ready bool) {
	pod = pod.DeepCopy()
	status := corev1.ConditionFalse
	if ready {
		status = corev1.ConditionTrue
	}
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
	gr := schema.GroupResource{Resource: "pods"}
	switch w.choices.pick(3) {
	case 0:
		return &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Code: 429,
			Reason: metav1.StatusReasonTooManyRequests, Message: `admission webhook "guard.example.com" denied the request: not now`}}
	case 1:
		return apierrors.NewForbidden(gr, "", errors.New(`admission webhook "guard.example.com" denied the request: not now`))
	}
	return apierrors.NewGenericServerResponse(429, "POST", gr, "", "slow down", 0, true)
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
		if node := w.object("Node", "", i.Name); node != nil {
			w.note("cluster", "delete Node "+i.Name, said(w.store.Client().Delete(ctx, node.DeepCopy())))
		}
		w.joins(ctx, i)
		w.moves(ctx, i.Name)
		if w.habits != nil {
			w.habits.kept[i.Token] = w.Now().Add(3 * time.Minute)
		}
	}
}

// moves is a Pod that restarts, and that the scheduler puts on a Node.
func (w *World) moves(ctx context.Context, node string) {
	for _, pod := range byName(slices.Collect(maps.Values(w.apps.pods))) {
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
