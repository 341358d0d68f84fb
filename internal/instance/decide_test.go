package instance

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/machine/provider"
)

func TestWhatADriverSaysDecidesOnTheMachine(t *testing.T) {
	ran := provider.Instance{ProviderID: "x://1", State: provider.Running}
	unnamed := provider.Instance{State: provider.Running}
	in := func(state provider.State) provider.Instance {
		return provider.Instance{ProviderID: "x://1", State: state, Message: "so it is"}
	}
	missing := provider.Errorf(provider.NotFound, "404")
	delayed := &provider.Error{Class: provider.RateLimited, Delayed: true, RetryAfter: time.Second}
	for name, tc := range map[string]struct {
		facts  Facts
		status metav1.ConditionStatus
		reason string
		want   Decision // without the condition
	}{
		"it runs":          {Facts{Instance: ran, Recorded: true}, "True", contract.ReasonReady, Decision{Adopt: true, Provisioned: true}},
		"a new one, made":  {Facts{Instance: ran}, "False", ReasonCreating, Decision{Adopt: true}},
		"it runs, unnamed": {Facts{Instance: unnamed}, "False", ReasonProviderIDMissing, Decision{}},
		"it is being made": {Facts{Instance: in(provider.Creating)}, "False", ReasonCreating, Decision{Adopt: true}},
		"it is off": {Facts{Instance: in(provider.Stopped)}, "False", ReasonStopped,
			Decision{Adopt: true, Off: true}},
		"it is deleted": {Facts{Instance: in(provider.Deleting)}, "False", ReasonGone, Decision{Adopt: true, Going: true}},
		"it cannot run": {Facts{Instance: in(provider.Failed)}, "False", ReasonFailed, Decision{
			Adopt: true, FailureReason: ReasonFailed,
			FailureMessage: "The provider reports that the instance cannot run; delete the Machine, or repair the instance: so it is"}},
		"a new one, unseen": {Facts{Err: missing, Recorded: true, Failures: 9}, "Unknown", "NotFound", Decision{}},
		"a new one that is never seen": {
			Facts{Err: missing, Recorded: true, Failures: 10}, "False", ReasonGone,
			Decision{Gone: true, FailureReason: ReasonGone, FailureMessage: "The instance no longer exists: delete the Machine"}},
		"one that was never made": {Facts{Err: missing, Failures: 99}, "False", "NotFound", Decision{}},
		"one that ran is missed once": {
			Facts{Err: missing, Recorded: true, Provisioned: true, Failures: 2}, "", "", Decision{Keep: true}},
		"one that ran is missed often": {
			Facts{Err: missing, Recorded: true, Provisioned: true, Failures: 3}, "False", ReasonGone,
			Decision{Gone: true, FailureReason: ReasonGone, FailureMessage: "The instance no longer exists: delete the Machine"}},
		"one that ran cannot be read": {
			Facts{Err: errors.New("reset"), Recorded: true, Provisioned: true, Failures: 9}, "Unknown", "Unavailable", Decision{}},
		"one that ran has to wait": {
			Facts{Err: delayed, Recorded: true, Provisioned: true, Failures: 9}, "", "", Decision{Keep: true}},
		"one that ran is unknown now, and the next is refused for good": {
			Facts{Err: provider.Errorf(provider.Terminal, "no"), Provisioned: true, Failures: 1}, "False", "Terminal", Decision{}},
		"one that ran is unknown now, and the next is refused once": {
			Facts{Err: provider.Errorf(provider.Exhausted, "quota"), Provisioned: true, Failures: 1}, "", "", Decision{Keep: true}},
		"a new one has to wait": {Facts{Err: delayed}, "False", ReasonWaitingForRate, Decision{}},
		"it is refused": {
			Facts{Err: provider.Errorf(provider.Invalid, "size")}, "False", ReasonInvalid, Decision{}},
	} {
		got := Decide(tc.facts)
		require.Equal(t, tc.status, got.Status, name)
		require.Equal(t, tc.reason, got.Reason, name)
		require.Equal(t, metav1.Condition{Type: "X", Status: got.Status, Reason: got.Reason, Message: got.Message}, got.Condition("X"))
		got.Status, got.Reason, got.Message = "", "", ""
		require.Equal(t, tc.want, got, name)
	}
}

func TestAFailureThatALookHasFoundIsKnown(t *testing.T) {
	for reason, lost := range map[string]bool{ReasonGone: true, ReasonFailed: true, ReasonInvalid: false, "": false} {
		require.Equal(t, lost, IsLost(reason), reason)
	}
}

// noon is a time that tests begin at.
var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

func TestAnAttemptHoldsCallsBackUntilItsTimeOrAnotherInput(t *testing.T) {
	backoff := provider.DefaultBackoff()
	refused := attempt{}.after("token", "a", provider.Errorf(provider.Invalid, "size"), backoff, noon)
	require.Positive(t, refused.wait("a", noon.Add(9*time.Minute)))
	require.Zero(t, refused.wait("a", noon.Add(11*time.Minute)), "a cloud may allow it later")
	require.Zero(t, refused.wait("b", noon), "another specification")

	broken := attempt{}.after("token", "a", errors.New("reset"), backoff, noon)
	require.InDelta(t, 2, broken.wait("a", noon).Seconds(), .3)
	require.Zero(t, broken.wait("a", noon.Add(time.Minute)))
	again := broken.after("token", "a", errors.New("reset"), backoff, noon)
	require.Equal(t, 2, again.failures)
	require.Equal(t, 1, broken.after("token", "b", errors.New("reset"), backoff, noon).failures)
	turn := broken.after("token", "a", &provider.Error{Delayed: true, RetryAfter: time.Second}, backoff, noon)
	require.Equal(t, 1, turn.failures, "a delay is no failure")
	require.Equal(t, attempt{of: "a", valid: true}, again.after("token", "a", nil, backoff, noon))
}
