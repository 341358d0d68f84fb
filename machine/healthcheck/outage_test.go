package healthcheck_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/machine/healthcheck"
)

// history is a fleet over time: each plan gets the ledger of the one before.
type history struct {
	healthcheck.PlanFacts

	t *testing.T
}

// fails makes the Machines of a fleet unhealthy at once, an hour ago, with a limit of five minutes.
func fails(t *testing.T, states, domains string) *history {
	t.Helper()
	h := &history{t: t, PlanFacts: zoned(planned(t, states, "100%"), domains)}
	for i := range h.Machines {
		if m := &h.Machines[i]; m.Verdict.Bad() {
			m.Verdict.Limit = 5 * time.Minute
		}
	}
	return h
}

// then plans after a time and returns what happens to the Machines. The ledger goes the way of the annotation.
func (h *history) then(after time.Duration) string {
	h.t.Helper()
	h.Now = h.Now.Add(after)
	d := healthcheck.Plan(h.PlanFacts)
	h.Ledger, h.Known = healthcheck.ParseLedger(d.Ledger.String(), d.Ledger.Check)
	require.True(h.t, h.Known)
	return acts(d)
}

func (h *history) recover(machines ...int) {
	for _, i := range machines {
		h.Machines[i].Verdict = healthcheck.Verdict{Class: healthcheck.Healthy}
	}
}

// The Nodes of a zone come back one after the other. When half of them have, the others are no outage by their number any more, and have
// been unhealthy for long: they would all be replaced in the minute in which the zone recovers.
func TestFiftyMachinesOfAZoneThatComesBackAreNotReplaced(t *testing.T) {
	t.Parallel()
	h := fails(t, strings.Repeat("u", 50)+strings.Repeat("h", 50), strings.Repeat("a", 50)+strings.Repeat("b", 50))
	require.NotContains(t, h.then(0), "Mark")
	for i := range 50 {
		h.recover(i)
		require.NotContains(t, h.then(4*time.Second), "Mark", "%d are back", i+1)
	}
	require.Empty(t, h.Ledger.Outages)
}

func TestTheMachinesThatDoNotRecoverAfterAnOutageOfAllAreReplaced(t *testing.T) {
	t.Parallel()
	h := fails(t, "uuuu", "aaaa")
	require.Equal(t, "Hold/Outage Hold/Outage Hold/Outage Hold/Outage", h.then(0))
	h.recover(0)
	d := healthcheck.Plan(h.PlanFacts)
	require.Equal(t, 5*time.Minute, d.NextCheck)
	require.False(t, d.Allowed)
	require.Equal(t, "The outage of all Machines ended at 2026-03-01T12:00:00Z, and the Machine has 5m0s to recover: add the annotation "+
		"cluster.x-k8s.io/remediate-machine to remediate it nevertheless", d.Message)
	require.Equal(t, "None Hold/Outage Hold/Outage Hold/Outage", h.then(0))
	h.recover(1)
	require.Equal(t, "None None Hold/Outage Hold/Outage", h.then(4*time.Minute))
	h.Machines[3].Verdict.Reason = healthcheck.ReasonHasRemediateAnnotation
	require.Equal(t, "None None Hold/Outage Mark", h.then(30*time.Second))
	require.Equal(t, "None None Mark Mark", h.then(31*time.Second))
	require.Empty(t, h.Ledger.Outages)
}

func TestAMachineThatFailsAfterAnOutageHasNoLongerToRecover(t *testing.T) {
	t.Parallel()
	h := fails(t, "uuhh", "aabb")
	require.Equal(t, "Hold/Outage Hold/Outage None None", h.then(0))
	h.recover(0)
	require.Equal(t, "None Hold/Outage None None", h.then(time.Minute))
	bad := healthcheck.Verdict{Class: healthcheck.Unhealthy, Since: h.Now.Add(time.Second), Limit: time.Minute}
	h.Machines[0].Verdict, h.Machines[2].Verdict = bad, bad
	h.Machines[1].Verdict.Since = h.Now.Add(-20 * time.Minute) // not at once with the others
	require.Equal(t, "Mark Hold/Outage Mark None", h.then(2*time.Minute), "its zone has an outage behind it, and it failed later")
	require.Equal(t, "Mark Mark Mark None", h.then(4*time.Minute))
}

func TestAnOutageEndsWithAHealthyMachineAndNotWithOneThatCannotBeJudged(t *testing.T) {
	t.Parallel()
	h := fails(t, "uuuhh", "aaabb")
	require.Equal(t, "Hold/Outage Hold/Outage Hold/Outage None None", h.then(0))
	was := [3]healthcheck.Verdict{}
	for i := range was {
		was[i] = h.Machines[i].Verdict
		h.Machines[i].Verdict = healthcheck.Verdict{Reason: healthcheck.ReasonNodeUnread}
	}
	require.Equal(t, "None None None None None", h.then(time.Minute))
	for i := range was {
		h.Machines[i].Verdict = was[i]
	}
	h.recover(0, 1)
	require.Equal(t, "None None Hold/Outage None None", h.then(time.Hour), "it ends now, and not an hour ago")
	h.Machines = h.Machines[3:]
	require.Equal(t, "None None", h.then(0))
	require.Empty(t, h.Ledger.Outages, "no Machine recovers from it")
}

func TestAMachineThatCannotBeJudgedForAWhileKeepsItsTimeAfterAnOutage(t *testing.T) {
	t.Parallel()
	for name, unjudged := range map[string]healthcheck.Verdict{
		"its Node is not read": {Reason: healthcheck.ReasonNodeUnread}, "the API server of the Nodes does not answer": {Unjudged: true},
	} {
		h := fails(t, "uuuuhh", "aaaabb")
		require.NotContains(t, h.then(0), "Mark")
		h.recover(0, 1)
		require.Equal(t, "None None Hold/Outage Hold/Outage None None", h.then(time.Minute))
		before := slices.Clone(h.Machines)
		for i := range h.Machines {
			h.Machines[i].Verdict = unjudged
		}
		require.Equal(t, "None None None None None None", h.then(time.Minute))
		h.Machines = before
		require.Equal(t, "None None Hold/Outage Hold/Outage None None", h.then(time.Minute), "%s: of five minutes, two are over", name)
		require.Equal(t, "None None Mark Mark None None", h.then(3*time.Minute))
		require.Empty(t, h.Ledger.Outages)
	}
}

func TestAMachineThatIsHeldBecauseAnotherCannotBeJudgedSaysWhatAPersonCanDo(t *testing.T) {
	t.Parallel()
	h := fails(t, "uuuuhh", "aaaabb")
	require.NotContains(t, h.then(0), "Mark")
	for i := range 3 {
		h.Machines[i].Verdict = healthcheck.Verdict{Reason: healthcheck.ReasonNodeUnread}
	}
	d := healthcheck.Plan(h.PlanFacts)
	require.Equal(t, "None None None Hold/Outage None None", acts(d))
	require.Contains(t, d.Outcomes[3].Message, "cannot be judged; add the annotation "+contract.RemediateAnnotation)
	h.Machines[3].Verdict.Reason = healthcheck.ReasonHasRemediateAnnotation
	require.Equal(t, "None None None Mark None None", acts(healthcheck.Plan(h.PlanFacts)))
}

func TestAnOutageIsFollowedWhileTheLimitCannotBeRead(t *testing.T) {
	t.Parallel()
	h := fails(t, "uuhh", "aabb")
	h.then(0)
	h.UnhealthyRange = "any"
	h.then(time.Minute)
	require.Equal(t, map[string]int64{"a": 0}, h.Ledger.Outages)
	h.recover(0)
	h.then(time.Minute)
	require.Equal(t, map[string]int64{"a": h.Now.Unix()}, h.Ledger.Outages)
	h.UnhealthyRange = ""
	require.Equal(t, "None Hold/Outage None None", h.then(4*time.Minute))
	require.Equal(t, "None Mark None None", h.then(time.Minute))
}

// Machines that are deleted meanwhile are no part of it: it has ended, and what is left has its time.
func TestASingleMachineThatIsLeftOfAnOutageIsReplaced(t *testing.T) {
	t.Parallel()
	for name, leave := range map[string]func(h *history){
		"the others are gone":          func(h *history) { h.Machines = h.Machines[2:] },
		"the others are being deleted": func(h *history) { h.Machines[0].Deleting, h.Machines[1].Deleting = true, true },
	} {
		h := fails(t, "uuu", "aaa")
		require.Equal(t, "Hold/Outage Hold/Outage Hold/Outage", h.then(0), name)
		leave(h)
		require.Regexp(t, `(^| )Hold/Outage$`, h.then(time.Second), name)
		require.Regexp(t, `(^| )Mark$`, h.then(5*time.Minute), name)
		require.Empty(t, h.Ledger.Outages)
	}
}

// The Node of one of them has registered again and has yet to be matched: the others wait until it is known whether the outage has ended.
func TestASingleMachineThatIsLeftOfAnOutageWaitsForOneThatCannotBeJudged(t *testing.T) {
	t.Parallel()
	h := fails(t, "uuhh", "aabb")
	require.Equal(t, "Hold/Outage Hold/Outage None None", h.then(0))
	h.Machines[0].Verdict = healthcheck.Verdict{Reason: healthcheck.ReasonNodeUnread}
	require.Equal(t, "None Hold/Outage None None", h.then(time.Second))
	h.recover(0)
	require.Equal(t, "None Hold/Outage None None", h.then(time.Second), "it has its time from now on")
	require.Equal(t, "None Mark None None", h.then(time.Hour))
}
