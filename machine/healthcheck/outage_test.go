package healthcheck_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

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

func TestAdviceForAHeldMachine(t *testing.T) {
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

func TestAMachineThatIsSkippedIsNotInFlightOnceItsMarkIsGone(t *testing.T) {
	f := planned(t, "hhmu", "1")
	d := healthcheck.Plan(f)
	require.Equal(t, healthcheck.ReasonTooManyUnhealthy, d.Outcomes[3].Reason)
	f.Ledger, f.Machines[2].Verdict = d.Ledger, healthcheck.Verdict{Skipped: true, Reason: healthcheck.ReasonSkipped}
	require.Len(t, healthcheck.Plan(f).Ledger.InFlight, 1, "its owner may be replacing it")
	f.Machines[2].Marked = false
	d = healthcheck.Plan(f)
	require.Equal(t, healthcheck.ActionMark, d.Outcomes[2].Action)
	want := []healthcheck.Entry{{Machine: "u03", Group: "deployment", After: f.Machines[0].Created.Unix(), Decided: true}}
	require.Equal(t, want, d.Ledger.InFlight)
}

// Machine u03 has taken one place, and was well. The Machine of another place is gone while u03 is skipped, or is left out by the cache.
func TestAMachineThatHasTakenAPlaceTakesNoOtherAfterItWasSkipped(t *testing.T) {
	f := planned(t, "hhhh", "50%")
	f.Known, f.Machines[3].Created = true, now
	f.Ledger.InFlight = []healthcheck.Entry{{Machine: "gone", Group: "deployment", After: now.Add(-time.Minute).Unix(), Decided: true}}
	f.Ledger.Successors = []types.UID{"u03"}
	f.Now = now.Add(time.Minute)
	all, skipped := f.Machines, slices.Clone(f.Machines)
	skipped[3].Verdict = healthcheck.Verdict{Skipped: true, Reason: healthcheck.ReasonSkipped}
	for _, seen := range [][]healthcheck.Machine{all, skipped, all, all[:3], all} {
		f.Machines = seen
		f.Ledger = healthcheck.Plan(f).Ledger
		require.Equal(t, "gone", string(f.Ledger.InFlight[0].Machine))
		require.Equal(t, []types.UID{"u03"}, f.Ledger.Successors)
	}
	f.Machines = all[:3]
	for i := range 600 {
		f.Ledger.Successors = append(f.Ledger.Successors, types.UID(fmt.Sprint(i)))
	}
	f.Ledger = healthcheck.Plan(f).Ledger
	require.Len(t, f.Ledger.Successors, 500, "a ledger has a bounded size")
	require.Equal(t, types.UID("599"), f.Ledger.Successors[499])
	f.Ledger.InFlight = nil
	require.Empty(t, healthcheck.Plan(f).Ledger.Successors)
}

// A set was scaled down while a Machine was replaced. How long that one was drained before does not count.
func TestAPlaceIsWaitedForUntilItExpires(t *testing.T) {
	f := planned(t, "hhu", "1")
	then := func(after time.Duration) healthcheck.Decision {
		f.Now = f.Now.Add(after)
		d := healthcheck.Plan(f)
		f.Ledger = d.Ledger
		return d
	}
	require.Equal(t, healthcheck.ActionMark, then(0).Outcomes[2].Action)
	f.Machines[2].Marked, f.Machines[2].Deleting = true, true
	require.Len(t, then(2*healthcheck.Expiry).Ledger.InFlight, 1, "it is being deleted")

	f.Machines = f.Machines[:2]
	f.Machines[1].Verdict = healthcheck.Verdict{Class: healthcheck.Unhealthy, Since: now.Add(-time.Hour)}
	d := then(time.Minute)
	require.Equal(t, "None Hold/TooManyUnhealthy", acts(d))
	require.Contains(t, d.Message, "; 1 of them are gone or not judged by this check, and nothing has taken their place yet")
	require.Equal(t, healthcheck.Expiry+time.Second, d.NextCheck)
	gone := f.Now
	require.Equal(t, "None Hold/TooManyUnhealthy", acts(then(healthcheck.Expiry)))
	f.Now = gone.Add(-24 * time.Hour) // another process, whose clock is right
	d = then(0)
	require.Equal(t, f.Now.Unix(), d.Ledger.InFlight[0].Gone)
	require.Equal(t, "None Hold/TooManyUnhealthy", acts(then(healthcheck.Expiry)))
	require.Equal(t, "None Mark", acts(then(time.Second)))
}

// It has taken the place of another one, and nothing says any more whether it is healthy.
func TestAPlaceWhoseMachineIsSkippedExpires(t *testing.T) {
	f := planned(t, "hpu", "1")
	f.Ledger.InFlight = []healthcheck.Entry{{Machine: "u01", Group: "deployment", After: now.Unix()}}
	f.Machines[1].Verdict = healthcheck.Verdict{Skipped: true, Reason: healthcheck.ReasonSkipped}
	d := healthcheck.Plan(f)
	require.Equal(t, "None Hold/TooManyUnhealthy", acts(d))
	f.Ledger, f.Now = d.Ledger, now.Add(d.NextCheck)
	require.Equal(t, "None Mark", acts(healthcheck.Plan(f)))
}

// The sets may not create anything while an API server is unreachable.
func TestAPlaceDoesNotExpireWhileNothingCouldTakeIt(t *testing.T) {
	f := planned(t, "hh", "1")
	f.Ledger.InFlight = []healthcheck.Entry{{Machine: "gone", Group: "deployment", After: now.Unix(), Gone: now.Unix()}}
	f.Now = now.Add(2 * healthcheck.Expiry)
	require.Empty(t, healthcheck.Plan(f).Ledger.InFlight)
	f.Machines[0].Verdict = healthcheck.Verdict{Unjudged: true}
	d := healthcheck.Plan(f)
	require.Len(t, d.Ledger.InFlight, 1)
	require.Equal(t, f.Now.Unix(), d.Ledger.InFlight[0].Gone, "the hour begins anew")
}

func TestAPlaceDoesNotExpireWhileAMachineHasIt(t *testing.T) {
	f := planned(t, "hu", "1")
	d := healthcheck.Plan(f)
	require.Equal(t, "None Mark", acts(d))
	f.Ledger, f.Machines = d.Ledger, f.Machines[:1]
	f.Ledger = healthcheck.Plan(f).Ledger
	require.Equal(t, now.Unix(), f.Ledger.InFlight[0].Gone)
	next := planned(t, "hp", "1").Machines[1]
	next.UID = "successor"
	f.Machines, f.Now = append(f.Machines, next), now.Add(24*time.Hour) // the set could not create it for a day
	for range 2 {
		f.Ledger, f.Now = healthcheck.Plan(f).Ledger, f.Now.Add(24*time.Hour)
		require.Equal(t, []healthcheck.Entry{{Machine: "successor", Group: "deployment", After: f.Machines[0].Created.Unix()}},
			f.Ledger.InFlight)
	}
}

// One Machine is unhealthy and marked at now by the clock of the API server, and goes; the clock of the process that marks it is off. Then
// another one is unhealthy. It is marked when a further Machine has taken the place of the first.
func TestSuccessorByCreation(t *testing.T) {
	for name, tc := range map[string]struct {
		off, made time.Duration // the clock of the process that marks, and when the further Machine is made since now
		there     bool          // it was seen at the mark
		want      bool
	}{
		"clocks agree":             {made: 3 * time.Second, want: true},
		"all in one second":        {want: true},
		"ahead":                    {off: 4 * time.Minute, made: 3 * time.Second, want: true},
		"ahead by hours":           {off: 5 * time.Hour, made: 3 * time.Second, want: true},
		"behind":                   {off: -5 * time.Hour, made: 3 * time.Second, want: true},
		"behind, and it was there": {off: -5 * time.Hour, made: -time.Minute, there: true},
		"it was made in the second of the mark before it": {there: true},
	} {
		t.Run(name, func(t *testing.T) {
			f := planned(t, "hhhu", "1")
			further := f.Machines[0]
			further.Name, further.UID, further.Created = "m99", "u99", now.Add(tc.made)
			if tc.there {
				f.Machines = append(f.Machines, further)
			}
			f.Now = now.Add(tc.off)
			d := healthcheck.Plan(f)
			require.Equal(t, healthcheck.ActionMark, d.Outcomes[3].Action)
			f.Ledger, f.Now = d.Ledger, now.Add(10*time.Minute)
			if f.Machines = slices.Delete(f.Machines, 3, 4); !tc.there {
				f.Machines = append(f.Machines, further)
			}
			f.Machines[2].Verdict = healthcheck.Verdict{Class: healthcheck.Unhealthy, Since: now.Add(-time.Hour)}
			d = healthcheck.Plan(f)
			require.Equal(t, tc.want, d.Outcomes[2].Action == healthcheck.ActionMark, "%+v of %s", d.Outcomes[2], f.Ledger)
		})
	}
}

func TestALedgerIsReadBackOrUnknown(t *testing.T) {
	l := healthcheck.Ledger{Check: "check",
		InFlight:   []healthcheck.Entry{{Machine: "m", Group: "g", After: 5, Gone: 7, Decided: true}},
		Successors: []types.UID{"s"}, Outages: map[string]int64{"d": 9},
		Requests: []metav1.GroupVersionKind{{Group: "example.com", Version: "v1", Kind: "PowerCycle"}}}
	got, known := healthcheck.ParseLedger(l.String(), "check")
	require.True(t, known)
	require.Empty(t, cmp.Diff(l, got))
	for text, want := range map[string]healthcheck.Ledger{
		"": {Check: "a copy"}, "{": {Check: "a copy"}, "[]": {Check: "a copy"}, l.String(): {Check: "a copy", Requests: l.Requests},
	} {
		got, known = healthcheck.ParseLedger(text, "a copy")
		require.False(t, known)
		require.Empty(t, cmp.Diff(want, got))
	}
	require.Equal(t, l.Requests, healthcheck.Plan(healthcheck.PlanFacts{Ledger: l, Known: true}).Ledger.Requests)
}

func BenchmarkPlan(b *testing.B) {
	f := healthcheck.PlanFacts{Machines: fleet(strings.Repeat("h", 290) + strings.Repeat("u", 10)), Known: true, Now: now}
	b.ReportAllocs()
	for b.Loop() {
		_ = healthcheck.Plan(f)
	}
}
