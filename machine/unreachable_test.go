package machine

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/contract/external"
)

func TestAStageWhoseNodesCannotBeReadIsWaitedForUnlessItMakesNoSenseOrItsTimeIsUp(t *testing.T) {
	now := time.Unix(1000, 0)
	for name, tc := range map[string]struct {
		facts UnreachableFacts
		want  Unreachable
		says  string
	}{
		"nothing is known":           {UnreachableFacts{}, UnreachableWait, ""},
		"the Cluster is unread":      {UnreachableFacts{Cluster: external.ClusterView{Presence: external.Unread}}, UnreachableWait, ""},
		"the Cluster stays":          {UnreachableFacts{Cluster: external.ClusterView{Presence: external.Present}}, UnreachableWait, ""},
		"the Cluster is gone":        {UnreachableFacts{Cluster: external.ClusterView{Presence: external.Absent}}, UnreachableSkip, "the Cluster no longer exists"},
		"the Cluster goes":           {UnreachableFacts{Cluster: external.ClusterView{Presence: external.Present, State: contract.ClusterState{Metadata: contract.Metadata{Deleting: now}}}}, UnreachableSkip, "the Cluster is being deleted"},
		"the machine is gone":        {UnreachableFacts{Stage: StepDrain, InstanceGone: true}, UnreachableSkip, "the machine no longer exists"},
		"the machine is off":         {UnreachableFacts{Stage: StepVolumes, PoweredOff: true}, UnreachableSkip, "the machine is off"},
		"its Node is deleted anyway": {UnreachableFacts{Stage: StepDeleteNode, InstanceGone: true, PoweredOff: true}, UnreachableWait, ""},
		"no limit":                   {UnreachableFacts{Started: now.Add(-time.Hour)}, UnreachableWait, ""},
		"a limit, and no start":      {UnreachableFacts{Limit: time.Minute}, UnreachableWait, ""},
		"within the limit":           {UnreachableFacts{Started: now.Add(-59 * time.Second), Limit: time.Minute}, UnreachableWait, ""},
		"the limit is reached":       {UnreachableFacts{Started: now.Add(-time.Minute), Limit: time.Minute}, UnreachableSkip, "not completed within 1m0s"},
	} {
		t.Run(name, func(t *testing.T) {
			tc.facts.Now = now
			got, says := DefaultUnreachable(tc.facts)
			if got != tc.want || says != tc.says {
				t.Errorf("want %s (%s), got %s (%s)", tc.want, tc.says, got, says)
			}
		})
	}
}

func TestAWaitForUnreadNodesEndsWithAnEventALimitOrAnotherTry(t *testing.T) {
	now := time.Unix(1000, 0)
	unknown := errors.New("no idea")
	for name, tc := range map[string]struct {
		err   error
		limit time.Duration
		want  Result
		fails bool
	}{
		"the first list of the own cluster": {want: Result{Stop: true, RequeueAfter: time.Second}},
		"an event will tell":                {err: errNoCluster, want: Result{Stop: true}},
		"an event will tell, or the limit":  {err: errNoCluster, limit: time.Minute, want: Result{Stop: true, RequeueAfter: 30 * time.Second}},
		"nobody will tell":                  {err: unknown, want: Result{Stop: true}, fails: true},
		"nobody will tell before the limit": {err: unknown, limit: time.Minute, want: Result{Stop: true, RequeueAfter: unreadRetry}},
	} {
		t.Run(name, func(t *testing.T) {
			s := &Scope{Now: now, NodesErr: tc.err}
			got, err := s.waitUnread(ReasonDrainingNode, s.unread(), now.Add(-30*time.Second), tc.limit)
			if (err != nil) != tc.fails {
				t.Errorf("error: want %v, got %v", tc.fails, err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			said, _ := s.Condition(ConditionDeleting)
			require.Equal(t, ReasonDrainingNode, said.Reason)
			require.Equal(t, s.unread(), said.Message)
		})
	}
}
