package simulation

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	cloud "github.com/machinist-dev/machinist/machine/provider"
)

// startupGrace is after which time the cluster reports of a Node without a report that it is unknown whether it is ready.
const startupGrace = time.Minute

// placed puts a new Node into the zone of its instance. It may have to report yet.
func (w *World) placed(node *corev1.Node, i cloud.Instance) {
	if w.health == nil {
		return
	}
	if i.FailureDomain != "" {
		node.Labels = map[string]string{corev1.LabelTopologyZone: i.FailureDomain}
	}
	if !w.calm && w.choices.pick(3) == 2 || w.health.lame[i.Name] {
		node.Status.Conditions = nil
	}
}

// reports are what kubelets report of their Nodes for the first time, and the cluster of those that do not.
func reports(ctx context.Context, w *World) (all []due) {
	for _, node := range w.Objects("Node") {
		if readinessOf(node) != "" {
			continue
		}
		at, status := time.Time{}, corev1.ConditionTrue
		if w.health.lame[node.GetName()] {
			at, status = node.GetCreationTimestamp().Add(startupGrace), corev1.ConditionUnknown
		}
		all = append(all, due{at: at, do: func() { w.setReady(ctx, node, status) }}) // refused if it has reported meanwhile
	}
	return all
}

// chosenZone returns the Nodes of a zone, or of all of them, that are in a state.
func (w *World) chosenZone(ready bool) []*unstructured.Unstructured {
	zone := ""
	if len(w.zones) > 0 && w.choices.pick(4) < 3 {
		zone = oneOf(w, w.zones...)
	}
	return slices.DeleteFunc(w.Objects("Node"), func(node *unstructured.Unstructured) bool {
		return zone != "" && node.GetLabels()[corev1.LabelTopologyZone] != zone || isReady(node) != ready
	})
}

func (w *World) zoneFails(ctx context.Context) {
	status := oneOf(w, corev1.ConditionUnknown, corev1.ConditionFalse)
	for _, node := range w.chosenZone(true) {
		w.setReady(ctx, node, status)
	}
}

// zoneReturns makes some Nodes of a zone ready again; the others may follow at another time, or never.
func (w *World) zoneReturns(ctx context.Context) {
	all := w.chosenZone(false)
	if some := w.choices.pick(len(all) + 1); some > 0 {
		all = all[:some]
	}
	for _, node := range all {
		w.setReady(ctx, node, corev1.ConditionTrue)
	}
}

// lasts is the duration of an outage or of its end, in which all who can act do: health checks wait for minutes, and a history is short.
// Now and then a Node that is not ready returns when its Machine is about to be marked, and no cache shows that.
func (w *World) lasts(ctx context.Context, f Fault) {
	long := []Fault{ZoneOutage, ZoneReturns, KubeletDies, KubeletFails, KubeletReturns, NodeNeverJoins, UserSkips, UserFreezes}
	if w.health == nil || w.nested > 0 || !slices.Contains(long, f) || w.choices.pick(3) == 0 {
		return
	}
	d := w.health.checks[0].timeout
	wait := func(d time.Duration) {
		w.note("world", fmt.Sprintf("%s pass", d), "")
		w.until(ctx, "", d, func() string { return "time" })
	}
	if (f == KubeletDies || f == KubeletFails) && w.has(WatchStalls) && w.has(KubeletReturns) && w.choices.pick(2) == 0 {
		wait(d - 10*time.Second)
		for _, p := range w.processes {
			w.stall(p, nodeKind(), time.Minute)
		}
		w.happens(ctx, KubeletReturns)
		wait(time.Minute)
		return
	}
	wait(d/time.Duration(1+w.choices.pick(2)) + 30*time.Second)
	if f == ZoneOutage && w.has(ZoneReturns) && w.choices.pick(2) == 1 {
		w.happens(ctx, ZoneReturns)
		w.lasts(ctx, ZoneReturns)
	}
}

// neverJoins chooses an instance without a Node, of those to come too: no kubelet starts on it, or it does not report.
func (w *World) neverJoins(context.Context) {
	for _, i := range w.instances() {
		if w.nodeOn(i) == nil && !w.health.lame[i.Token] && !isOfPool(i.Name) { // nobody replaces one of a pool
			silent := w.choices.pick(2) == 1
			w.health.lame[map[bool]string{true: i.Name, false: i.Token}[silent]] = true
			w.note("cloud", fmt.Sprintf("the kubelet on %s does not start, or is silent: %v", i.Name, silent), "")
			return
		}
	}
}

func (w *World) serverFails(context.Context) {
	d := oneOf(w, 20*time.Second, time.Minute, 3*time.Minute)
	w.health.awayTil = w.Now().Add(d)
	w.note("network", fmt.Sprintf("the API server does not answer the managers for %s", d), "")
}

// editsCheck is the person who changes a check.
func (w *World) editsCheck(ctx context.Context) {
	c := oneOf(w, w.health.checks...)
	obj := w.object(checkKind, c.namespace, CheckName)
	if obj == nil {
		w.note("user", "create "+checkKind, textOf(w.addCheck(ctx, c)))
		return
	}
	switch w.choices.pick(6) {
	case 0:
		w.patch(ctx, obj, stripped)
	case 1:
		w.deletes(obj, "")
	case 2:
		c.timeout = oneOf(w, timeouts()...)
		w.editCheck(ctx, c)
	default:
		c.limit = oneOf(w, limits()...)
		w.editCheck(ctx, c)
	}
}
