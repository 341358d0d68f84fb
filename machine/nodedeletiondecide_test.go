package machine

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/noderef"
)

func TestANodeIsNeverLeftUndrainedInSilence(t *testing.T) {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", UID: "n-uid"}}
	matched := noderef.Match{Outcome: noderef.Matched, Node: node}
	now := metav1.Unix(1, 0).Time
	for name, tc := range map[string]struct {
		facts  nodeStageFacts
		record contract.Deletion
		says   bool
	}{
		"care none":                         {facts: nodeStageFacts{Care: careNone, CareReason: "why", Match: matched}, says: true},
		"excluded":                          {facts: nodeStageFacts{Excluded: "why", Match: matched}, says: true},
		"the provider says that it is gone": {facts: nodeStageFacts{InstanceGone: true, Match: matched}, says: true},
		"its object is gone before":         {facts: nodeStageFacts{InfrastructureGone: true, Match: matched}, says: true},
		"its object goes before":            {facts: nodeStageFacts{Infrastructure: leaving(present("I")), Match: matched}, says: true},
		"its object goes after it began": {facts: nodeStageFacts{Infrastructure: leaving(present("I")), Match: matched},
			record: record(begun(StepDrain, now))},
		"hooks were waited for before": {facts: nodeStageFacts{Match: matched},
			record: record(begun(StepPreTerminateHooks, now)), says: true},
		"hooks were waited for after it": {facts: nodeStageFacts{Match: matched},
			record: record(begun(StepDrain, now), begun(StepPreTerminateHooks, now))},
		"it came anew behind them": {facts: nodeStageFacts{Match: matched},
			record: record(begun(StepDrain, now), begun(StepPreTerminateHooks, now), ended(StepDrain, "before")),
			says:   true},
		"another machine has it":    {facts: nodeStageFacts{Match: noderef.Match{Outcome: noderef.Stale}}, says: true},
		"it is gone":                {facts: nodeStageFacts{Match: noderef.Match{Outcome: noderef.NotFound}}},
		"it was drained":            {facts: nodeStageFacts{Match: matched}, record: record(ended(StepDrain, "n-uid"))},
		"the Machine never had one": {facts: nodeStageFacts{Match: noderef.Match{Outcome: noderef.NoProviderID}}},
	} {
		t.Run(name, func(t *testing.T) {
			tc.facts.NodesSynced = true
			action, why := tc.facts.decide(drainStage(), tc.record, "")
			if action != stageExcluded && action != stageDone || (why != "") != tc.says {
				t.Errorf("want a skip, and a reason: %v; got %d %q", tc.says, action, why)
			}
		})
	}
}
