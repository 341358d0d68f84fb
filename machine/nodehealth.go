package machine

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/machinist-dev/machinist/noderef"
)

// nodeReady is the Ready condition of a Node in the words of its Machine.
func nodeReady(node *corev1.Node) metav1.Condition {
	for i := range node.Status.Conditions {
		c := &node.Status.Conditions[i]
		if c.Type != corev1.NodeReady {
			continue
		}
		ready := condition(ConditionNodeReady, metav1.ConditionStatus(c.Status), ReasonNodeReady, "")
		ready.LastTransitionTime = c.LastTransitionTime
		if c.Message != "" && c.Status != corev1.ConditionTrue {
			ready.Message = "* Node.Ready: " + c.Message
		}
		switch c.Status {
		case corev1.ConditionTrue:
			return ready
		case corev1.ConditionFalse:
			ready.Reason = ReasonNodeNotReady
			return ready
		case corev1.ConditionUnknown:
			ready.Reason = ReasonNodeReadyUnknown
			return ready
		}
	}
	return condition(ConditionNodeReady, metav1.ConditionUnknown, ReasonNodeReadyUnknown, "* Node.Ready: "+notReported)
}

// nodeHealthy summarizes the conditions of a Node that the rules name.
func nodeHealthy(node *corev1.Node, rules noderef.HealthRules) metav1.Condition {
	report := rules.Judge(node)
	bad := false
	lines := make([]string, 0, len(report.Findings))
	for _, f := range report.Findings {
		bad = bad || f.Health == noderef.Unhealthy
		lines = append(lines, fmt.Sprintf("* Node.%s: %s", f.Type, finding(f)))
	}
	if same, all := sameFinding(report.Findings); all {
		lines = []string{"* Node.AllConditions: " + same}
	}
	message := strings.Join(lines, "\n")
	switch {
	case bad:
		return condition(ConditionNodeHealthy, metav1.ConditionFalse, ReasonNodeNotHealthy, message)
	case len(lines) > 0:
		return condition(ConditionNodeHealthy, metav1.ConditionUnknown, ReasonNodeHealthUnknown, message)
	}
	return condition(ConditionNodeHealthy, metav1.ConditionTrue, ReasonNodeHealthy, "")
}

// finding is a condition of a Node that does not have its expected status.
func finding(f noderef.Finding) string {
	switch {
	case f.Status == "":
		return notReported
	case f.Message == "":
		return fmt.Sprintf("Condition is %s", f.Status)
	}
	return f.Message
}

// sameFinding returns the common status and message of several conditions of a Node, if all reported ones are equal: when a kubelet stops
// reporting, all of them become Unknown with one message.
func sameFinding(findings []noderef.Finding) (string, bool) {
	said, count := "", 0
	for _, f := range findings {
		if f.Status == "" {
			continue
		}
		if text := finding(f); count == 0 {
			said = text
		} else if text != said {
			return "", false
		}
		count++
	}
	return said, count > 1
}
