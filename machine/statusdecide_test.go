package machine

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/internal/engine"
	"github.com/machinist-dev/machinist/internal/external"
)

func TestTheConditionOfAReferencedObjectStaysOnlyWhileAReadIsPending(t *testing.T) {
	t.Parallel()
	said := engine.Condition(contract.ConditionInfrastructureReady, metav1.ConditionTrue, contract.ReasonReady, "")
	for name, tc := range map[string]struct {
		object external.Object
		stored metav1.Condition
		want   bool
	}{
		"CRDs are not listed": {external.Object{Presence: external.Unread}, said, true},
		"its kind is not listed": {
			external.Object{Presence: external.Unread, Problem: external.Problem{Reason: external.ReasonCacheNotSynced}}, said, true},
		"it was not ready": {external.Object{Presence: external.Unread},
			engine.Condition(said.Type, metav1.ConditionFalse, contract.ReasonNotReady, ""), true},
		"it was unknown": {external.Object{Presence: external.Unread},
			engine.Condition(said.Type, metav1.ConditionUnknown, contract.ReasonInspectionFailed, ""), false},
		"nothing was said": {external.Object{Presence: external.Unread}, metav1.Condition{}, false},
		"a person has to mend it": {
			external.Object{Presence: external.Unread, Problem: external.Problem{Reason: external.ReasonVersionNotServed}}, said, false},
		"its kind is gone":       {external.Object{Presence: external.KindMissing}, said, false},
		"it is not there":        {external.Object{Presence: external.Absent}, said, false},
		"it is there":            {external.Object{Presence: external.Present}, said, false},
		"the Machine names none": {external.Object{}, said, false},
		"its version is not labeled": {
			external.Object{Presence: external.Unread, Problem: external.Problem{Reason: external.ReasonContractLabelMissing}}, said, false},
	} {
		now := engine.Condition(said.Type, metav1.ConditionUnknown, contract.ReasonInternalError, "")
		s := base{Stored: []metav1.Condition{tc.stored}, Asserted: []metav1.Condition{now}, Now: time.Unix(1, 0)}
		s.SpareUnread(func(metav1.Condition) bool { return isUnreadYet(tc.object) }, new(time.Time), time.Minute)
		if got := len(s.Asserted) == 0; got != tc.want {
			t.Errorf("%s: want %t, got %t", name, tc.want, got)
		}
	}
}
