package simulation

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/machinist-dev/machinist/fake"
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

// reports are what kubelets say of their Nodes for the first time, and the cluster of those that do not.
type reports struct{}

func (reports) can(ctx context.Context, w *World) []func() {
	var all []func()
	for _, node := range w.silent() {
		switch name := node.GetName(); {
		case !w.health.lame[name]:
			all = append(all, func() { w.says(ctx, name, corev1.ConditionTrue) })
		case !w.Now().Before(node.GetCreationTimestamp().Add(startupGrace)):
			all = append(all, func() { w.says(ctx, name, corev1.ConditionUnknown) })
		}
	}
	return all
}

// says reports about a Node that has not reported meanwhile.
func (w *World) says(ctx context.Context, name string, status corev1.ConditionStatus) {
	for _, node := range w.typedNodes() {
		if node.Name == name && readyOf(node).Status == "" {
			w.setReady(ctx, node, status)
		}
	}
}

func (reports) next(w *World) time.Time {
	var next time.Time
	for _, node := range w.silent() {
		if at := node.GetCreationTimestamp().Add(startupGrace); at.After(w.Now()) && (next.IsZero() || at.Before(next)) {
			next = at
		}
	}
	return next
}

// silent are the Nodes that have not reported.
func (w *World) silent() []*unstructured.Unstructured {
	return slices.DeleteFunc(w.Objects("Node"), func(node *unstructured.Unstructured) bool { return readinessOf(node) != "" })
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
	if some := w.choices.pick(len(all) + 1); some > 0 {
		all = all[:some]
	}
	for _, node := range all {
		w.setReady(ctx, node, corev1.ConditionTrue)
	}
}

// lasts lets an outage or its end last, in which all who can act do: health checks wait for minutes, and a history is short.
func (w *World) lasts(ctx context.Context, f Fault) {
	long := []Fault{ZoneOutage, ZoneReturns, KubeletDies, KubeletFails, KubeletReturns, NodeNeverJoins, UserSkips, UserFreezes}
	if w.health == nil || w.nested > 0 || !slices.Contains(long, f) || w.choices.pick(3) == 0 {
		return
	}
	d := w.health.timeout / time.Duration(1+w.choices.pick(2))
	w.note("world", fmt.Sprintf("%s pass", d), "")
	w.until(ctx, "", d+30*time.Second, func() string { return "time" })
	if f == ZoneOutage && w.has(ZoneReturns) && w.choices.pick(2) == 1 {
		w.seen[faultPrefix+string(ZoneReturns)]++
		w.zoneReturns(ctx)
		w.lasts(ctx, ZoneReturns)
	}
}

// neverJoins chooses an instance without a Node, of those to come too.
func (w *World) neverJoins(context.Context) {
	for _, i := range w.instances() {
		if w.nodeOn(i) != nil || w.health.lame[i.Token] {
			continue
		}
		if w.choices.pick(2) == 0 {
			w.health.lame[i.Token] = true
			w.note("cloud", "no kubelet starts on "+i.Name, "")
		} else {
			w.health.lame[i.Name] = true
			w.note("cloud", "the kubelet on "+i.Name+" does not report", "")
		}
		return
	}
}

func (w *World) serverGoes(context.Context) {
	d := []time.Duration{20 * time.Second, time.Minute, 3 * time.Minute}[w.choices.pick(3)]
	w.health.awayTil = w.Now().Add(d)
	w.note("network", fmt.Sprintf("the API server does not answer the managers for %s", d), "")
}

// editsCheck is the person who changes the check.
func (w *World) editsCheck(ctx context.Context) {
	h, check := w.health, w.object(checkKind, namespace, CheckName)
	if check == nil {
		w.note("user", "create "+checkKind, said(w.addCheck(ctx)))
		return
	}
	switch w.choices.pick(6) {
	case 0, 1, 2:
		h.setLimit(limits()[w.choices.pick(len(limits()))])
		w.limitCheck(ctx)
	case 3:
		h.timeout = []time.Duration{5 * time.Minute, time.Minute, 8 * time.Minute}[w.choices.pick(3)]
		next := fake.MachineHealthCheck(CheckName, nil, h.timeout)
		rules := next.Object["spec"].(map[string]any)["checks"] //nolint:forcetypeassert // it was made above
		w.patch(ctx, check, jsonOf(map[string]any{"spec": map[string]any{"checks": rules}}))
	case 4:
		w.patch(ctx, check, `{"metadata":{"annotations":null}}`)
		h.watch.forget(w)
	case 5:
		w.note("user", "delete "+checkKind, said(w.store.Client().Delete(ctx, check.DeepCopy())))
		h.watch.forget(w)
	}
}

// limitCheck gives the check its limit.
func (w *World) limitCheck(ctx context.Context) {
	limit := map[string]any{"unhealthyLessThanOrEqualTo": w.health.most, "unhealthyInRange": nil}
	if w.health.in != "" {
		limit["unhealthyInRange"] = w.health.in
	}
	if check := w.object(checkKind, namespace, CheckName); check != nil {
		w.patch(ctx, check, jsonOf(map[string]any{"spec": map[string]any{"remediation": map[string]any{"triggerIf": limit}}}))
	}
}

// asks, skips and freezes are people who annotate.
func (w *World) asks(ctx context.Context) { w.toggles(ctx, remediate) }

func (w *World) skips(ctx context.Context) { w.toggles(ctx, skip) }

func (w *World) toggles(ctx context.Context, annotation string) {
	all := w.owned()
	if len(all) == 0 {
		return
	}
	m := all[w.choices.pick(len(all))]
	value := any("")
	if metav1.HasAnnotation(metav1.ObjectMeta{Annotations: m.GetAnnotations()}, annotation) {
		value = nil
	}
	w.patch(ctx, m, jsonOf(map[string]any{"metadata": map[string]any{"annotations": map[string]any{annotation: value}}}))
}

func (w *World) freezes(ctx context.Context) {
	all := append(w.Objects("MachineDeployment"), w.Objects("MachineSet")...)
	if len(all) == 0 {
		return
	}
	obj := all[w.choices.pick(len(all))]
	body := `{"metadata":{"labels":{"` + safety.FreezeLabel + `":"True"}}}`
	if isFrozen(obj) {
		body = `{"metadata":{"annotations":{"` + safety.UnfreezeAnnotation + `":""}}}`
	}
	w.patch(ctx, obj, body)
}

func isFrozen(obj *unstructured.Unstructured) bool {
	return obj.GetLabels()[safety.FreezeLabel] == "True"
}

func jsonOf(v any) string {
	text, _ := json.Marshal(v) // of texts and numbers
	return string(text)
}
