package healthcheck_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/machine/healthcheck"
)

// never is the deletion of a Machine that no pass has seen: it was gone at once, or no process ran.
const never = time.Duration(-1)

// Of two unhealthy Machines one is marked at now by the clock of the API server, and goes; the clock of the process that marks it is off.
// The other one is marked when a further Machine takes the place of the first.
func TestAMachineIsASuccessorIfItWasNotThereWhenTheOtherWasMarkedWhateverTheClockSays(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		off           time.Duration // the clock of the process that marks
		deleted, made time.Duration // since now
		there         bool          // the further Machine was seen at the mark
		want          bool
	}{
		"clocks agree":                                  {deleted: 2 * time.Second, made: 3 * time.Second, want: true},
		"it is made before the deletion":                {deleted: time.Minute, made: 3 * time.Second, want: true},
		"all in one second":                             {want: true},
		"all in one second, and no pass has seen it go": {deleted: never, want: true},
		"ahead":                             {off: 4 * time.Minute, deleted: 2 * time.Second, made: 3 * time.Second, want: true},
		"ahead, in one second":              {off: 4 * time.Minute, want: true},
		"ahead, and no pass has seen it go": {off: 4 * time.Minute, deleted: never, made: 3 * time.Second, want: true},
		"ahead by hours":                    {off: 5 * time.Hour, deleted: 2 * time.Second, made: 3 * time.Second, want: true},
		"behind":                            {off: -4 * time.Minute, deleted: 2 * time.Second, made: 3 * time.Second, want: true},
		"behind, and it was there":          {off: -4 * time.Minute, deleted: time.Second, made: -time.Minute, there: true},
		"behind, it was there, and no pass has seen that": {off: -4 * time.Minute, deleted: never, made: -time.Minute, there: true},
		"it was made in the second of the mark before it": {deleted: never, there: true},
		"the cache had left it out":                       {deleted: time.Second, made: -time.Second},
		"the cache had left it out, ahead":                {off: 4 * time.Minute, deleted: time.Second, made: -time.Second},
		"the cache had left out one of an hour":           {off: 4 * time.Minute, deleted: never, made: -time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := planned(t, "hhuu", "50%")
			f.Policy.MaxInFlight = contract.Some(intstr.FromInt32(1))
			further := f.Machines[0]
			further.Name, further.UID, further.Created = "m99", "u99", now.Add(tc.made)
			if tc.there {
				f.Machines = append(f.Machines, further)
			}
			f.Now = now.Add(tc.off)
			d := healthcheck.Plan(f)
			require.Equal(t, healthcheck.ActionMark, d.Outcomes[3].Action)
			require.Equal(t, healthcheck.ReasonInFlight, d.Outcomes[2].Reason)
			if tc.deleted != never {
				f.Ledger, f.Machines[3].Marked, f.Machines[3].Deleting = d.Ledger, true, true
				f.Machines[3].DeletingSince = now.Add(tc.deleted)
				d = healthcheck.Plan(f)
			}
			f.Ledger, f.Now = d.Ledger, now.Add(10*time.Minute)
			if f.Machines = slices.Delete(f.Machines, 3, 4); !tc.there {
				f.Machines = append(f.Machines, further)
			}
			d = healthcheck.Plan(f)
			require.Equal(t, tc.want, d.Outcomes[2].Action == healthcheck.ActionMark, "%+v of %s", d.Outcomes[2], f.Ledger)
		})
	}
}

// A ledger that an earlier version has written has only times by the clock of a process.
func TestALedgerWithoutTimesOfTheAPIServerIsJudgedByThoseOfTheProcess(t *testing.T) {
	t.Parallel()
	for made, want := range map[time.Duration]int{0: 1, time.Second: 0} {
		f := planned(t, "hh", "50%")
		f.Ledger, f.Known = healthcheck.ParseLedger(`{"check":"c",`+
			`"inFlight":[{"machine":"gone","group":"deployment","at":1772366400,"decided":true}],`+
			`"lines":[{"owner":"set","failures":2,"last":1772366400}]}`, "c")
		require.Equal(t, now.Unix(), f.Ledger.InFlight[0].At)
		f.Machines[1].Created, f.Now = now.Add(made), now.Add(time.Minute)
		d := healthcheck.Plan(f)
		require.Equal(t, want, d.InFlight)
		require.Len(t, d.Ledger.Lines, want)
		if want > 0 {
			require.Equal(t, f.Ledger.String(), d.Ledger.String())
		}
	}
}

// A Machine that does not start is marked at now by the clock of the API server; the clock of the process that marks it is off.
func TestAMachineIsOfTheRoundInWhichItWasThereWhateverTheClockSays(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		off, made time.Duration // made: of the next Machine, since now
		starts    bool          // the next one does
		failures  int
	}{
		"clocks agree":                        {made: time.Second, failures: 2},
		"ahead":                               {off: 4 * time.Minute, made: time.Second, failures: 2},
		"ahead, and the next one has started": {off: 4 * time.Minute, made: time.Second, starts: true},
		"behind":                              {off: -4 * time.Minute, made: time.Second, failures: 2},
		"behind, and the next one was there":  {off: -4 * time.Minute, made: -time.Minute, failures: 1},
		"behind, and one that was there has started": {off: -4 * time.Minute, made: -time.Minute, starts: true,
			failures: 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := planned(t, "hhup", "50%")
			unstarted(&f.Machines[2], now.Add(-time.Hour))
			next := f.Machines[3]
			if next.Created = now.Add(tc.made); tc.made > 0 {
				f.Machines = f.Machines[:3]
			} else {
				f.Machines[3].Created = next.Created
			}
			f.Now = now.Add(tc.off)
			d := healthcheck.PlanBlind(f)
			require.Equal(t, 1, d.Ledger.Lines[0].Failures)

			f.Ledger, f.Now = d.Ledger, now.Add(time.Hour)
			if unstarted(&next, next.Created); tc.starts {
				next.Verdict = healthcheck.Verdict{Class: healthcheck.Healthy}
			}
			f.Machines = append(f.Machines[:2:2], next)
			failures := 0
			for _, line := range healthcheck.PlanBlind(f).Ledger.Lines {
				failures = line.Failures
			}
			require.Equal(t, tc.failures, failures)
		})
	}
}

// A scale-up makes Machines in the second in which m03 is marked and deleted.
func TestAMachineOfTheSecondOfTheNewestOnesIsASuccessorIfItIsKnownToBeNoneOfThem(t *testing.T) {
	t.Parallel()
	for seen, want := range map[int]healthcheck.Action{1: healthcheck.ActionMark, 10: healthcheck.ActionMark, 11: healthcheck.ActionHold} {
		f := planned(t, "hhuu"+strings.Repeat("h", seen), "50%")
		f.Policy.MaxInFlight = contract.Some(intstr.FromInt32(1))
		for i := range seen {
			f.Machines[4+i].Created = now
		}
		f.Ledger = healthcheck.Plan(f).Ledger
		f.Machines[3].Marked, f.Machines[3].Deleting, f.Machines[3].DeletingSince = true, true, now
		f.Ledger, f.Now = healthcheck.Plan(f).Ledger, now.Add(time.Minute)
		f.Machines = slices.Delete(f.Machines, 3, 4)
		require.Equal(t, healthcheck.ReasonInFlight, healthcheck.Plan(f).Outcomes[2].Reason, "they were there")

		further := f.Machines[3]
		further.Name, further.UID = "m99", "u99"
		f.Machines = append(f.Machines, further)
		require.Equal(t, want, healthcheck.Plan(f).Outcomes[2].Action, "%d of %s", seen, f.Ledger)
	}
}

// By a clock that is hours ahead m03 was marked after m02 was made, which has taken the place of another Machine. When the deletion of m03 is
// seen, that is known to be wrong.
func TestAMachineThatHasTakenAPlaceTakesNoOtherWhenADeletionIsSeen(t *testing.T) {
	t.Parallel()
	f := planned(t, "hhhm", "50%")
	f.Machines[2].Created, f.Now = now.Add(2*time.Minute), now.Add(5*time.Hour)
	f.Ledger.Successors = []types.UID{"u02"}
	f.Ledger.InFlight = []healthcheck.Entry{{Machine: "u03", Group: "deployment", At: f.Now.Unix(), After: now.Add(-time.Hour).Unix(),
		Decided: true}}
	f.Ledger = healthcheck.Plan(f).Ledger
	require.Equal(t, []types.UID{"u02"}, f.Ledger.Successors)
	f.Machines[3].Deleting, f.Machines[3].DeletingSince = true, now.Add(time.Minute)
	f.Ledger = healthcheck.Plan(f).Ledger
	f.Machines = f.Machines[:3]
	require.Equal(t, 1, healthcheck.Plan(f).InFlight)
}
