package simulation

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/machine/healthcheck"
)

const (
	remediate = contract.RemediateAnnotation
	skip      = healthcheck.SkipAnnotation
	// helpAfter is how long a person waits before they do what a condition requires.
	helpAfter = 20 * time.Minute
)

// nodeOf returns the Node of the instance of a Machine, as the API server has it; nil without.
func (w *World) nodeOf(m *unstructured.Unstructured) *unstructured.Unstructured {
	return w.withID("Node", providerIDIn(m))
}

// withID returns the Node or the Machine with a provider ID; nil without.
func (w *World) withID(kind, id string) *unstructured.Unstructured {
	return find(w.Objects(kind), func(obj *unstructured.Unstructured) bool {
		return sameID(providerIDIn(obj), id) && !isMisplaced(obj)
	})
}

// find returns the first of some things that matches; the zero value without.
func find[T any](all []T, match func(T) bool) (one T) {
	if i := slices.IndexFunc(all, match); i >= 0 {
		one = all[i]
	}
	return one
}

// recordedNode returns the Node that a Machine has recorded, among some; nil without.
func recordedNode(nodes byKey, m *unstructured.Unstructured) *unstructured.Unstructured {
	node := nodes[types.NamespacedName{Name: textAt(m, "status", "nodeRef", "name")}]
	if node == nil || !sameID(providerIDIn(node), providerIDIn(m)) {
		return nil
	}
	return node
}

// readinessOf is the status of the condition Ready of a Node or a Pod; empty without.
func readinessOf(obj *unstructured.Unstructured) string {
	return statusOf(obj, contract.ConditionReady)
}

func isReady(obj *unstructured.Unstructured) bool { return readinessOf(obj) == isTrue(true) }

// statusOf and reasonOf are those of a condition of an object; empty without.
func statusOf(obj *unstructured.Unstructured, kind string) string {
	return conditionText(obj, kind, "status")
}
func reasonOf(obj *unstructured.Unstructured, kind string) string {
	return conditionText(obj, kind, "reason")
}

func conditionText(obj *unstructured.Unstructured, kind, field string) string {
	text, _ := conditionIn(obj, kind)[field].(string)
	return text
}

// conditionOf returns a condition of an object.
func conditionOf(obj *unstructured.Unstructured, kind string) (status, reason, message string) {
	return statusOf(obj, kind), reasonOf(obj, kind), conditionText(obj, kind, "message")
}

// since is when a condition of an object has changed last; zero without.
func since(obj *unstructured.Unstructured, kind string) time.Time {
	at, _ := time.Parse(time.RFC3339, conditionText(obj, kind, "lastTransitionTime")) // zero for an empty text
	return at
}

func conditionIn(obj *unstructured.Unstructured, kind string) map[string]any {
	return find(storedConditions(obj), func(c map[string]any) bool { return c["type"] == kind })
}

// storedConditions are those of an object, as they are stored; none of no object.
func storedConditions(obj *unstructured.Unstructured) []map[string]any {
	if obj == nil {
		return nil
	}
	return mapsAt(obj, "status", "conditions")
}

// mapsAt is a list of an object, as it is stored; nothing without.
func mapsAt(obj *unstructured.Unstructured, path ...string) []map[string]any {
	list, _, _ := unstructured.NestedFieldNoCopy(obj.Object, path...)
	all, _ := list.([]any)
	some := make([]map[string]any, len(all))
	for i, one := range all {
		some[i], _ = one.(map[string]any)
	}
	return some
}

// isChecked reports whether a check selects a Machine that nobody has taken out of it.
func (w *World) isChecked(m *unstructured.Unstructured) bool {
	return !has(m, skip) && slices.ContainsFunc(w.Objects(checkKind), func(c *unstructured.Unstructured) bool { return selects(c, m) })
}

// isJudged reports whether a check judges a Machine.
func (w *World) isJudged(m *unstructured.Unstructured) bool {
	return m != nil && (ownedBySet(m) || w.isSingle(m)) && w.isChecked(m)
}

// isExcused reports whether a Machine does not count for an outage.
func isExcused(m *unstructured.Unstructured) bool {
	return has(m, skip) || has(m, remediate) || isPaused(m) || m.GetDeletionTimestamp() != nil
}

func isPaused(obj *unstructured.Unstructured) bool { return has(obj, contract.PausedAnnotation) }

// has reports whether an object has an annotation.
func has(obj *unstructured.Unstructured, annotation string) bool {
	_, has := obj.GetAnnotations()[annotation]
	return has
}

// unwell returns which Machine is not healthy.
func (w *World) unwell() string {
	if w.health == nil {
		return ""
	}
	for _, m := range w.owned() {
		switch {
		case !isReady(w.nodeOf(m)):
			return fmt.Sprintf("Machine %s has no Node that is ready: %s; %s", m.GetName(), messages(m), w.ownerOf(m).messages())
		case w.isJudged(m) && statusOf(m, contract.ConditionHealthCheckSucceeded) != "True":
			return fmt.Sprintf("Machine %s is not healthy: %s", m.GetName(), messages(m))
		}
	}
	return ""
}

// helps is the person who makes the checks again that were deleted, repairs what no check judges, and otherwise does what the conditions
// require once the check has had its time.
func (w *World) helps(ctx context.Context) {
	if w.health == nil {
		return
	}
	for _, c := range w.health.checks { // what a check that was deleted has written stays, as in Cluster API
		if w.object(checkKind, c.namespace, CheckName) == nil {
			c.limit = nil
			w.note("user", "create "+checkKind, textOf(w.addCheck(ctx, c)))
		}
	}
	for _, m := range w.Objects("Machine") {
		node, deleted := w.nodeOf(m), m.GetDeletionTimestamp()
		switch fails := node != nil && !isReady(node); {
		case m.GetName() == ForeignName, isMisplaced(m):
		case deleted != nil: // the Pods of a Node that is not ready for long would never stop
			if readinessOf(node) == "False" && deleted.Add(helpAfter).Before(w.Now()) {
				w.setReady(ctx, node, corev1.ConditionTrue)
			}
		case w.isJudged(m):
			w.obeys(ctx, m)
		default:
			if delete(w.health.lame, string(m.GetUID())); fails {
				delete(w.health.lame, node.GetName())
				w.setReady(ctx, node, corev1.ConditionTrue)
			}
		}
	}
}

// obeys is the person who does what the condition of a Machine requires, or that of the check to which it refers.
func (w *World) obeys(ctx context.Context, m *unstructured.Unstructured) {
	failing, now := contract.ConditionHealthCheckSucceeded, w.Now()
	at := since(m, failing) // it may be to come: a clock was hours ahead
	if statusOf(m, failing) != "False" || now.Before(at.Add(helpAfter)) && !at.After(now.Add(helpAfter)) {
		return
	}
	_, _, message := conditionOf(m, failing)
	_, reason, deferred := conditionOf(m, contract.ConditionOwnerRemediated)
	_, held, _ := strings.Cut(message, "Not remediated: ")
	switch {
	case strings.HasPrefix(held, healthcheck.ReasonTooManyUnhealthy):
		for _, c := range w.health.checks {
			check := w.object(checkKind, c.namespace, CheckName)
			why := reasonOf(check, contract.ConditionRemediationAllowed)
			if why == healthcheck.ReasonTooManyUnhealthy && selects(check, m) && mostIn(check, 100) < 100 {
				c.limit = nil
				w.editCheck(ctx, c)
			}
		}
	case !has(m, remediate) && strings.HasPrefix(held, healthcheck.ReasonOutage):
		w.patch(ctx, m, annotate(remediate, ""))
	case strings.HasPrefix(held, "No controller"), reason == contract.ReasonRemediationDeferred && strings.Contains(deferred, "(limit)"):
		w.deletes(m, "")
	}
}
