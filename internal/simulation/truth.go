package simulation

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/machinist-dev/machinist/contract"
)

// truth is a sentence about every object of a kind that holds at rest: what the object has is what follows from the World. The name of the
// invariant is the sentence after truthPrefix.
type truth struct {
	kind, name string
	// of returns what the object should have and what it has; two equal texts where the sentence is not about the object.
	of func(w *World, obj *unstructured.Unstructured) (want, got string)
}

const truthPrefix = "truth: "

// truths are the sentences that Run checks when a history is at rest.
func truths() []truth {
	return slices.Concat(machineTruths(), ownerTruths(), poolTruths(), nodeTruths(), sharedTruths(), checkTruths())
}

// fact is what follows from the World about an object, as text.
type fact func(w *World, obj *unstructured.Unstructured) string

// unasked is the value of a fact where everything is right.
const unasked = "anything"

// says is the truth that a condition has the status that follows from the World; an empty one is that of no condition.
func (f fact) says(kind, condition, name string) truth {
	return f.is(kind, name+": "+condition, func(_ *World, obj *unstructured.Unstructured) string {
		status, _, _ := conditionOf(obj, condition)
		return status
	})
}

// at is the truth that a field has the value that follows from the World.
func (f fact) at(kind, name string, path ...string) truth {
	return f.is(kind, name, func(_ *World, obj *unstructured.Unstructured) string { return textAt(obj, path...) })
}

func (f fact) is(kind, name string, got fact) truth {
	return truth{kind, name, func(w *World, obj *unstructured.Unstructured) (string, string) {
		want := f(w, obj)
		if want == unasked {
			return want, want
		}
		return want, got(w, obj)
	}}
}

// textAt is a field as text; empty without.
func textAt(obj *unstructured.Unstructured, path ...string) string {
	value, found, err := unstructured.NestedFieldNoCopy(obj.Object, path...)
	if !found || err != nil {
		return ""
	}
	return fmt.Sprint(value)
}

// constant is a fact that is the same for all objects.
func constant(text string) fact {
	return func(*World, *unstructured.Unstructured) string { return text }
}

// number is a fact that counts.
func number(of func(w *World, obj *unstructured.Unstructured) int) fact {
	return func(w *World, obj *unstructured.Unstructured) string { return fmt.Sprint(of(w, obj)) }
}

// isTrue is the status of a condition that is True or False.
func isTrue(is bool) string {
	if is {
		return string(metav1.ConditionTrue)
	}
	return string(metav1.ConditionFalse)
}

// worst sums statuses up: False before Unknown before True.
func worst(statuses ...string) string {
	for _, status := range []metav1.ConditionStatus{metav1.ConditionFalse, metav1.ConditionUnknown} {
		if slices.Contains(statuses, string(status)) {
			return string(status)
		}
	}
	return string(metav1.ConditionTrue)
}

// atRest checks all truths. Objects in deletion are not at rest.
func (w *World) atRest() {
	if w.broken != nil {
		return
	}
	w.gaugesCount()
	for _, t := range truths() {
		for _, obj := range w.Objects(t.kind) {
			if obj.GetDeletionTimestamp() != nil {
				continue
			}
			if want, got := t.of(w, obj); want != got {
				w.fail(truthPrefix+t.name, fmt.Errorf("%s %s/%s has %q and not %q: %s", t.kind, obj.GetNamespace(), obj.GetName(), got, want,
					messages(obj)))
			}
		}
	}
}

// reconciledKinds are the kinds whose status the library writes, with the types of the conditions that each may have.
func reconciledKinds() map[string][]string {
	owner := []string{contract.ConditionScalingUp, contract.ConditionScalingDown, contract.ConditionMachinesReady,
		contract.ConditionMachinesUpToDate, contract.ConditionRemediating, contract.ConditionPaused}
	return map[string][]string{
		"Machine": {contract.ConditionBootstrapConfigReady, contract.ConditionInfrastructureReady, contract.ConditionNodeReady, "NodeHealthy",
			"Updating", contract.ConditionDeleting, contract.ConditionPaused, contract.ConditionReady, contract.ConditionAvailable,
			contract.ConditionUpToDate, contract.ConditionHealthCheckSucceeded, contract.ConditionOwnerRemediated},
		"MachineSet":        append([]string{contract.ConditionDeleting}, owner...),
		"MachineDeployment": append([]string{contract.ConditionDeleting, contract.ConditionAvailable, "RollingOut"}, owner...),
		poolKind: append([]string{contract.ConditionDeleting, contract.ConditionAvailable, contract.ConditionBootstrapConfigReady,
			contract.ConditionInfrastructureReady}, owner...),
		checkKind: {contract.ConditionRemediationAllowed, contract.ConditionPaused},
	}
}

// sharedTruths are about each kind that the library reconciles.
func sharedTruths() []truth {
	var all []truth
	for kind, types := range reconciledKinds() {
		all = append(all,
			fact(func(_ *World, obj *unstructured.Unstructured) string { return fmt.Sprint(obj.GetGeneration()) }).
				at(kind, "the generation is observed", "status", "observedGeneration"),
			constant("False").says(kind, contract.ConditionPaused, "nothing is paused"),
			constant("").is(kind, "an object has conditions of its kind alone", func(_ *World, obj *unstructured.Unstructured) string {
				return strings.Join(slices.DeleteFunc(conditionTypes(obj), func(t string) bool { return slices.Contains(types, t) }), ", ")
			}),
			constant("").is(kind, "a condition that is as wanted has no message", messagesOfWanted),
			constant("").is(kind, "a condition that is not as wanted has a message", silentOfUnwanted),
		)
		if slices.Contains(types, contract.ConditionDeleting) {
			all = append(all, constant("False").says(kind, contract.ConditionDeleting, "what is not being deleted is not Deleting"))
		}
	}
	slices.SortFunc(all, func(a, b truth) int { return strings.Compare(a.kind+a.name, b.kind+b.name) })
	return all
}

// conditionsIn are the conditions of an object.
func conditionsIn(obj *unstructured.Unstructured) []metav1.Condition {
	var all []metav1.Condition
	conditions, _, _ := unstructured.NestedFieldNoCopy(obj.Object, "status", "conditions")
	list, _ := conditions.([]any)
	for _, one := range list {
		c, _ := one.(map[string]any)
		text := func(key string) string { s, _ := c[key].(string); return s }
		all = append(all, metav1.Condition{Type: text("type"), Status: metav1.ConditionStatus(text("status")), Reason: text("reason"),
			Message: text("message")})
	}
	return all
}

func conditionTypes(obj *unstructured.Unstructured) []string {
	var all []string
	for _, c := range conditionsIn(obj) {
		all = append(all, c.Type)
	}
	return all
}

// isWanted reports whether a condition has the status that it has when nothing is to be done.
func isWanted(c metav1.Condition) bool {
	negative := slices.Contains([]string{contract.ConditionDeleting, contract.ConditionPaused, contract.ConditionScalingUp,
		contract.ConditionScalingDown, contract.ConditionRemediating, "Updating", "RollingOut"}, c.Type)
	return string(c.Status) == isTrue(!negative)
}

// messagesOfWanted are the messages of conditions that are as wanted.
func messagesOfWanted(_ *World, obj *unstructured.Unstructured) string {
	var all []string
	for _, c := range conditionsIn(obj) {
		if isWanted(c) && c.Message != "" {
			all = append(all, c.Type+": "+c.Message)
		}
	}
	return strings.Join(all, "; ")
}

// silentOfUnwanted are the conditions that are not as wanted and do not say why. Available repeats Ready.
func silentOfUnwanted(_ *World, obj *unstructured.Unstructured) string {
	var all []string
	for _, c := range conditionsIn(obj) {
		if !isWanted(c) && c.Message == "" && c.Type != contract.ConditionAvailable {
			all = append(all, c.Type)
		}
	}
	return strings.Join(all, ", ")
}

// gaugesCount checks what the metrics of the leader count.
func (w *World) gaugesCount() {
	want := map[string]int{}
	for _, m := range w.Objects("Machine") {
		want["machinist_machines "+phaseOf(w, m)]++
	}
	states := map[string][]string{"desired": {"spec", "replicas"}, "actual": {"status", "replicas"}, "ready": {"status", "readyReplicas"},
		"available": {"status", "availableReplicas"}}
	for state, path := range states {
		for _, d := range w.Objects("MachineDeployment") {
			n, _, _ := unstructured.NestedInt64(d.Object, path...)
			want["machine_controller_machine_deployment_replicas "+state] += int(n)
		}
	}
	for i, p := range w.processes {
		if w.leads[i] {
			w.compareGauges(p, want)
		}
	}
}

func (w *World) compareGauges(p *process, want map[string]int) {
	got := map[string]int{}
	families, err := p.metrics.Gather()
	w.fail(truthPrefix+"the metrics can be gathered", err)
	for _, family := range families {
		if family.GetName() != "machinist_machines" && family.GetName() != "machine_controller_machine_deployment_replicas" {
			continue
		}
		for _, m := range family.GetMetric() {
			for _, l := range m.GetLabel() {
				if l.GetName() == "phase" || l.GetName() == "state" {
					got[family.GetName()+" "+l.GetValue()] = int(m.GetGauge().GetValue())
				}
			}
		}
	}
	maps.DeleteFunc(want, func(_ string, n int) bool { return n == 0 })
	maps.DeleteFunc(got, func(_ string, n int) bool { return n == 0 })
	if !maps.Equal(want, got) {
		w.fail(truthPrefix+"the metrics of a leader count the Machines", fmt.Errorf("%s has %v and not %v", p.name, got, want))
	}
}
