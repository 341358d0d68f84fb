package main

import (
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/drain"
	"github.com/machinist-dev/machinist/fake"
)

// picture is the state that the watches have reported. Only the story's goroutine uses it.
type picture struct {
	start    time.Time
	machines map[string]*life
	pods     map[string]*corev1.Pod
	budget   *policyv1.PodDisruptionBudget
	nodes    map[string]bool
	parts    map[string]bool // "Kind/name" of InfraMachines and BootstrapConfigs
	adapter  contract.Adapter[contract.MachineState, contract.MachineUpdate]
	fleets   contract.Adapter[contract.MachineDeploymentState, contract.MachineDeploymentUpdate]
	rolled   *deploymentRow
	promise  promise
	waits    waits
}

// life is a Machine and its times.
type life struct {
	row                             machineRow
	created, running, drained, gone time.Time
	deleting                        time.Time
}

func newPicture(start time.Time) *picture {
	return &picture{
		start: start, machines: map[string]*life{}, pods: map[string]*corev1.Pod{}, nodes: map[string]bool{},
		parts:   map[string]bool{},
		adapter: contract.Unstructured(fake.MachineGVK(), contract.MachineV1Beta2()).Adapter,
		fleets:  contract.Unstructured(capi("MachineDeployment"), contract.MachineDeploymentV1Beta2()).Adapter,
	}
}

// apply applies a change and returns the event to show, if there is one.
func (p *picture) apply(c change, now time.Time) (event, bool) {
	e := event{Seconds: seconds(now.Sub(p.start)), Name: c.object.GetName(), Namespace: c.object.GetNamespace()}
	worth := false
	switch obj := c.object.(type) {
	case *corev1.Pod:
		e.Kind = "Pod"
		worth = p.applyPod(&e, obj, c.gone)
	case *policyv1.PodDisruptionBudget:
		e.Kind = "PodDisruptionBudget"
		worth = p.applyBudget(&e, obj)
	case *corev1.Node:
		e.Kind = "Node"
		worth = presence(&e, p.nodes, obj.Name, c.gone)
	case *unstructured.Unstructured:
		switch e.Kind = obj.GetKind(); e.Kind {
		case fake.MachineGVK().Kind:
			worth = p.applyMachine(&e, obj, c.gone, now)
		case "MachineDeployment":
			worth = p.applyFleet(&e, obj)
		default:
			worth = presence(&e, p.parts, e.Kind+"/"+e.Name, c.gone)
			p.machineGoes(obj, c.gone, now)
		}
	}
	return e, worth
}

// presence returns an event for the creation and the deletion of an object.
func presence(e *event, known map[string]bool, key string, gone bool) bool {
	before := known[key]
	if gone {
		delete(known, key)
		e.Event = happenedGone
		return before
	}
	known[key] = true
	e.Event = happenedCreated
	return !before
}

func (p *picture) applyMachine(e *event, obj *unstructured.Unstructured, gone bool, now time.Time) bool {
	var state contract.MachineState
	if err := p.adapter.Read(obj, &state); err != nil {
		e.Message = err.Error()
		return true
	}
	e.Event = happenedChanged
	l := p.machines[e.Name]
	if l == nil {
		l = &life{created: now}
		p.machines[e.Name] = l
		e.Event = happenedCreated
	}
	row := rowOf(&state)
	if row.Phase == "" {
		return false // the disruption controller has not processed it yet
	}
	changed := row != l.row
	l.row = row
	l.note(&state, gone, now)
	if !l.deleting.IsZero() {
		p.waits.look(!gone && waitsFor(row.Message), now)
	}
	if gone {
		e.Event = happenedGone
	}
	e.Machine = &row
	return changed || gone
}

// note records the times for the summary.
func (l *life) note(state *contract.MachineState, gone bool, now time.Time) {
	first(&l.running, now, state.Phase == "Running" && l.row.Ready == "True")
	first(&l.deleting, now, !state.Deleting.IsZero())
	first(&l.drained, now, state.DrainedNode != "")
	first(&l.gone, now, gone)
}

// machineGoes notes that a drain is over: the machine behind it goes next, and says so sooner than its Machine, if that says so at all.
func (p *picture) machineGoes(part *unstructured.Unstructured, gone bool, now time.Time) {
	l := p.machines[part.GetName()]
	if l != nil && part.GetKind() == fake.InfraMachineGVK(contract.V1Beta2).Kind {
		first(&l.drained, now, gone || part.GetDeletionTimestamp() != nil)
	}
}

// first records the first time at which something happened.
func first(at *time.Time, now time.Time, happened bool) {
	if happened && at.IsZero() {
		*at = now
	}
}

func (p *picture) applyPod(e *event, pod *corev1.Pod, gone bool) bool {
	old := p.pods[pod.Name]
	if gone {
		delete(p.pods, pod.Name)
	} else {
		p.pods[pod.Name] = pod
	}
	ready := p.ready()
	p.promise.look(ready)
	e.Pod = &podRow{Node: pod.Spec.NodeName, Ready: serving(pod) && !gone, ReadyInAll: ready}
	switch {
	case gone:
		e.Event = happenedGone
	case old == nil:
		e.Event = happenedCreated
	case pod.DeletionTimestamp != nil && old.DeletionTimestamp == nil:
		e.Event = happenedLeaving
	case serving(pod) != serving(old):
		e.Event = map[bool]string{true: happenedReady, false: happenedUnready}[serving(pod)]
	case pod.Spec.NodeName != old.Spec.NodeName:
		e.Event = happenedBound
	}
	return e.Event != ""
}

func (p *picture) applyBudget(e *event, b *policyv1.PodDisruptionBudget) bool {
	row := budgetRowOf(b)
	changed := p.budget == nil || budgetRowOf(p.budget) != row
	p.budget = b
	e.Event, e.Budget = happenedChanged, &row
	return changed && b.Status.ObservedGeneration > 0
}

// ready counts the serving pods.
func (p *picture) ready() int {
	n := 0
	for _, pod := range p.pods {
		if serving(pod) {
			n++
		}
	}
	return n
}

// podsOn returns the pods of a Node, and how many of them serve.
func (p *picture) podsOn(node string) (pods []*corev1.Pod, ready int) {
	for _, pod := range p.pods {
		if pod.Spec.NodeName != node {
			continue
		}
		pods = append(pods, pod)
		if serving(pod) {
			ready++
		}
	}
	return pods, ready
}

// hopeless returns the budget that blocks the drain of a Node permanently, if there is one. The pure planner finds
// budgets that can never allow an eviction of the existing pods. That is final when all wanted pods exist and are
// ready: then no pending change can help.
func (p *picture) hopeless(node string, replicas int) (drain.Blocker, bool) {
	if p.budget == nil || p.ready() != replicas || len(p.pods) != replicas || int(p.budget.Status.CurrentHealthy) != replicas {
		return drain.Blocker{}, false
	}
	pods, _ := p.podsOn(node)
	plan := drain.Planner{}.Plan([]drain.NodePods{{Node: node, Pods: pods}},
		drain.Facts{Budgets: []*policyv1.PodDisruptionBudget{p.budget}})
	for _, b := range plan.Blockers(0) {
		if b.Reason == drain.ReasonBudgetNeverAllows {
			return b, true
		}
	}
	return drain.Blocker{}, false
}

// promise is the guarantee of a budget: from when it is given, at least demand pods are ready at any time.
type promise struct {
	demand int
	given  bool
	fewest int
	broken bool
	looks  int
}

func (p *promise) look(ready int) {
	if !p.given {
		return
	}
	p.looks++
	p.fewest = min(p.fewest, ready)
	p.broken = p.broken || ready < p.demand
}

// give starts a promise. It is not broken by what happened before.
func (p *promise) give(demand, ready int) {
	*p = promise{demand: demand, given: ready >= demand, fewest: ready}
}

// waits sums up the times in which a Machine reported that a budget blocks its drain.
type waits struct {
	times int
	total time.Duration
	since time.Time
}

func (w *waits) look(waiting bool, now time.Time) {
	switch {
	case waiting && w.since.IsZero():
		w.times++
		w.since = now
	case !waiting && !w.since.IsZero():
		w.total += now.Sub(w.since)
		w.since = time.Time{}
	}
}

// waitsFor reports whether a Machine's message names the budget.
func waitsFor(message string) bool {
	return strings.Contains(message, fmt.Sprintf("disruption budget %s ", workload))
}
