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

	"github.com/machinist-dev/machinist/machine/healthcheck"
)

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
func TestAMachineIsASuccessorIfItWasNotThereWhenTheOtherWasMarkedWhateverTheClockSays(t *testing.T) {
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
