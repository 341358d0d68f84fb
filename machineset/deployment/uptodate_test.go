package deployment

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/internal/engine"
)

func TestUpToDateDecision(t *testing.T) {
	not := func(reason, message string) metav1.Condition {
		return engine.Condition(contract.ConditionUpToDate, metav1.ConditionFalse, reason, message)
	}
	updating := func(message string) metav1.Condition { return engine.Condition("", metav1.ConditionTrue, "R", message) }
	for name, tc := range map[string]struct {
		diff     []string
		outdated bool
		updating metav1.Condition
		want     metav1.Condition
	}{
		"the same": {want: engine.Condition(contract.ConditionUpToDate, metav1.ConditionTrue, contract.ReasonUpToDate, "")},
		"places differ": {diff: []string{"spec.template.spec.version", "selector"}, outdated: true,
			want: not(contract.ReasonNotUpToDate, "* spec.template.spec.version\n* selector")},
		"a rollout without a change":  {outdated: true, want: not(contract.ReasonNotUpToDate, "* The rollout replaces the Machines of old")},
		"an update in place":          {updating: updating("half way"), want: not(contract.ReasonUpdating, "* half way")},
		"an update without a message": {updating: updating(""), want: not(contract.ReasonUpdating, "* In-place update in progress")},
	} {
		t.Run(name, func(t *testing.T) {
			one := &set{diff: tc.diff}
			one.Metadata = &contract.Metadata{}
			one.Key.Name = "old"
			if diff := cmp.Diff(tc.want, one.upToDate(tc.outdated, tc.updating)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}
