package machine

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/internal/engine"
	"github.com/machinist-dev/machinist/internal/external"
	"github.com/machinist-dev/machinist/noderef"
)

// Reasons of the events about a Node that a deletion leaves as it is without an attempt. They are warnings unless the Machine asks for it
// or the Node is deleted with its Cluster.
const (
	// EventNodeNotDrained: the Node is not drained, or neither drained nor deleted. The note says why.
	EventNodeNotDrained = "NodeNotDrained"
	// EventNodeNotDeleted: the Node stays when the Machine is removed.
	EventNodeNotDeleted = "NodeNotDeleted"
)

// Lines of the condition Deleting about a Node that is left as it is, behind the message of the stage.
const (
	isNotDrained = "is not drained"
	isNeither    = "is neither drained nor deleted"
	isNotDeleted = "is not deleted"
)

// leftNode is what a pass has decided about a Node and one of its stages. While that is not decided, because the stage has not run or does
// not change what an earlier pass decided, the line of the stored condition stays.
type leftNode struct {
	decided bool
	line    string // empty: the stage handles the Node
}

// leftLines are the lines to say, given the message that is stored.
func leftLines(stored string, drained, deleted leftNode) []string {
	var lines []string
	for _, stage := range []struct {
		now   leftNode
		marks []string
	}{{drained, []string{isNotDrained, isNeither}}, {deleted, []string{isNotDeleted}}} {
		line := stage.now.line
		if !stage.now.decided {
			line = findLeft(stored, stage.marks)
		}
		if line != "" {
			lines = append(lines, line)
		}
	}
	return lines
}

// findLeft returns the line of a message that has one of these forms.
func findLeft(message string, marks []string) string {
	for line := range strings.SplitSeq(message, "\n") {
		rest, isNode := strings.CutPrefix(line, "* Node ")
		_, says, _ := strings.Cut(rest, " ")
		if isNode && slices.ContainsFunc(marks, func(mark string) bool { return strings.HasPrefix(says, mark+": ") }) {
			return line
		}
	}
	return ""
}

// withoutLeft returns a message without these lines.
func withoutLeft(message string) string {
	for _, mark := range []string{isNotDrained, isNeither, isNotDeleted} {
		if line := findLeft(message, []string{mark}); line != "" {
			message = strings.Replace(message, "\n"+line, "", 1)
		}
	}
	return message
}

// reportLeft records why a stage leaves a Node as it is. With tells, it adds an event too, once: afterwards the stored condition has the
// line.
func (s *Scope) reportLeft(stage *leftNode, what, why string, tells bool) {
	name := s.leftNode()
	if name == "" || why == "" {
		return
	}
	note := fmt.Sprintf("Node %s %s: %s", name, what, strings.ReplaceAll(why, "\n", "; "))
	*stage = leftNode{decided: true, line: "* " + note}
	stored, _ := engine.Find(s.Stored, contract.ConditionDeleting)
	if !tells || findLeft(stored.Message, []string{what}) == stage.line {
		return
	}
	kind, reason, action := corev1.EventTypeWarning, EventNodeNotDrained, actionDrainNode
	if what == isNotDeleted {
		reason, action = EventNodeNotDeleted, actionDeleteNode
	}
	if _, excluded := s.State.Annotations[contract.ExcludeDrain]; (excluded && what == isNotDrained) || s.clusterDeleting() {
		kind = corev1.EventTypeNormal
	}
	s.tell(kind, reason, action, note)
}

// clusterDeleting reports whether the Machine's Cluster is gone or being deleted.
func (s *Scope) clusterDeleting() bool {
	return s.Cluster.Presence == external.Absent || (s.Cluster.Presence == external.Present && !s.Cluster.State.Deleting.IsZero())
}

// leftNode is the name of the Node that a stage can leave as it is: the recorded or matched one, unless it is gone.
func (s *Scope) leftNode() string {
	switch {
	case !s.NodesSynced:
		return s.State.Node.Name
	case s.Node.Node != nil:
		return s.Node.Node.Name
	case s.Node.Outcome == noderef.NotFound, s.Node.Outcome == noderef.NoProviderID && !s.disowned():
		return ""
	}
	return s.State.Node.Name
}

// assertLeft appends the lines to the condition Deleting.
func (s *Scope) assertLeft() {
	stored, _ := engine.Find(s.Stored, contract.ConditionDeleting)
	lines := leftLines(stored.Message, s.notDrained, s.notDeleted)
	c, found := s.Condition(contract.ConditionDeleting)
	if !found {
		return
	}
	if message := strings.Join(append([]string{withoutLeft(c.Message)}, lines...), "\n"); message != c.Message {
		s.Assert(engine.Condition(c.Type, c.Status, c.Reason, message))
	}
}
