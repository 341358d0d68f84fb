package contract

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// readCondition reads one condition of any shape: a severity and a heartbeat are for people and are not read.
func readCondition(e entry) (c metav1.Condition, err error) {
	if c.Type, err = e.text("type"); err != nil {
		return c, err
	}
	if c.Type == "" {
		return c, &FieldError{Path: e.path("type"), Want: "type of a condition", Got: "nothing"}
	}
	if c.Status, err = conditionStatus(e); err != nil {
		return c, err
	}
	if c.Reason, err = e.text("reason"); err != nil {
		return c, err
	}
	if c.Reason == "" {
		c.Reason = ReasonNotReported
	}
	if c.Message, err = e.text("message"); err != nil {
		return c, err
	}
	if c.ObservedGeneration, err = observedGeneration(e); err != nil {
		return c, err
	}
	c.LastTransitionTime, err = transitionTime(e)
	return c, err
}

func conditionStatus(e entry) (metav1.ConditionStatus, error) {
	text, err := e.text("status")
	if err != nil {
		return "", err
	}
	switch status := metav1.ConditionStatus(text); status {
	case metav1.ConditionTrue, metav1.ConditionFalse, metav1.ConditionUnknown:
		return status, nil
	default:
		got := "another text"
		if text == "" {
			got = "nothing"
		}
		return "", &FieldError{Path: e.path("status"), Want: "True, False or Unknown", Got: got}
	}
}

func observedGeneration(e entry) (int64, error) {
	raw, found := e.values["observedGeneration"]
	if !found {
		return 0, nil
	}
	generation, ok := raw.(int64)
	if !ok {
		return 0, &FieldError{Path: e.path("observedGeneration"), Want: "integer", Got: typeName(raw)}
	}
	return generation, nil
}

// transitionTime reads a time that may be missing, empty, or null, as the zero metav1.Time is written.
func transitionTime(e entry) (metav1.Time, error) {
	raw := e.values["lastTransitionTime"]
	if raw == nil || raw == "" {
		return metav1.Time{}, nil
	}
	text, err := e.text("lastTransitionTime")
	if err != nil {
		return metav1.Time{}, err
	}
	parsed, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return metav1.Time{}, unreadableTime(e.path("lastTransitionTime"))
	}
	return metav1.NewTime(parsed.UTC()), nil
}

// isText compares without turning the text into an interface value, which would allocate.
func isText(raw any, want string) bool {
	text, ok := raw.(string)
	return ok && text == want
}
