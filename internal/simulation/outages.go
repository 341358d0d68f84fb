package simulation

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	cloud "github.com/machinist-dev/machinist/machine/provider"
	"github.com/machinist-dev/machinist/machineset/safety"
)

// Faults of histories with a health check.
const (
	// ZoneOutage: the Nodes of a zone, or of all zones, are not ready any more, at once. ZoneReturns: some or all of one are ready again.
	ZoneOutage  Fault = "zone outage"
	ZoneReturns Fault = "zone returns"
	// NodeNeverJoins: no kubelet starts on an instance, or it registers its Node and never reports.
	NodeNeverJoins Fault = "node never joins"
	// ServerAway: the API server does not answer the managers for some minutes.
	ServerAway Fault = "API server away"
	// UserEditsHealthCheck: a person changes the limits or the timeout of the check, removes its annotations, deletes it, or makes it again.
	UserEditsHealthCheck Fault = "user edits the health check"
	// UserMarksForRemediation: a person asks for the remediation of a Machine, or not any more. UserSkips: a person takes a Machine out of
	// health checks, or lets them judge it again.
	UserMarksForRemediation Fault = "user marks for remediation"
	UserSkips               Fault = "user skips"
	// UserFreezes: a person keeps a set or a deployment from creating, or asks for the end of that.
	UserFreezes Fault = "user freezes"
)

func healthFaults() []Fault {
	return []Fault{ZoneOutage, ZoneReturns, NodeNeverJoins, ServerAway, UserEditsHealthCheck, UserMarksForRemediation, UserSkips, UserFreezes}
}

func isOfHealth(f Fault) bool { return slices.Contains(healthFaults(), f) }

// startupGrace is after which time the cluster says of a Node that has not reported that it is unknown whether it is ready.
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
func reports(ctx context.Context, w *World) []due {
	var all []due
	for _, node := range w.typedNodes() {
		if readyOf(node).Status != "" {
			continue
		}
		d, status := due{}, corev1.ConditionTrue
		if w.health.lame[node.Name] {
			d.at, status = node.CreationTimestamp.Add(startupGrace), corev1.ConditionUnknown
		}
		d.do = func() { w.setReady(ctx, node, status) } // refused if it has reported meanwhile
		all = append(all, d)
	}
	return all
}

// chosenZone returns the Nodes of a zone, or of all of them, that are in a state.
func (w *World) chosenZone(ready bool) []*corev1.Node {
	zone := ""
	if n := len(w.health.domains); n > 0 && w.choices.pick(4) < 3 {
		zone = w.health.domains[w.choices.pick(n)]
	}
	var all []*corev1.Node
	for _, node := range w.typedNodes() {
		if (zone == "" || node.Labels[corev1.LabelTopologyZone] == zone) && (readyOf(node).Status == corev1.ConditionTrue) == ready {
			all = append(all, node)
		}
	}
	return all
}

func (w *World) zoneGoes(ctx context.Context) {
	status := []corev1.ConditionStatus{corev1.ConditionUnknown, corev1.ConditionFalse}[w.choices.pick(2)]
	for _, node := range w.chosenZone(true) {
		w.setReady(ctx, node, status)
	}
}

// zoneReturns lets some Nodes of a zone be ready again; the others may follow at another time, or never.
func (w *World) zoneReturns(ctx context.Context) {
	all := w.chosenZone(false)
	some := w.choices.pick(len(all) + 1)
	for i, node := range all {
		if some == 0 || i < some {
			w.setReady(ctx, node, corev1.ConditionTrue)
		}
	}
}

// lasts lets an outage or its end last, in which all who can act do: health checks wait for minutes, and a history is short. Now and then a
// Node that is not ready returns when its Machine is about to be marked, and no process sees that.
func (w *World) lasts(ctx context.Context, f Fault) {
	long := []Fault{ZoneOutage, ZoneReturns, KubeletDies, KubeletFails, KubeletReturns, NodeNeverJoins, UserSkips, UserFreezes}
	if w.health == nil || w.nested > 0 || !slices.Contains(long, f) || w.choices.pick(3) == 0 {
		return
	}
	d := w.health.checks[0].timeout
	goesOn := func(d time.Duration) {
		w.note("world", fmt.Sprintf("%s pass", d), "")
		w.until(ctx, "", d, func() string { return "time" })
	}
	if (f == KubeletDies || f == KubeletFails) && w.has(WatchStalls) && w.has(KubeletReturns) && w.choices.pick(2) == 0 {
		goesOn(d - 10*time.Second)
		for _, p := range w.processes {
			w.stall(p, nodeKind(), time.Minute)
		}
		w.also(ctx, KubeletReturns, (*World).kubeletReturns)
		goesOn(time.Minute)
		return
	}
	goesOn(d/time.Duration(1+w.choices.pick(2)) + 30*time.Second)
	if f == ZoneOutage && w.has(ZoneReturns) && w.choices.pick(2) == 1 {
		w.also(ctx, ZoneReturns, (*World).zoneReturns)
		w.lasts(ctx, ZoneReturns)
	}
}

// also lets a fault follow another one.
func (w *World) also(ctx context.Context, f Fault, do func(*World, context.Context)) {
	w.seen[faultPrefix+string(f)]++
	do(w, ctx)
}

// neverJoins chooses an instance without a Node, of those to come too: no kubelet starts on it, or it does not report.
func (w *World) neverJoins(context.Context) {
	for _, i := range w.instances() {
		if w.nodeOn(i) == nil && !w.health.lame[i.Token] {
			silent := w.choices.pick(2) == 1
			w.health.lame[map[bool]string{true: i.Name, false: i.Token}[silent]] = true
			w.note("cloud", fmt.Sprintf("the kubelet on %s does not start, or is silent: %v", i.Name, silent), "")
			return
		}
	}
}

func (w *World) serverGoes(context.Context) {
	d := []time.Duration{20 * time.Second, time.Minute, 3 * time.Minute}[w.choices.pick(3)]
	w.health.awayTil = w.Now().Add(d)
	w.note("network", fmt.Sprintf("the API server does not answer the managers for %s", d), "")
}

// editsCheck is the person who changes a check.
func (w *World) editsCheck(ctx context.Context) {
	c := w.health.checks[w.choices.pick(len(w.health.checks))]
	obj := w.object(checkKind, c.namespace, CheckName)
	if obj == nil {
		w.note("user", "create "+checkKind, said(w.addCheck(ctx, c)))
		return
	}
	switch w.choices.pick(6) {
	case 0:
		w.patch(ctx, obj, `{"metadata":{"annotations":null}}`)
	case 1:
		w.note("user", "delete "+checkKind, said(w.store.Client().Delete(ctx, obj.DeepCopy())))
	case 2:
		c.timeout = timeouts()[w.choices.pick(len(timeouts()))]
		w.editCheck(ctx, c)
	default:
		c.limit = limits()[w.choices.pick(len(limits()))]
		w.editCheck(ctx, c)
	}
}

// asks, skips and freezes are people who annotate.
func (w *World) asks(ctx context.Context)  { w.toggles(ctx, remediate) }
func (w *World) skips(ctx context.Context) { w.toggles(ctx, skip) }

func (w *World) toggles(ctx context.Context, annotation string) {
	if all := w.owned(); len(all) > 0 {
		m, value := all[w.choices.pick(len(all))], any("")
		if has(m, annotation) {
			value = nil
		}
		w.patch(ctx, m, annotate(annotation, value))
	}
}

// labelPatch gives an object a label; nil takes it away.
func labelPatch(name string, value any) string {
	return jsonOf(map[string]any{"metadata": map[string]any{"labels": map[string]any{name: value}}})
}

func (w *World) freezes(ctx context.Context) {
	all := append(w.Objects("MachineDeployment"), w.Objects("MachineSet")...)
	if len(all) == 0 {
		return
	}
	if obj := all[w.choices.pick(len(all))]; isFrozen(obj) {
		w.patch(ctx, obj, annotate(safety.UnfreezeAnnotation, ""))
	} else {
		w.patch(ctx, obj, labelPatch(safety.FreezeLabel, "True"))
	}
}

func isFrozen(obj *unstructured.Unstructured) bool {
	return obj.GetLabels()[safety.FreezeLabel] == "True"
}

func jsonOf(v any) string {
	text, _ := json.Marshal(v) // of texts and numbers
	return string(text)
}
