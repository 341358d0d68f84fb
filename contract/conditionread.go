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
	if c.ObservedGeneration, _, err = conditionGeneration.Get(e.values); err != nil {
		return c, e.locate(err)
	}
	at, _, err := conditionTime.Get(e.values) // the zero metav1.Time is written as null
	c.LastTransitionTime = metav1.NewTime(at)
	return c, e.locate(err)
}

// Members of a condition, which are made once because every read needs them.
//
//nolint:gochecknoglobals // constants: fields are values that nothing changes
var (
	conditionGeneration = At[int64]("observedGeneration")
	conditionTime       = At[time.Time]("lastTransitionTime")
)

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

// isText compares without turning the text into an interface value, which would allocate.
func isText(raw any, want string) bool {
	text, ok := raw.(string)
	return ok && text == want
}
