package machine

import (
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// summarise computes Ready from the other conditions: bad news first, then unknown, else true. Its message has a line for
// each condition that stands in the way.
func summarise(all []metav1.Condition) metav1.Condition {
	var bad, unknown []string
	for _, kind := range []string{ConditionDeleting, ConditionBootstrapConfigReady, ConditionInfrastructureReady, ConditionNodeHealthy} {
		c, found := findCondition(all, kind)
		switch {
		case kind == ConditionDeleting && found && c.Status == metav1.ConditionTrue:
			bad = append(bad, "* Deleting: Machine deletion in progress, stage: "+c.Reason)
		case kind == ConditionDeleting:
		case !found:
			unknown = append(unknown, "* "+kind+": Condition not yet reported")
		case c.Status == metav1.ConditionFalse:
			bad = append(bad, bullet(c))
		case c.Status != metav1.ConditionTrue:
			unknown = append(unknown, bullet(c))
		}
	}
	switch {
	case len(bad) > 0:
		return condition(ConditionReady, metav1.ConditionFalse, ReasonNotReady, strings.Join(append(bad, unknown...), "\n"))
	case len(unknown) > 0:
		return condition(ConditionReady, metav1.ConditionUnknown, ReasonReadyUnknown, strings.Join(unknown, "\n"))
	default:
		return condition(ConditionReady, metav1.ConditionTrue, ReasonReady, "")
	}
}

func bullet(c metav1.Condition) string {
	message := c.Message
	if message == "" {
		message = c.Reason
	}
	if strings.HasPrefix(message, "* ") || strings.Contains(message, "\n") {
		return "* " + c.Type + ":\n  " + strings.ReplaceAll(message, "\n", "\n  ")
	}
	return "* " + c.Type + ": " + message
}
