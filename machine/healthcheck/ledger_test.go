package healthcheck_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/machine/healthcheck"
)

func TestAMachineThatIsSkippedIsNotInFlightOnceItsMarkIsGone(t *testing.T) {
	f := planned(t, "hhmu", "50%")
	f.Policy.MaxInFlight = contract.Some(intstr.FromInt32(1))
	d := healthcheck.Plan(f)
	require.Equal(t, healthcheck.ActionHold, d.Outcomes[3].Action)
	f.Ledger, f.Machines[2].Verdict = d.Ledger, healthcheck.Verdict{Skipped: true, Reason: healthcheck.ReasonSkipped}
	require.Equal(t, 1, healthcheck.Plan(f).InFlight, "its owner may be replacing it")
	f.Machines[2].Marked = false
	d = healthcheck.Plan(f)
	require.Equal(t, healthcheck.ActionMark, d.Outcomes[2].Action)
	require.Equal(t, []healthcheck.Entry{{Machine: "u03", Group: "deployment", At: now.Unix(), After: f.Machines[0].Created.Unix(),
		Seen: "u00,u01,u02,u03", Decided: true}}, d.Ledger.InFlight)
}

// A Machine that was being deleted for its remediation and was skipped then counted as gone, and its replacement as one more to remediate.
func TestAMachineThatIsSkippedKeepsItsPlaceWhileItIsDeleted(t *testing.T) {
	f := planned(t, "hhmu", "50%")
	f.Policy.MaxInFlight = contract.Some(intstr.FromInt32(1))
	f.Machines[2].Deleting = true
	d := healthcheck.Plan(f)
	require.Equal(t, healthcheck.ReasonInFlight, d.Outcomes[3].Reason)
	f.Ledger, f.Machines[2].Verdict = d.Ledger, healthcheck.Verdict{Skipped: true, Reason: healthcheck.ReasonSkipped}
	f.Machines[3].Created = now.Add(time.Second)
	f.Now = now.Add(time.Minute)
	d = healthcheck.Plan(f)
	require.Equal(t, 1, d.InFlight)
	require.Equal(t, f.Ledger.InFlight, d.Ledger.InFlight, "its replacement takes the place once it is gone")
	f.Machines = slices.Delete(f.Machines, 2, 3)
	require.Equal(t, f.Machines[2].UID, healthcheck.Plan(f).Ledger.InFlight[0].Machine)
}

// Machine u03 has taken one place, and was well. The Machine of another place is gone while u03 is skipped, or is left out by the cache.
func TestAMachineThatHasTakenAPlaceTakesNoOtherAfterItWasSkipped(t *testing.T) {
	f := planned(t, "hhhh", "50%")
	f.Known, f.Machines[3].Created = true, now
	f.Ledger.InFlight = []healthcheck.Entry{{Machine: "gone", Group: "deployment", At: now.Add(-time.Minute).Unix(), Decided: true}}
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
	for i := range 100 {
		f.Ledger.Successors = append(f.Ledger.Successors, types.UID(fmt.Sprint(i)))
	}
	f.Ledger = healthcheck.Plan(f).Ledger
	require.Len(t, f.Ledger.Successors, 20, "those that are not seen are bounded")
	require.Equal(t, types.UID("99"), f.Ledger.Successors[19])
	f.Ledger.InFlight = nil
	require.Empty(t, healthcheck.Plan(f).Ledger.Successors)
}

func TestAnOwnerWithoutMachinesForAMomentIsNotForgotten(t *testing.T) {
	f := planned(t, "hhu", "50%")
	unstarted(&f.Machines[2], now.Add(-time.Hour))
	f.Machines[2].Line, f.Machines[2].Group = "single", "single"
	d := healthcheck.Plan(f)
	require.Equal(t, healthcheck.ActionMark, d.Outcomes[2].Action)
	f.Machines, f.Ledger = f.Machines[:2], d.Ledger
	d = healthcheck.Plan(f)
	require.Len(t, d.Ledger.Lines, 1)
	require.Equal(t, 1, d.InFlight, "its replacement has yet to come")
	f.Now = now.Add(healthcheck.Expiry + time.Second)
	d = healthcheck.Plan(f)
	require.Empty(t, d.Ledger.Lines)
	require.Zero(t, d.InFlight)
}

// A clock that was five hours ahead had a check hold its Machines back for five hours, and not for the minute of the first back-off.
func TestTimesOfAClockThatWasAheadAreThoseOfNow(t *testing.T) {
	f := planned(t, "hhhu", "50%")
	unstarted(&f.Machines[3], now.Add(-time.Hour))
	ahead := f
	ahead.Now = now.Add(5 * time.Hour)
	f.Ledger = healthcheck.Plan(ahead).Ledger
	require.Len(t, f.Ledger.Lines, 1)
	f.Machines[3].UID = "replacement"
	d := healthcheck.Plan(f)
	require.Equal(t, healthcheck.ReasonBackoff, d.Outcomes[3].Reason)
	f.Ledger, f.Now = d.Ledger, now.Add(healthcheck.Backoff)
	require.Equal(t, healthcheck.ActionMark, healthcheck.Plan(f).Outcomes[3].Action)

	f.Machines, f.Now = f.Machines[:3], now.Add(healthcheck.Expiry+time.Minute)
	require.Zero(t, healthcheck.Plan(f).InFlight, "its place is waited for as long as always")
}

// Otherwise a process whose clock was right would find that the places have expired long ago.
func TestAClockThatIsBehindChangesNoTimeOfALedger(t *testing.T) {
	f := planned(t, "hhhu", "50%")
	for i := range f.Machines {
		f.Machines[i].Created = now.Add(-time.Hour)
	}
	unstarted(&f.Machines[3], now.Add(-time.Hour))
	f.Ledger = healthcheck.Plan(f).Ledger
	behind := f
	behind.Now = now.Add(-5 * time.Hour)
	require.Equal(t, f.Ledger.InFlight, healthcheck.Plan(behind).Ledger.InFlight)
	behind.Machines = nil
	require.Equal(t, f.Ledger.InFlight, healthcheck.Plan(behind).Ledger.InFlight, "without Machines nothing shows which clock is wrong")
}

// A Machine that was there before must not take the place of one that is remediated.
func TestAClockThatIsBehindMakesNoMachineThatIsThereASuccessor(t *testing.T) {
	f := planned(t, "hhuu", "50%")
	f.Policy.MaxInFlight = contract.Some(intstr.FromInt32(1))
	for i := range f.Machines {
		f.Machines[i].Created = now
	}
	f.Machines[2].Verdict.Reason = healthcheck.ReasonHasRemediateAnnotation
	f.Now = now.Add(-5 * time.Hour)
	d := healthcheck.Plan(f)
	require.Equal(t, healthcheck.ActionMark, d.Outcomes[2].Action)
	f.Ledger, f.Known, f.Machines, f.Now = d.Ledger, true, slices.Delete(f.Machines, 2, 3), now.Add(time.Minute)
	d = healthcheck.Plan(f)
	require.Equal(t, f.Ledger.InFlight, d.Ledger.InFlight)
	require.Equal(t, healthcheck.ReasonInFlight, d.Outcomes[2].Reason)
}

func TestALedgerIsReadBackOrUnknown(t *testing.T) {
	l := healthcheck.Ledger{Check: "check",
		InFlight: []healthcheck.Entry{{Machine: "m", Group: "g", At: 7, After: 5, Seen: "m", Deleted: 8, Decided: true}},
		Lines:    []healthcheck.Line{{Owner: "o", Failures: 2, Last: 9, After: 6}}}
	got, known := healthcheck.ParseLedger(l.String(), "check")
	require.True(t, known)
	require.Empty(t, cmp.Diff(l, got))
	for _, text := range []string{"", "{", "[]", l.String()} {
		got, known = healthcheck.ParseLedger(text, "a copy")
		require.False(t, known)
		require.Empty(t, cmp.Diff(healthcheck.Ledger{Check: "a copy"}, got))
	}
}

func BenchmarkPlan(b *testing.B) {
	f := healthcheck.PlanFacts{Machines: fleet(strings.Repeat("h", 290) + strings.Repeat("u", 10)), Known: true, Now: now}
	b.ReportAllocs()
	for b.Loop() {
		_ = healthcheck.Plan(f)
	}
}
