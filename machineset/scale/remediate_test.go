package scale_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/machineset/scale"
)

func remediationNow() time.Time { return time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC) }

// ailing is a marked Machine of a slot, which was created that many minutes after the first one.
func ailing(name string, slot int64, change ...func(*scale.Machine)) scale.Machine {
	created := remediationNow().Add(time.Duration(slot)*time.Minute - time.Hour)
	m := scale.Machine{Name: name, UID: types.UID(name), Slot: slot, Ailing: true, Created: created}
	for _, do := range change {
		do(&m)
	}
	return m
}

func inDeletion(m *scale.Machine) { m.Deleting = true }
func isAvailable(m *scale.Machine) {
	m.AvailableAt(remediationNow().Add(-time.Minute))
}
func isHealthy(m *scale.Machine) { m.Ailing = false }
func isPaused(m *scale.Machine)  { m.Paused = true }
func isFirst(m *scale.Machine)   { m.AskFirst() }
func isSaid(m *scale.Machine)    { m.SayRemediating() }

// shown is a decision in short: the Machines that go, and why the others wait.
func shown(r scale.Remediation) string {
	var parts []string
	for _, v := range r.Delete {
		parts = append(parts, "-"+v.Name)
	}
	for _, d := range r.Deferred {
		if d.Reason == "" {
			parts = append(parts, "+"+d.Name)
			continue
		}
		parts = append(parts, d.Name+": "+d.Reason+" "+strings.ReplaceAll(d.Message, "\n", " "))
	}
	return strings.Join(parts, "; ")
}

const tooMany = "RemediationDeferred Waiting because there are already too many remediations in progress (maxInFlight is 1)"

func TestWhichMarkedMachinesAreReplaced(t *testing.T) {
	t.Parallel()
	one := scale.RemediationLimits{MaxInFlight: new(1)}
	twice := scale.Replacements{From: 2, Count: 2, Last: remediationNow().Add(-time.Minute).Unix()}
	five := scale.Replacements{From: 2, Count: 5, Last: remediationNow().Add(-2 * time.Minute).Unix()}
	ahead := scale.Replacements{From: 2, Count: 2, Last: remediationNow().Add(5 * time.Hour).Unix()}
	for name, c := range map[string]struct {
		facts scale.RemediationFacts
		want  string
	}{
		"none is marked": {facts: scale.RemediationFacts{Machines: []scale.Machine{ailing("a", 1, isHealthy)}}},
		"all at once without a limit, the newest first": {
			facts: scale.RemediationFacts{Machines: []scale.Machine{ailing("a", 1), ailing("b", 2), ailing("c", 3)}}, want: "-c; -b; -a"},
		"one after the other": {
			facts: scale.RemediationFacts{Machines: []scale.Machine{ailing("a", 1), ailing("b", 2)}, Limits: one}, want: "-b; a: " + tooMany},
		"one that a person asks for comes first": {
			facts: scale.RemediationFacts{Machines: []scale.Machine{ailing("a", 1, isFirst), ailing("b", 2)}, Limits: one},
			want:  "-a; b: " + tooMany},
		"one is in deletion already": {
			facts: scale.RemediationFacts{Machines: []scale.Machine{ailing("a", 1), ailing("b", 2, inDeletion)}, Limits: one},
			want:  "a: " + tooMany},
		"one was recorded, and the cache does not show its deletion": {
			facts: scale.RemediationFacts{Machines: []scale.Machine{ailing("a", 1), ailing("b", 2)}, Limits: one,
				Replacements: scale.Replacements{Names: []string{"a"}, From: 3, Count: 1, Last: remediationNow().Unix()}},
			want: "-a; b: " + tooMany},
		"one says that it is being deleted": {
			facts: scale.RemediationFacts{Machines: []scale.Machine{ailing("a", 1, isSaid), ailing("b", 2)}, Limits: one},
			want:  "-a; b: " + tooMany},
		"a maximum of 0 replaces none": {
			facts: scale.RemediationFacts{Machines: []scale.Machine{ailing("a", 1)}, Limits: scale.RemediationLimits{MaxInFlight: new(0)}},
			want:  "a: " + strings.Replace(tooMany, "is 1", "is 0", 1)},
		"the set is outdated": {
			facts: scale.RemediationFacts{Machines: []scale.Machine{ailing("a", 1)}, Limits: scale.RemediationLimits{Outdated: true}},
			want:  "a: CannotBeRemediated Machine won't be remediated because it is pending removal due to rollout"},
		"the set is held": {
			facts: scale.RemediationFacts{Machines: []scale.Machine{ailing("a", 1, isSaid)}, Holds: []string{"b", "a"}},
			want:  "a: RemediationDeferred Waiting because the Machine would not be replaced: * a * b"},
		"an available one waits for others": {
			facts: scale.RemediationFacts{MinAvailable: contract.Some(2),
				Machines: []scale.Machine{ailing("a", 1, isAvailable), ailing("b", 2, isAvailable, isHealthy), ailing("c", 3)}},
			want: "-c; a: RemediationDeferred Waiting because it counts as available, and at least 2 available Machines must stay"},
		"an available one may go": {
			facts: scale.RemediationFacts{MinAvailable: contract.Some(1),
				Machines: []scale.Machine{ailing("a", 1, isAvailable), ailing("b", 2, isAvailable)}},
			want: "-b; a: RemediationDeferred Waiting because it counts as available, and at least 1 available Machines must stay"},
		"a new one waits for the back-off": {
			facts: scale.RemediationFacts{Machines: []scale.Machine{ailing("a", 1), ailing("b", 2)}, Limits: one, Replacements: twice},
			want: "-a; b: RemediationDeferred Waiting until 2026-03-01T12:01:00Z: Machines of the set were replaced 2 times without a new one " +
				"that stayed healthy"},
		"the back-off was recorded by a clock that was hours ahead": {
			facts: scale.RemediationFacts{Machines: []scale.Machine{ailing("b", 2)}, Replacements: ahead}, want: "-b"},
		"the back-off grows": {
			facts: scale.RemediationFacts{Machines: []scale.Machine{ailing("b", 2)}, Replacements: five},
			want: "b: RemediationDeferred Waiting until 2026-03-01T12:14:00Z: Machines of the set were replaced 5 times without a new one " +
				"that stayed healthy"},
		"one of before the first replacement does not wait": {
			facts: scale.RemediationFacts{Machines: []scale.Machine{ailing("a", 1)}, Replacements: five}, want: "-a"},
		"one that was adopted does not wait": {
			facts: scale.RemediationFacts{Machines: []scale.Machine{ailing("a", 0)}, Replacements: five}, want: "-a"},
		"a paused one is not replaced, and its place is free": {
			facts: scale.RemediationFacts{Machines: []scale.Machine{ailing("a", 1, isSaid, isPaused), ailing("b", 2)}, Limits: one},
			want:  "-b; a: RemediationDeferred Waiting because the Machine is paused"},
		"a paused one counts as available while it is": {
			facts: scale.RemediationFacts{MinAvailable: contract.Some(1),
				Machines: []scale.Machine{ailing("a", 1, isSaid, isAvailable, isPaused), ailing("b", 2, isAvailable)}},
			want: "-b; a: RemediationDeferred Waiting because the Machine is paused"},
		"one has recovered": {
			facts: scale.RemediationFacts{Machines: []scale.Machine{ailing("a", 1, isHealthy, (*scale.Machine).SayRecovered)}},
			want:  "+a"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c.facts.Now, c.facts.Next = remediationNow(), 9
			require.Equal(t, c.want, shown(scale.Remediate(c.facts)))
		})
	}
}

func TestReplacementsAreCountedUntilANewMachineStaysHealthy(t *testing.T) {
	t.Parallel()
	now := remediationNow()
	last := now.Add(-2 * time.Hour)
	record := scale.Replacements{Names: []string{"a"}, From: 5, Count: 3, Last: last.Unix()}
	bare := scale.Replacements{From: 5, Count: 3, Last: last.Unix()}
	made := func(at time.Time) func(*scale.Machine) { return func(m *scale.Machine) { m.Created = at } }
	up := func(since time.Duration) func(*scale.Machine) {
		return func(m *scale.Machine) { m.Ailing = false; m.AvailableAt(now.Add(-since)) }
	}
	week := last.Add(24 * time.Hour)
	for name, c := range map[string]struct {
		record   scale.Replacements
		late     time.Duration
		machines []scale.Machine
		want     scale.Replacements
		wake     time.Time
	}{
		"the next Machine is marked": {record: record, machines: []scale.Machine{ailing("b", 5)},
			want: scale.Replacements{Names: []string{"b"}, From: 5, Count: 4, Last: now.Unix()}, wake: week},
		"two new ones are marked": {record: record, machines: []scale.Machine{ailing("b", 5), ailing("c", 6)},
			want: scale.Replacements{Names: []string{"b", "c"}, From: 5, Count: 4, Last: now.Unix()}, wake: week},
		"one of before is marked": {record: record, machines: []scale.Machine{ailing("b", 4)},
			want: scale.Replacements{Names: []string{"b"}, From: 5, Count: 3, Last: last.Unix()}, wake: week},
		"the first one is marked": {machines: []scale.Machine{ailing("b", 4)},
			want: scale.Replacements{Names: []string{"b"}, From: 9, Count: 1, Last: now.Unix()}},
		"nothing happens, and what is gone is forgotten": {record: record, want: bare, wake: week},
		"the next Machine is available, not for long": {record: bare, machines: []scale.Machine{ailing("b", 5, made(last), up(time.Minute))},
			want: bare, wake: now.Add(59 * time.Minute)},
		"the next Machine has been available for long": {record: bare, machines: []scale.Machine{ailing("b", 5, made(last), up(time.Hour))}},
		"one that was made before the last replacement has": {record: bare,
			machines: []scale.Machine{ailing("b", 5, made(last.Add(-time.Second)), up(time.Hour))}, want: bare, wake: week},
		"one of before the first replacement has": {record: bare, machines: []scale.Machine{ailing("b", 4, made(last), up(time.Hour))},
			want: bare, wake: week},
		"the last was long ago": {record: record, late: 22 * time.Hour},
		"the last was long ago, and its Machine is still there": {record: record, late: 22 * time.Hour,
			machines: []scale.Machine{ailing("a", 4, inDeletion)}, want: scale.Replacements{Names: []string{"a"}}},
		"the Machine that was to go has recovered": {record: record, machines: []scale.Machine{ailing("a", 4, isHealthy)}, want: bare,
			wake: week},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := scale.Remediate(scale.RemediationFacts{Machines: c.machines, Replacements: c.record, Next: 9, Now: now.Add(c.late)})
			if diff := cmp.Diff(c.want, got.Replacements); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			require.Equal(t, c.wake, got.Wake)
		})
	}
}

func TestTheBackOffDoublesUpToItsMaximum(t *testing.T) {
	t.Parallel()
	for count, minutes := range map[int]int{1: 1, 2: 2, 3: 4, 4: 8, 10: 512, 11: 1024, 12: 1440, 1000: 1440} {
		record := scale.Replacements{From: 1, Count: count, Last: remediationNow().Unix()}
		d := scale.Remediate(scale.RemediationFacts{Machines: []scale.Machine{ailing("b", 1)}, Replacements: record, Now: remediationNow()})
		require.Equal(t, time.Duration(minutes)*time.Minute, d.Wake.Sub(remediationNow()), "%d", count)
	}
}

func TestNoMoreMachinesAreReplacedThanTheRecordHolds(t *testing.T) {
	t.Parallel()
	var machines []scale.Machine
	for i := range int64(2000) {
		machines = append(machines, ailing(fmt.Sprintf("%063d", i), i))
	}
	d := scale.Remediate(scale.RemediationFacts{Machines: machines, Now: remediationNow(), Next: 3000})
	require.Len(t, d.Delete, 500)
	require.Equal(t, "Waiting because 500 other Machines are being replaced", d.Deferred[0].Message)
	require.Less(t, len(scale.Ledger{Next: 1, Replaced: d.Replacements}.String()), 64<<10)
}

func TestReplacementsAndLimitsAreReadAsTheyWereWritten(t *testing.T) {
	t.Parallel()
	ledger := scale.Ledger{Set: "set", Next: 9,
		Replaced: scale.Replacements{Names: []string{"a", "b"}, From: 7, Count: 2, Last: remediationNow().Unix()}}
	got, err := scale.ParseLedger(ledger.String())
	require.NoError(t, err)
	require.Equal(t, ledger, got)
	require.Equal(t, ledger.Replaced, ledger.Abandon(1).Settle(nil).Replaced)
	require.JSONEq(t, `{"uid":"set","next":9}`, scale.Ledger{Set: "set", Next: 9}.String())
	for _, broken := range []string{"?", `{"from":0,"count":1}`, `{"from":1}`, `{"from":-1,"count":-1}`, `[]`} {
		_, err := scale.ParseLedger(`{"uid":"set","next":9,"replaced":` + broken + `}`)
		require.ErrorIs(t, err, scale.ErrLedger, broken)
	}

	with := func(limits string) *contract.Metadata {
		return &contract.Metadata{Annotations: map[string]string{scale.LimitsAnnotation: limits}}
	}
	for _, l := range []scale.RemediationLimits{
		{}, {Outdated: true}, {MaxInFlight: new(0)}, {MaxInFlight: new(2), MaxUnavailable: 3}, {Elsewhere: true},
	} {
		got, err := scale.LimitsOf(with(l.String()), true)
		require.NoError(t, err)
		require.Equal(t, l, got)
	}
	for _, broken := range []string{"", "max", `{"maxInFlight":"x"}`, `{"maxInFlight":1.5}`, `{"max":1}`, "[]"} {
		_, err := scale.LimitsOf(with(broken), true)
		require.Error(t, err, broken)
	}
	limits, err := scale.LimitsOf(&contract.Metadata{}, true)
	require.NoError(t, err)
	require.Equal(t, scale.RemediationLimits{MaxInFlight: new(1)}, limits, "what is unknown is not unlimited")
	limits, err = scale.LimitsOf(&contract.Metadata{}, false)
	require.NoError(t, err)
	require.Equal(t, scale.RemediationLimits{}, limits)
}
