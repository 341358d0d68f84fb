package describe

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/machinist-dev/machinist/contract"
)

// Tree is an object with what belongs to it: a MachineDeployment with its MachineSets, those with their Machines, and these
// with their Nodes.
type Tree struct {
	Kind string `json:"kind"`
	Name string `json:"name"`
	// Status is the state in a few words.
	Status  string     `json:"status"`
	Created *time.Time `json:"created,omitempty"`
	Waits   []Wait     `json:"waits,omitempty"`
	// Holds are the Pods and budgets that hold the drain of a Node.
	Holds    []Hold `json:"holds,omitempty"`
	Children []Tree `json:"children,omitempty"`
}

// Facts are what a tree is made from.
type Facts struct {
	Deployment contract.MachineDeploymentState
	// Sets and Machines may have others than those of the deployment: the tree has those whose controller reference names their owner.
	Sets     []contract.MachineSetState
	Machines []contract.MachineState
	// Nodes, by name, and Holds, by the name of a Node.
	Nodes map[string]*Node
	Holds map[string][]Hold
}

// TreeOf returns the tree of a deployment, sorted by names. It keeps and changes nothing of its input.
func TreeOf(f Facts) Tree {
	d := &f.Deployment
	tree := replicated("MachineDeployment", &d.Metadata, &d.ReplicatedState, contract.Some(d.UpToDateReplicas.Or(d.UpdatedReplicas.Or(0))))
	for i := range f.Sets {
		s := &f.Sets[i]
		if !owns(d.UID, s.OwnerReferences) {
			continue
		}
		set := replicated("MachineSet", &s.Metadata, &s.ReplicatedState, s.UpToDateReplicas)
		for j := range f.Machines {
			if m := &f.Machines[j]; owns(s.UID, m.OwnerReferences) {
				set.Children = append(set.Children, f.machine(m))
			}
		}
		set.sort()
		tree.Children = append(tree.Children, set)
	}
	tree.sort()
	return tree
}

func (t *Tree) sort() {
	slices.SortFunc(t.Children, func(a, b Tree) int { return cmp.Compare(a.Name, b.Name) })
}

func owns(uid types.UID, refs []metav1.OwnerReference) bool {
	return slices.ContainsFunc(refs, func(r metav1.OwnerReference) bool { return r.Controller != nil && *r.Controller && r.UID == uid })
}

func (f *Facts) machine(m *contract.MachineState) Tree {
	t := Tree{Kind: "Machine", Name: m.Key.Name, Status: cmp.Or(m.Phase, "new"), Created: timeOf(m.Created), Waits: Waits(m)}
	if m.Node.Name != "" {
		node := cmp.Or(f.Nodes[m.Node.Name], &Node{})
		t.Children = []Tree{{Kind: "Node", Name: m.Node.Name, Status: node.text(), Holds: f.Holds[m.Node.Name]}}
	}
	return t
}

// replicated is the row of a set or a deployment. Sets of other systems do not count what is up to date, so that number may be missing.
// What it waits for is in the conditions that say that it is at work.
func replicated(kind string, m *contract.Metadata, s *contract.ReplicatedState, upToDate contract.Opt[int32]) Tree {
	t := Tree{Kind: kind, Name: m.Key.Name, Created: timeOf(m.Created), Status: fmt.Sprintf("%d/%s, %d available", s.ObservedReplicas.Or(0),
		number(s.Replicas), s.AvailableReplicas.Or(s.NodeAvailableReplicas.Or(0)))}
	if count, counted := upToDate.Get(); counted {
		t.Status += fmt.Sprintf(", %d up to date", count)
	}
	for _, kind := range []string{contract.ConditionPaused, contract.ConditionDeleting, contract.ConditionRemediating,
		contract.ConditionScalingUp, contract.ConditionScalingDown} {
		if c := meta.FindStatusCondition(s.Conditions, kind); c != nil && c.Status == metav1.ConditionTrue {
			t.Waits = append(t.Waits, Wait{For: c.Type, Reason: c.Reason, Since: timeOf(c.LastTransitionTime.Time), Message: c.Message,
				Do: cmp.Or(map[string]string{contract.ConditionPaused: adviceOfPause}[kind], Advice()[c.Reason], "look at what its Machines wait for")})
		}
	}
	return t
}

const adviceOfPause = "remove the annotation cluster.x-k8s.io/paused, or spec.paused of the Cluster"

func number(n contract.Opt[int32]) string {
	if value, set := n.Get(); set {
		return fmt.Sprint(value)
	}
	return "?"
}

// Print writes the tree as a table for a screen. now is what ages count to.
func (t *Tree) Print(out io.Writer, now time.Time) error {
	w := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
	fmt.Fprintln(w, "NAME\tSTATUS\tAGE\tWAITS FOR")
	t.rows(w, "", "", now)
	return w.Flush()
}

// rows writes the rows of an object, of what holds it, and of its children. first begins the first row, and rest all others.
func (t *Tree) rows(w io.Writer, first, rest string, now time.Time) {
	age, waits := "", ""
	if t.Created != nil {
		age = duration.HumanDuration(now.Sub(*t.Created))
	}
	if len(t.Waits) > 0 {
		waits = t.Waits[0].title(now)
		if text, _, _ := strings.Cut(t.Waits[0].Message, "\n"); text != "" {
			waits += ": " + text
		}
	}
	fmt.Fprintf(w, "%s%s/%s\t%s\t%s\t%s\n", first, t.Kind, t.Name, t.Status, age, waits)
	for i := range t.Holds {
		fmt.Fprintf(w, "%s  held\t%d Pods\t\t%s\n", rest, t.Holds[i].Count, t.Holds[i].text())
	}
	for i := range t.Children {
		branch, stem := "├─ ", "│  "
		if i == len(t.Children)-1 {
			branch, stem = "└─ ", "   "
		}
		t.Children[i].rows(w, rest+branch, rest+stem, now)
	}
}
