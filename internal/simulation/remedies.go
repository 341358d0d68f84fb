package simulation

import (
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/machine/healthcheck"
	"github.com/machinist-dev/machinist/machineset/safety"
)

const (
	remediate = healthcheck.RemediateAnnotation
	skip      = healthcheck.SkipAnnotation
	// helpAfter is how long a person waits before they do what a condition says.
	helpAfter = 20 * time.Minute
)

// nodeOf returns the Node of the instance of a Machine, as the API server has it; nil without.
func (w *World) nodeOf(m *unstructured.Unstructured) *corev1.Node {
	id, _, _ := unstructured.NestedString(m.Object, "spec", "providerID")
	for _, node := range w.typedNodes() {
		if sameID(node.Spec.ProviderID, id) {
			return node
		}
	}
	return nil
}

// isWell reports whether the Node of a Machine is there and ready.
func (w *World) isWell(m *unstructured.Unstructured) bool {
	node := w.nodeOf(m)
	return node != nil && readyOf(node).Status == corev1.ConditionTrue
}

// conditionOf returns a condition of an object.
func conditionOf(obj *unstructured.Unstructured, kind string) (status, reason, message string) {
	conditions, _, _ := unstructured.NestedFieldNoCopy(obj.Object, "status", "conditions")
	all, _ := conditions.([]any)
	for _, one := range all {
		if c, _ := one.(map[string]any); c["type"] == kind {
			status, _ = c["status"].(string)
			reason, _ = c["reason"].(string)
			message, _ = c["message"].(string)
		}
	}
	return status, reason, message
}

// isJudged reports whether the check judges a Machine.
func (w *World) isJudged(m *unstructured.Unstructured) bool {
	_, skipped := m.GetAnnotations()[skip]
	return w.health != nil && w.object(checkKind, namespace, CheckName) != nil && !skipped && ownedBySet(m) && isOfRoot(m)
}

// isChecked reports whether the check judges the Machine of a Node.
func (w *World) isChecked(node *corev1.Node) bool {
	for _, m := range w.Objects("Machine") {
		if id, _, _ := unstructured.NestedString(m.Object, "spec", "providerID"); sameID(id, node.Spec.ProviderID) {
			return w.isJudged(m)
		}
	}
	return false
}

// unwell says which Machine is not healthy.
func (w *World) unwell() string {
	if w.health == nil {
		return ""
	}
	for _, m := range w.owned() {
		switch succeeded, _, _ := conditionOf(m, contract.ConditionHealthCheckSucceeded); {
		case !w.isWell(m):
			return fmt.Sprintf("Machine %s has no Node that is ready: %s; %s", m.GetName(), messages(m), w.ownerOf(m).said())
		case w.isJudged(m) && succeeded != "True":
			return fmt.Sprintf("Machine %s is not healthy: %s", m.GetName(), messages(m))
		}
	}
	return ""
}

// helps is the person who repairs what no check judges, and otherwise does what the conditions say once the check has had its time.
func (w *World) helps(ctx context.Context) {
	if w.health == nil {
		return
	}
	for _, obj := range append(w.Objects("MachineDeployment"), w.Objects("MachineSet")...) {
		if isFrozen(obj) && obj.GetAnnotations()[safety.FrozenByAnnotation] == "" {
			w.patch(ctx, obj, `{"metadata":{"labels":{"`+safety.FreezeLabel+`":null}}}`)
		}
	}
	for _, m := range w.Objects("Machine") {
		switch {
		case m.GetName() == ForeignName:
		case m.GetDeletionTimestamp() != nil:
			w.revives(ctx, m)
		case !w.isJudged(m):
			w.repairs(ctx, m)
		default:
			w.obeys(ctx, m)
		}
	}
}

// repairs is the person who repairs the kubelet of a Machine, and makes a check again that was deleted after it had found the Machine
// unhealthy: its condition stays, as in Cluster API.
func (w *World) repairs(ctx context.Context, m *unstructured.Unstructured) {
	if status, _, _ := conditionOf(m, contract.ConditionHealthCheckSucceeded); status == "False" && w.lastsFor(m, helpAfter) &&
		w.object(checkKind, namespace, CheckName) == nil && ownedBySet(m) {
		w.health.setLimit(nil)
		w.note("user", "create "+checkKind, said(w.addCheck(ctx)))
	}
	delete(w.health.lame, string(m.GetUID()))
	if node := w.nodeOf(m); node != nil && readyOf(node).Status != corev1.ConditionTrue {
		delete(w.health.lame, node.Name)
		w.setReady(ctx, node, corev1.ConditionTrue)
	}
}

// isLimited reports whether a check has a limit, whatever a backup has brought back.
func isLimited(check *unstructured.Unstructured) bool {
	limit, _, _ := unstructured.NestedMap(check.Object, "spec", "remediation", "triggerIf")
	return len(limit) > 0
}

// obeys is the person who does what the condition of a Machine says, or that of the check to which it refers.
func (w *World) obeys(ctx context.Context, m *unstructured.Unstructured) {
	status, _, message := conditionOf(m, contract.ConditionHealthCheckSucceeded)
	if status != "False" {
		return
	}
	check := w.object(checkKind, namespace, CheckName)
	_, why, _ := conditionOf(check, contract.ConditionRemediationAllowed)
	_, asked := m.GetAnnotations()[remediate]
	_, reason, deferred := conditionOf(m, contract.ConditionOwnerRemediated)
	switch {
	case !w.lastsFor(m, helpAfter):
	case strings.Contains(message, "Not remediated: "+healthcheck.ReasonTooManyUnhealthy) && why == healthcheck.ReasonTooManyUnhealthy &&
		isLimited(check):
		w.health.setLimit(nil)
		w.limitCheck(ctx)
	case !asked && (strings.Contains(message, "Not remediated: "+healthcheck.ReasonOutage) ||
		strings.Contains(message, "Not remediated: "+healthcheck.ReasonTooManyFailures)):
		w.patch(ctx, m, jsonOf(map[string]any{"metadata": map[string]any{"annotations": map[string]any{remediate: ""}}}))
	case strings.Contains(message, "Not remediated: "+healthcheck.ReasonNoOwner),
		reason == contract.ReasonRemediationDeferred && strings.Contains(deferred, "(limit)"):
		w.note("user", "delete Machine "+m.GetName(), said(w.store.Client().Delete(ctx, m.DeepCopy())))
	}
}

// revives lets the kubelet of a Machine in deletion answer again that is not ready for long: its Pods would never stop.
func (w *World) revives(ctx context.Context, m *unstructured.Unstructured) {
	if node := w.nodeOf(m); node != nil && readyOf(node).Status == corev1.ConditionFalse &&
		m.GetDeletionTimestamp().Add(helpAfter).Before(w.Now()) {
		w.setReady(ctx, node, corev1.ConditionTrue)
	}
}

// lastsFor reports whether the health check of a Machine has failed for a time.
func (w *World) lastsFor(m *unstructured.Unstructured, d time.Duration) bool {
	conditions, _, _ := unstructured.NestedFieldNoCopy(m.Object, "status", "conditions")
	all, _ := conditions.([]any)
	for _, one := range all {
		if c, _ := one.(map[string]any); c["type"] == contract.ConditionHealthCheckSucceeded {
			since, _ := c["lastTransitionTime"].(string)
			at, err := time.Parse(time.RFC3339, since)
			return err == nil && (!w.Now().Before(at.Add(d)) || at.After(w.Now().Add(d))) // a clock was hours ahead
		}
	}
	return false
}
