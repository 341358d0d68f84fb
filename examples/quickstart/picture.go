package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/drain"
	"github.com/machinist-dev/machinist/fake"
)

// blocked is shown in place of Deleting while the budget holds the drain.
const blocked = "Deleting, waits for a budget"

// picture is the state that the last look has found. Only the story's goroutine uses it.
type picture struct {
	now      time.Duration // since the start
	machines []*life       // in the order in which they came
	pods     []*corev1.Pod
	budget   policyv1.PodDisruptionBudget
	texts    map[string]string // of each object that exists, by kind and name
	acts     []span            // what the story has done
	waited   time.Duration     // how long drains waited for the budget
}

// life is a Machine, also when it is gone.
type life struct {
	name, phase, node, version string

	gone  bool
	spans []span // its phases
}

// span is what was true for a time.
type span struct {
	what     string
	from, to time.Duration
}

// look reads everything and returns a line for each object that has changed.
func (p *picture) look(ctx context.Context, c client.Client, now time.Duration) ([]string, error) {
	machineList, fleets := listOf(fake.MachineGVK().Kind), listOf("MachineDeployment")
	podList, budgets := &corev1.PodList{}, &policyv1.PodDisruptionBudgetList{}
	for _, list := range []client.ObjectList{machineList, fleets, podList, budgets} {
		if err := c.List(ctx, list); err != nil {
			return nil, fmt.Errorf("list %T: %w", list, err)
		}
	}
	before := p.texts
	p.now, p.pods, p.texts = now, nil, map[string]string{}
	for i := range budgets.Items {
		p.budget = budgets.Items[i]
		status := p.budget.Status
		p.texts["PodDisruptionBudget "+p.budget.Name] = fmt.Sprintf("wants %d ready, has %d, allows %d to leave",
			status.DesiredHealthy, status.CurrentHealthy, status.DisruptionsAllowed)
	}
	for i := range podList.Items {
		p.pods = append(p.pods, &podList.Items[i])
		p.texts["Pod "+podList.Items[i].Name] = podText(&podList.Items[i])
	}
	for i := range fleets.Items {
		var state contract.MachineDeploymentState
		layout := contract.LayoutsOf(contract.V1Beta2).MachineDeployment
		err := contract.Unstructured(capi("MachineDeployment"), layout).Adapter.Read(&fleets.Items[i], &state)
		if err != nil {
			return nil, fmt.Errorf("read MachineDeployment: %w", err)
		}
		p.texts["MachineDeployment "+fleet] = fmt.Sprintf("%d Machines, %d up to date, %d available",
			state.ObservedReplicas.Or(0), state.UpToDateReplicas.Or(0), state.AvailableReplicas.Or(0))
	}
	err := p.readMachines(machineList)
	return differences(before, p.texts), err
}

func (p *picture) readMachines(list *unstructured.UnstructuredList) error {
	adapter := contract.Unstructured(fake.MachineGVK(), contract.LayoutsOf(contract.V1Beta2).Machine).Adapter
	for i := range list.Items {
		var state contract.MachineState
		if err := adapter.Read(&list.Items[i], &state); err != nil {
			return fmt.Errorf("read Machine: %w", err)
		}
		name := list.Items[i].GetName()
		at := slices.IndexFunc(p.machines, func(l *life) bool { return l.name == name })
		if at < 0 {
			at = len(p.machines)
			p.machines = append(p.machines, &life{name: name})
		}
		p.texts["Machine "+name] = p.read(p.machines[at], &state)
	}
	for _, l := range p.machines {
		if _, exists := p.texts["Machine "+l.name]; !exists {
			l.gone = true
		}
	}
	return nil
}

// read takes what a person wants to know of a Machine, and returns it as text.
func (p *picture) read(l *life, state *contract.MachineState) string {
	l.phase, l.node, l.version = state.Phase, state.Node.Name, state.Version
	text := l.phase
	for _, c := range state.Conditions {
		if c.Message != "" && (c.Type == "Ready" || c.Type == "Deleting" && c.Status == metav1.ConditionTrue) {
			text = l.phase + ": " + oneLine(c.Message) // what a deletion waits for comes last
		}
	}
	if l.phase == "Deleting" && p.blocks(l.node) {
		l.phase = blocked
		p.waited += lookEvery
	}
	n := len(l.spans)
	if n > 0 {
		l.spans[n-1].to = p.now
	}
	if l.phase != "" && (n == 0 || l.spans[n-1].what != l.phase) {
		l.spans = append(l.spans, span{l.phase, p.now, p.now})
	}
	return text
}

// blocks reports whether the budget keeps pods on a Node. The planner is a pure function of pods and budgets: a view can call it too.
func (p *picture) blocks(node string) bool {
	pods := slices.DeleteFunc(slices.Clone(p.pods), func(pod *corev1.Pod) bool { return pod.Spec.NodeName != node })
	plan := drain.Planner{}.Plan([]drain.NodePods{{Node: node, Pods: pods}},
		drain.Facts{Budgets: []*policyv1.PodDisruptionBudget{&p.budget}})
	return slices.ContainsFunc(plan.Blockers(), func(b drain.Blocker) bool { return len(b.Budgets) > 0 })
}

// ready counts the pods that serve.
func (p *picture) ready() int {
	return len(slices.DeleteFunc(slices.Clone(p.pods), func(pod *corev1.Pod) bool { return !serving(pod) }))
}

// workloadReady reports whether every pod is ready and the budget's status counts them all.
func (p *picture) workloadReady() bool {
	return p.ready() == pods && len(p.pods) == pods && int(p.budget.Status.CurrentHealthy) == pods
}

// running counts the Machines of a version that run, or those of all versions that exist.
func (p *picture) running(version string) int {
	n := 0
	for _, l := range p.machines {
		if !l.gone && (version == "" || l.version == version && l.phase == "Running") {
			n++
		}
	}
	return n
}

// status is one line about everything.
func (p *picture) status() string {
	return fmt.Sprintf("%5.1fs %d Machines, Running: %d at %s, %d at %s; %d of %d pods ready", p.now.Seconds(), p.running(""),
		p.running(oldVersion), oldVersion, p.running(newVersion), newVersion, p.ready(), len(p.pods))
}

// differences returns a line for each object that is new, has changed or is gone.
func differences(before, after map[string]string) []string {
	all := maps.Clone(after)
	for key := range before {
		if _, exists := after[key]; !exists {
			all[key] = "gone"
		}
	}
	maps.DeleteFunc(all, func(key, text string) bool { return text == "" || text == before[key] })
	var lines []string
	for _, key := range slices.Sorted(maps.Keys(all)) {
		lines = append(lines, key+": "+all[key])
	}
	return lines
}

func podText(pod *corev1.Pod) string {
	switch {
	case pod.DeletionTimestamp != nil:
		return "evicted from " + pod.Spec.NodeName + ", shutting down"
	case serving(pod):
		return "ready on " + pod.Spec.NodeName
	}
	return ""
}

// serving reports whether a pod counts for a budget: it is ready and not being deleted.
func serving(pod *corev1.Pod) bool {
	return pod.DeletionTimestamp == nil && slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

func listOf(kind string) *unstructured.UnstructuredList {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(capi(kind + "List"))
	return list
}

// oneLine joins the lines of a condition's message. What every drain's message begins with is left out.
func oneLine(message string) string {
	if first, rest, found := strings.Cut(message, "\n"); found && strings.HasPrefix(first, "Drain not completed yet") {
		message = rest
	}
	return strings.ReplaceAll(strings.TrimPrefix(message, "* "), "\n* ", "; ")
}
