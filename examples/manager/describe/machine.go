package describe

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/drain"
)

// eventsShown is how many events a description has, the newest ones.
const eventsShown = 8

// Machine describes one Machine.
type Machine struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Cluster   string `json:"cluster,omitempty"`
	// Owner is the kind and name of the controller of the Machine, empty for a Machine of its own.
	Owner      string     `json:"owner,omitempty"`
	Phase      string     `json:"phase,omitempty"`
	Version    string     `json:"version,omitempty"`
	ProviderID string     `json:"providerID,omitempty"`
	Created    time.Time  `json:"created"`
	Deleting   *time.Time `json:"deleting,omitempty"`
	Node       *Node      `json:"node,omitempty"`
	// Waits has the cause before its consequences. A Machine that is as it should be waits for nothing.
	Waits []Wait `json:"waits"`
	// Holds are the Pods that the drain of the Node waits for.
	Holds      []Hold             `json:"holds,omitempty"`
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	Events     []Event            `json:"events,omitempty"`
}

// Node is the Node of a Machine.
type Node struct {
	Name     string `json:"name"`
	Ready    string `json:"ready,omitempty"` // True, False or Unknown
	Cordoned bool   `json:"cordoned,omitempty"`
	// Problem is why the Node could not be read, or that it does not exist.
	Problem string `json:"problem,omitempty"`
}

// Hold is a group of Pods that cannot leave a Node for the same reason.
type Hold struct {
	Reason  drain.Reason `json:"reason"`
	Message string       `json:"message"`
	Budgets []string     `json:"budgets,omitempty"`
	Pods    []string     `json:"pods"` // the first three
	Count   int          `json:"count"`
	// Do is what a person can do where waiting does not help, and empty otherwise.
	Do string `json:"do,omitempty"`
}

// Event is an event about the Machine.
type Event struct {
	Time    time.Time `json:"time"`
	Type    string    `json:"type"`
	Reason  string    `json:"reason"`
	Message string    `json:"message"`
}

func machineOf(m *contract.MachineState, now time.Time) Machine {
	d := Machine{
		Namespace: m.Key.Namespace, Name: m.Key.Name, Cluster: m.ClusterName, Phase: m.Phase, Version: m.Version, ProviderID: m.ProviderID,
		Created: m.Created, Deleting: timeOf(m.Deleting), Waits: Waits(m, now), Conditions: m.Conditions,
	}
	for _, ref := range m.OwnerReferences {
		if ref.Controller != nil && *ref.Controller {
			d.Owner = ref.Kind + "/" + ref.Name
		}
	}
	if m.Node.Name != "" {
		d.Node = &Node{Name: m.Node.Name}
	}
	return d
}

// read takes the facts of a Node.
func (n *Node) read(node *corev1.Node) {
	n.Cordoned, n.Ready = node.Spec.Unschedulable, string(corev1.ConditionUnknown)
	for _, c := range node.Status.Conditions {
		if c.Type == corev1.NodeReady {
			n.Ready = string(c.Status)
		}
	}
}

// text is the state of a Node in a few words.
func (n *Node) text() string {
	words := map[string]string{"True": "Ready", "False": "not Ready", "Unknown": "does not answer"}
	text := cmp.Or(n.Problem, words[n.Ready], "not read")
	if n.Cordoned {
		text += ", cordoned"
	}
	return text
}

// holds are the groups of Pods that hold the drain of each Node, by its name.
func holds(plan drain.Plan) map[string][]Hold {
	remedies := map[string]string{}
	for _, o := range plan.Permanent() {
		remedies[o.Node+"/"+o.Key()] = o.Remedy
	}
	of := map[string][]Hold{}
	for _, b := range plan.Blockers() {
		h := Hold{Reason: b.Reason, Message: b.Message, Count: b.Count, Do: remedies[b.Node+"/"+b.Key()]}
		for _, budget := range b.Budgets {
			h.Budgets = append(h.Budgets, budget.String())
		}
		for _, pod := range b.Pods {
			h.Pods = append(h.Pods, pod.String())
		}
		of[b.Node] = append(of[b.Node], h)
	}
	return of
}

// text is a hold in one line.
func (h *Hold) text() string {
	pods := strings.Join(h.Pods, ", ")
	if h.Count > len(h.Pods) {
		pods += fmt.Sprintf(" and %d more", h.Count-len(h.Pods))
	}
	text := fmt.Sprintf("%s: %s", pods, cmp.Or(h.Message, string(h.Reason)))
	if len(h.Budgets) > 0 && !strings.Contains(text, h.Budgets[0]) {
		text += " (budget " + strings.Join(h.Budgets, ", ") + ")"
	}
	return text
}

// Print writes the description as text for a screen. now is what ages count to.
func (d *Machine) Print(out io.Writer, now time.Time) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	row := func(name, format string, args ...any) {
		if text := fmt.Sprintf(format, args...); text != "" {
			fmt.Fprintf(w, "%s:\t%s\n", name, text)
		}
	}
	row("Machine", "%s/%s", d.Namespace, d.Name)
	row("Owner", "%s", d.Owner)
	row("Cluster", "%s", d.Cluster)
	row("Phase", "%s", d.Phase)
	row("Age", "%s", duration.HumanDuration(now.Sub(d.Created)))
	if d.Deleting != nil {
		row("Deleting for", "%s", duration.HumanDuration(now.Sub(*d.Deleting)))
	}
	row("Version", "%s", d.Version)
	row("Provider ID", "%s", d.ProviderID)
	if d.Node != nil {
		row("Node", "%s (%s)", d.Node.Name, d.Node.text())
	}
	if err := w.Flush(); err != nil {
		return err
	}
	printWaits(out, d.Waits, now)
	for _, h := range d.Holds {
		fmt.Fprintf(out, "  Pods: %s\n", h.text())
		if !strings.Contains(h.Message, h.Do) {
			fmt.Fprintf(out, "    Do: %s\n", h.Do)
		}
	}
	return d.printTables(out, now)
}

func printWaits(out io.Writer, waits []Wait, now time.Time) {
	if len(waits) == 0 {
		fmt.Fprint(out, "\nIt waits for nothing.\n")
		return
	}
	fmt.Fprint(out, "\nWaits for:\n")
	for i := range waits {
		fmt.Fprintf(out, "  %s\n", waits[i].title(now))
		for line := range strings.Lines(waits[i].Message) {
			fmt.Fprintf(out, "    %s\n", strings.TrimSpace(line))
		}
		fmt.Fprintf(out, "    Do: %s\n", waits[i].Do)
	}
}

// title is a wait in a few words: what for, why, and for how long.
func (w *Wait) title(now time.Time) string {
	text := w.For
	if w.Reason != "" {
		text += " " + w.Reason
	}
	if w.Since != nil {
		text += " for " + duration.HumanDuration(now.Sub(*w.Since))
	}
	if w.Limit > 0 {
		text += ", at most " + duration.HumanDuration(w.Limit)
	}
	return text
}

func (d *Machine) printTables(out io.Writer, now time.Time) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	if len(d.Conditions) > 0 {
		fmt.Fprint(out, "\nConditions:\n")
		fmt.Fprintln(w, "  TYPE\tSTATUS\tREASON\tFOR")
		for _, c := range d.Conditions {
			fmt.Fprintf(w, "  %s\t%s\t%s\t%s\n", c.Type, c.Status, c.Reason, duration.HumanDuration(now.Sub(c.LastTransitionTime.Time)))
		}
		if err := w.Flush(); err != nil {
			return err
		}
	}
	if len(d.Events) == 0 {
		return nil
	}
	fmt.Fprint(out, "\nEvents:\n")
	fmt.Fprintln(w, "  AGE\tTYPE\tREASON\tMESSAGE")
	for _, e := range d.Events {
		fmt.Fprintf(w, "  %s\t%s\t%s\t%s\n", duration.HumanDuration(now.Sub(e.Time)), e.Type, e.Reason, e.Message)
	}
	return w.Flush()
}

// newest returns the newest events, the oldest of them first.
func newest(events []corev1.Event) []Event {
	all := make([]Event, 0, len(events))
	for i := range events {
		e := &events[i]
		times := []time.Time{e.LastTimestamp.Time, e.EventTime.Time, e.CreationTimestamp.Time}
		if e.Series != nil {
			times = append(times, e.Series.LastObservedTime.Time)
		}
		all = append(all, Event{Time: slices.MaxFunc(times, time.Time.Compare), Type: e.Type, Reason: e.Reason, Message: e.Message})
	}
	slices.SortFunc(all, func(a, b Event) int {
		return cmp.Or(a.Time.Compare(b.Time), cmp.Compare(a.Reason, b.Reason), cmp.Compare(a.Message, b.Message))
	})
	return all[max(0, len(all)-eventsShown):]
}
