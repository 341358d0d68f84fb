package main

import (
	"context"
	"encoding/json"
	"io"
	"math"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/machinist-dev/machinist/drain"
)

// Times at which a pod goes, as a plan knows them.
const (
	whenNow   = "now"
	whenLater = "later" // when something has changed that will change by itself
	whenGoing = "going" // it is terminating already
	whenNever = "never" // a person has to change something before
	whenStays = "-"     // it does not go, and the drain does not wait for it
	pageNames = 3       // pods that a group names
	allNames  = math.MaxInt
)

// report is a plan as -o json prints it.
type report struct {
	Nodes []nodeReport `json:"nodes"`
	// Obstacles are not removed by waiting. While one exists, the drain does not end.
	Obstacles []obstacleReport `json:"obstacles"`
	// Held are the pods that cannot go at the moment.
	Held     []blockerReport `json:"held"`
	Warnings []warningReport `json:"warnings"`
	// Blocked says that an obstacle stands: the exit code is 3, and run refuses without --wait.
	Blocked bool `json:"blocked"`
}

type nodeReport struct {
	Name     string `json:"name"`
	Cordoned bool   `json:"cordoned"`
	// Silent is since when the Node does not answer.
	Silent *time.Time  `json:"silentSince,omitempty"`
	Counts whenReport  `json:"counts"`
	Pods   []podReport `json:"pods"`
}

// whenReport counts the pods of a Node. Pods is the sum of the others.
type whenReport struct {
	Pods  int `json:"pods"`
	Now   int `json:"now"`
	Later int `json:"later"`
	Going int `json:"going"`
	Never int `json:"never"`
	Stay  int `json:"stay"`
}

// leave is how many pods have to be gone at the end.
func (c whenReport) leave() int { return c.Pods - c.Stay }

type podReport struct {
	Namespace string    `json:"namespace"`
	Name      string    `json:"name"`
	UID       types.UID `json:"uid"`
	// Action is what is to happen to the pod in the end: Evict, Delete, Wait, Ignore or Deny.
	Action string `json:"action"`
	When   string `json:"when"`
	// Order: Pods of a higher order wait for those of a lower order.
	Order   int32        `json:"order"`
	Reason  drain.Reason `json:"reason"`
	Message string       `json:"message,omitempty"`
	Budgets []string     `json:"budgets,omitempty"`
	// Warnings are reasons out of the plan's warnings.
	Warnings           []drain.Reason `json:"warnings,omitempty"`
	GracePeriodSeconds int64          `json:"gracePeriodSeconds"`
	Owner              string         `json:"owner,omitempty"`
}

func (p *podReport) name() string { return p.Namespace + "/" + p.Name }

type blockerReport struct {
	Node    string       `json:"node"`
	Reason  drain.Reason `json:"reason"`
	Message string       `json:"message"`
	Budgets []string     `json:"budgets,omitempty"`
	Pods    []string     `json:"pods"` // the first ones
	Count   int          `json:"count"`
	Since   *time.Time   `json:"since,omitempty"`
}

type obstacleReport struct {
	blockerReport
	Remedy string `json:"remedy"`
	// Stands is false for what may go away by itself after all.
	Stands bool `json:"stands"`
}

type warningReport struct {
	Node    string       `json:"node"`
	Reason  drain.Reason `json:"reason"`
	Message string       `json:"message"`
	Pods    []string     `json:"pods"` // the first ones
	Count   int          `json:"count"`
}

// plan shows what a drain would do and changes nothing.
func (s *session) plan(ctx context.Context) int {
	snap, err := s.read(ctx)
	if err != nil {
		return s.fail(ctx, err)
	}
	r, err := s.judge(snap)
	if err != nil {
		return s.fail(ctx, err)
	}
	if s.output == outputJSON {
		err = printJSON(s.stdout, r)
	} else {
		_, err = io.WriteString(s.stdout, r.text(s.output == outputWide, s.again(commandRun)))
	}
	if err == nil && r.Blocked {
		return exitBlocked
	}
	return s.fail(ctx, err)
}

func printJSON(out io.Writer, value any) error {
	encoder := json.NewEncoder(out)
	encoder.SetIndent("", "  ")
	encoder.SetEscapeHTML(false)
	return encoder.Encode(value)
}

// judge plans a drain of all Nodes, with the flags' rules and policy at this moment.
func (s *session) judge(snap *snapshot) (*report, error) {
	rules, err := s.rulesOf(snap.orphans, s.now)
	if err != nil {
		return nil, err
	}
	now := s.now()
	nodes := make([]drain.NodePods, 0, len(snap.nodes))
	for _, node := range snap.nodes {
		last := s.policyOf().Rule(drain.Situation{Now: now, StartedAt: now, Node: node})
		nodes = append(nodes, drain.NodePods{
			Node: node.Name, Pods: snap.pods[node.Name], Rules: append(slices.Clip(rules), last),
		})
	}
	plan := drain.Planner{}.Plan(nodes, drain.Facts{Now: now, Budgets: snap.budgets})
	r := &report{
		Obstacles: []obstacleReport{}, Held: []blockerReport{}, Warnings: []warningReport{},
	}
	for _, ob := range plan.Permanent(pageNames) {
		stands := s.stands(ob.Reason)
		r.Blocked = r.Blocked || stands
		r.Obstacles = append(r.Obstacles, obstacleReport{blockerReport: blockerOf(&ob.Blocker), Remedy: remedyOf(&ob), Stands: stands})
	}
	for _, b := range plan.Blockers(pageNames) {
		if !slices.ContainsFunc(r.Obstacles, func(o obstacleReport) bool { return o.about(&b) }) {
			r.Held = append(r.Held, blockerOf(&b))
		}
	}
	for _, w := range plan.Warnings(pageNames) {
		r.Warnings = append(r.Warnings, warningReport{Node: w.Node, Reason: w.Reason, Message: w.Message, Pods: podNames(w.Pods), Count: w.Count})
	}
	r.addNodes(snap.nodes, s.marksOf(plan), plan.Decisions)
	return r, nil
}

func (o *obstacleReport) about(b *drain.Blocker) bool {
	return o.Node == b.Node && o.Reason == b.Reason && slices.Equal(o.Budgets, budgetNames(b.Budgets)) && o.Message == b.Message
}

// marks are what groups of the plan say about single pods.
type marks struct {
	never    map[drain.PodRef]drain.Reason
	warnings map[drain.PodRef][]drain.Reason
}

func (s *session) marksOf(plan drain.Plan) marks {
	m := marks{never: map[drain.PodRef]drain.Reason{}, warnings: map[drain.PodRef][]drain.Reason{}}
	for _, ob := range plan.Permanent(allNames) {
		for _, pod := range ob.Pods {
			if s.stands(ob.Reason) {
				m.never[pod] = ob.Reason
			} else {
				m.warnings[pod] = append(m.warnings[pod], ob.Reason)
			}
		}
	}
	for _, w := range plan.Warnings(allNames) {
		for _, pod := range w.Pods {
			m.warnings[pod] = append(m.warnings[pod], w.Reason)
		}
	}
	return m
}

func (r *report) addNodes(nodes []*corev1.Node, m marks, decisions []drain.Decision) {
	for _, node := range nodes {
		n := nodeReport{Name: node.Name, Cordoned: node.Spec.Unschedulable, Pods: []podReport{}}
		if since, silent := drain.UnreachableSince(node); silent {
			n.Silent = &since
		}
		for i := range decisions {
			if d := &decisions[i]; d.Node == node.Name {
				n.add(podOf(d, m))
			}
		}
		slices.SortStableFunc(n.Pods, func(a, b podReport) int { return stays(&a) - stays(&b) })
		r.Nodes = append(r.Nodes, n)
	}
}

// stays sorts Pods that are not waited for to the end.
func stays(p *podReport) int {
	if p.When == whenStays {
		return 1
	}
	return 0
}

func (n *nodeReport) add(p podReport) {
	n.Pods = append(n.Pods, p)
	n.Counts.Pods++
	switch p.When {
	case whenNow:
		n.Counts.Now++
	case whenGoing:
		n.Counts.Going++
	case whenNever:
		n.Counts.Never++
	case whenStays:
		n.Counts.Stay++
	default:
		n.Counts.Later++
	}
}

func podOf(d *drain.Decision, m marks) podReport {
	ref := drain.RefOf(d.Pod)
	p := podReport{
		Namespace: d.Pod.Namespace, Name: d.Pod.Name, UID: d.Pod.UID,
		Action: d.Intended.String(), When: whenOf(d), Order: d.Order, Reason: d.Reason, Message: d.Message,
		Budgets: budgetNames(d.Budgets), Warnings: m.warnings[ref], GracePeriodSeconds: graceOf(d),
	}
	switch why, never := m.never[ref]; {
	case never:
		p.When, p.Reason = whenNever, why
	case p.When == whenNever: // something in the flags gets it out of the way in time
		p.When = whenLater
	}
	if owner := metav1.GetControllerOfNoCopy(d.Pod); owner != nil {
		p.Owner = owner.Kind + "/" + owner.Name
	}
	return p
}

func whenOf(d *drain.Decision) string {
	switch {
	case d.Action == drain.Ignore:
		return whenStays
	case d.Action == drain.Evict || d.Action == drain.Delete:
		return whenNow
	case d.Action == drain.Deny || d.Action == drain.Undecided:
		return whenNever
	case d.Pod.DeletionTimestamp != nil:
		return whenGoing
	default:
		return whenLater
	}
}

func graceOf(d *drain.Decision) int64 {
	switch {
	case d.GracePeriodSeconds != nil:
		return *d.GracePeriodSeconds
	case d.Pod.Spec.TerminationGracePeriodSeconds != nil:
		return *d.Pod.Spec.TerminationGracePeriodSeconds
	default:
		return corev1.DefaultTerminationGracePeriodSeconds
	}
}

func blockerOf(b *drain.Blocker) blockerReport {
	r := blockerReport{
		Node: b.Node, Reason: b.Reason, Message: b.Message, Budgets: budgetNames(b.Budgets), Pods: podNames(b.Pods), Count: b.Count,
	}
	if !b.Since.IsZero() {
		r.Since = &b.Since
	}
	return r
}

func budgetNames(of []types.NamespacedName) []string {
	var names []string
	for _, name := range of {
		names = append(names, name.String())
	}
	return names
}

func podNames(of []drain.PodRef) []string {
	names := make([]string, 0, len(of))
	for _, ref := range of {
		names = append(names, ref.String())
	}
	return names
}
