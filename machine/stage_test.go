package machine

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/machinist-dev/machinist/contract"
)

func TestStageDecision(t *testing.T) {
	now := time.Unix(10_000, 0)
	hour, second := now.Add(-time.Hour), now.Add(-time.Second)
	for name, tc := range map[string]struct {
		facts stageFacts
		want  stageAction
		says  string
	}{
		"it has all that it needs": {stageFacts{}, stageRuns, ""},
		"the Cluster is unread": {stageFacts{CareUnknown: "unread", Excluded: "asked", Done: true, Unread: "away", Needs: "more"}, stageWaits,
			"Waiting to know whether the Node is to be drained: unread"},
		"it is excluded":       {stageFacts{Excluded: "asked", Done: true, Unread: "away", Needs: "more"}, stageExcluded, "asked"},
		"it is done":           {stageFacts{Done: true, Unread: "away", Needs: "more", Started: hour, Limit: time.Minute}, stageDone, ""},
		"the Nodes are unread": {stageFacts{Unread: "away", Needs: "more"}, stageUnread, "away"},
		"the Cluster is gone": {stageFacts{Unread: "away", ClusterGone: true}, stageOver,
			"the Cluster no longer exists, or is being deleted, while its Nodes could not be read: away"},
		"the instance is gone": {stageFacts{Unread: "away", InstanceGone: true}, stageOver,
			"the machine no longer exists, while its Nodes could not be read: away"},
		"the instance is off": {stageFacts{Unread: "away", PoweredOff: true}, stageOver,
			"the machine is off, while its Nodes could not be read: away"},
		"something is missing": {stageFacts{Needs: "more", Started: second, Limit: time.Minute}, stageWaits, "more"},
		"something is missing for too long": {stageFacts{Needs: "more", Started: hour, Limit: time.Minute}, stageOver,
			"not completed within 1m0s: more"},
		"it is at work":                 {stageFacts{Started: second, Limit: time.Minute}, stageRuns, ""},
		"it is at work without a limit": {stageFacts{Started: hour}, stageRuns, ""},
		"it is over its limit":          {stageFacts{Started: hour, Limit: time.Minute}, stageOver, "not completed within 1m0s"},
		"and makes one attempt more":    {stageFacts{Started: hour, Limit: time.Minute, Last: true}, stageRuns, ""},
		"a limit of what has not begun": {stageFacts{Limit: time.Nanosecond}, stageRuns, ""},
	} {
		t.Run(name, func(t *testing.T) {
			tc.facts.Now = now
			action, says := decideStage(tc.facts)
			require.Equal(t, []any{tc.want, tc.says}, []any{action, says})
		})
	}
}

func TestStageOfAnEmbedder(t *testing.T) {
	now := time.Unix(10_000, 0).UTC()
	waiting, excluded, needs := true, "", ""
	stage := Stage{
		Name: "backup", Reason: "BackingUp", Limit: func(*Scope) time.Duration { return time.Minute },
		Excluded: func(*Scope) string { return excluded }, Needs: func(*Scope) string { return needs },
		Run: func(_ context.Context, s *Scope) (Result, error) {
			if waiting {
				return s.Wait("BackingUp", "under way"), nil
			}
			return Result{}, nil
		},
	}
	s := attached(&Scope{Scope: base{Object: testKind().New(), Now: now}})
	s.State.Deleting = now
	pass := func(at time.Time) Result {
		s.Now, s.told = at, nil
		result, err := stage.run(t.Context(), s)
		require.NoError(t, err)
		return result
	}
	require.Equal(t, Result{Stop: true, Checkpoint: true, RequeueAfter: time.Minute}, pass(now), "its start is recorded")
	require.Contains(t, s.State.Annotations[contract.DeletionAnnotation], `"backup":{"start":`)
	require.Equal(t, Result{Stop: true, RequeueAfter: 20 * time.Second}, pass(now.Add(40*time.Second)))
	needs = "a backup store"
	require.Equal(t, Result{Stop: true, RequeueAfter: 20 * time.Second}, pass(now.Add(40*time.Second)))
	require.Equal(t, Result{}, pass(now.Add(time.Minute)), "the deletion goes on without")
	require.Len(t, s.told, 1)
	require.Equal(t, "stage backup: not completed within 1m0s: a backup store: the deletion goes on without", s.told[0].Note)
	require.Equal(t, EventStageFailed, s.told[0].Reason)
	excluded = "asked"
	require.Equal(t, Result{}, pass(now))
	require.Len(t, s.told, 1)
	require.Equal(t, "stage backup is left out: asked", s.told[0].Note)
	excluded, needs, waiting = "", "", false
	require.Equal(t, Result{}, pass(now.Add(50*time.Second)))
	s.end(StepDrain, "n-uid")
	waiting = true
	require.Equal(t, Result{}, pass(now.Add(time.Hour)), "it is done")
	require.Empty(t, s.told)
}
