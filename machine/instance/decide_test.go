package machine

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
		facts  instanceFacts
		status metav1.ConditionStatus
		reason string
		want   instanceDecision // without the condition
	}{
		"it runs":          {instanceFacts{Instance: ran}, "True", contract.ReasonReady, instanceDecision{Adopt: true, Provisioned: true}},
		"it runs, unnamed": {instanceFacts{Instance: unnamed}, "False", ReasonProviderIDMissing, instanceDecision{}},
		"it is being made": {instanceFacts{Instance: in(provider.Creating)}, "False", ReasonInstanceCreating, instanceDecision{Adopt: true}},
		"it is off": {instanceFacts{Instance: in(provider.Stopped)}, "False", ReasonInstanceStopped,
			instanceDecision{Adopt: true, Off: true}},
		"it is deleted": {instanceFacts{Instance: in(provider.Deleting)}, "False", ReasonInstanceGone, instanceDecision{Adopt: true}},
		"it cannot run": {instanceFacts{Instance: in(provider.Failed)}, "False", ReasonInstanceFailed, instanceDecision{
			Adopt: true, Failure: failure{ReasonInstanceFailed, "The provider reports that the instance cannot run: so it is"}}},
		"a new one, unseen": {instanceFacts{Err: missing, Recorded: true, Failures: 9}, "Unknown", "NotFound", instanceDecision{}},
		"one that ran is missed once": {
			instanceFacts{Err: missing, Recorded: true, Provisioned: true, Failures: 2}, "", "", instanceDecision{Keep: true}},
		"one that ran is missed often": {
			instanceFacts{Err: missing, Recorded: true, Provisioned: true, Failures: 3}, "False", ReasonInstanceGone,
			instanceDecision{Gone: true, Failure: failure{ReasonInstanceGone, "The instance no longer exists: delete the Machine"}}},
		"one that ran cannot be read": {
			instanceFacts{Err: errors.New("reset"), Recorded: true, Provisioned: true, Failures: 9}, "Unknown", "Unavailable", instanceDecision{}},
		"one that ran has to wait": {
			instanceFacts{Err: delayed, Recorded: true, Provisioned: true, Failures: 9}, "", "", instanceDecision{Keep: true}},
		"a new one has to wait": {instanceFacts{Err: delayed}, "False", ReasonWaitingForRate, instanceDecision{}},
		"it is refused": {
			instanceFacts{Err: provider.Errorf(provider.Invalid, "size")}, "False", reasonInvalidConfiguration, instanceDecision{}},
	} {
		got := decideInstance(tc.facts)
		require.Equal(t, tc.status, got.Condition.Status, name)
		require.Equal(t, tc.reason, got.Condition.Reason, name)
		got.Condition = metav1.Condition{}
		require.Equal(t, tc.want, got, name)
	}
}

func TestAnAttemptHoldsCallsBackUntilItsTimeOrAnotherInput(t *testing.T) {
	backoff := provider.DefaultBackoff()
	refused := attempt{}.after("a", provider.Errorf(provider.Invalid, "size"), backoff, noon)
	_, held := refused.holds("a", noon.Add(1000*time.Hour))
	require.True(t, held, "what is invalid stays so")
	_, held = refused.holds("b", noon)
	require.False(t, held, "another specification")

	broken := attempt{}.after("a", errors.New("reset"), backoff, noon)
	wait, held := broken.holds("a", noon)
	require.True(t, held)
	require.InDelta(t, 2, wait.Seconds(), .3)
	_, held = broken.holds("a", noon.Add(time.Minute))
	require.False(t, held)
	again := broken.after("a", errors.New("reset"), backoff, noon)
	require.Equal(t, 2, again.failures)
	require.Equal(t, 1, broken.after("b", errors.New("reset"), backoff, noon).failures)
	turn := broken.after("a", &provider.Error{Delayed: true, RetryAfter: time.Second}, backoff, noon)
	require.Equal(t, 1, turn.failures, "a delay is no failure")
	require.Equal(t, attempt{of: "a", valid: true}, again.after("a", nil, backoff, noon))
}
