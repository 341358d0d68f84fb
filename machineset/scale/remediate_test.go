package scale_test

import (
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
	m.Available, m.AvailableSince = true, remediationNow().Add(-time.Minute)
}
func isHealthy(m *scale.Machine) { m.Ailing = false }
func isFirst(m *scale.Machine)   { m.RemediateFirst = true }
func isSaid(m *scale.Machine)    { m.Remediating = true }

// shown is a decision in short: the Machines that go, and why the others wait.
func shown(r scale.Remediation) string {
	var parts []string
	for _, v := range r.Delete {
		parts = append(parts, "-"+v.Name)
	}
	for _, d := range r.Deferred {
		parts = append(parts, d.Name+": "+d.Reason+" "+strings.ReplaceAll(d.Message, "\n", " "))
	}
	for _, v := range r.Recovered {
		parts = append(parts, "+"+v.Name)
	}
	return strings.Join(parts, "; ")
}

const tooMany = "RemediationDeferred Waiting because there are already too many remediations in progress (maxInFlight is 1)"

func TestWhichMarkedMachinesAreReplaced(t *testing.T) {
	t.Parallel()
	one := scale.RemediationLimits{MaxInFlight: contract.Some(1)}
	twice := scale.Line{Of: "x", From: 2, Count: 2, Last: remediationNow().Add(-time.Minute)}
	five := scale.Line{Of: "x", From: 2, Count: 5, Last: remediationNow().Add(-2 * time.Hour)}
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
				Lines: []scale.Line{{Of: "a", From: 3, Count: 1, Last: remediationNow()}}},
			want: "-a; b: " + tooMany},
		"one says that it is being deleted": {
			facts: scale.RemediationFacts{Machines: []scale.Machine{ailing("a", 1, isSaid), ailing("b", 2)}, Limits: one},
			want:  "-a; b: " + tooMany},
		"a maximum of 0 replaces none": {
			facts: scale.RemediationFacts{Machines: []scale.Machine{ailing("a", 1)}, Limits: scale.RemediationLimits{MaxInFlight: contract.Some(0)}},
			want:  "a: " + strings.Replace(tooMany, "is 1", "is 0", 1)},
		"the set is outdated": {
			facts: scale.RemediationFacts{Machines: []scale.Machine{ailing("a", 1)}, Limits: scale.RemediationLimits{Outdated: true}},
			want:  "a: CannotBeRemediated Machine won't be remediated because it is pending removal due to rollout"},
		"the set is held": {
			facts: scale.RemediationFacts{Machines: []scale.Machine{ailing("a", 1, isSaid)}, Holds: []scale.Hold{{"B", "b"}, {"A", "a"}}},
			want:  "a: RemediationDeferred Waiting because the Machine would not be replaced: * a * b"},
		"an available one waits for others": {
			facts: scale.RemediationFacts{MinAvailable: contract.Some(2),
				Machines: []scale.Machine{ailing("a", 1, isAvailable), ailing("b", 2, isAvailable, isHealthy), ailing("c", 3)}},
			want: "-c; a: RemediationDeferred Waiting because it counts as available, and at least 2 available Machines must stay"},
		"an available one may go": {
			facts: scale.RemediationFacts{MinAvailable: contract.Some(1),
				Machines: []scale.Machine{ailing("a", 1, isAvailable), ailing("b", 2, isAvailable)}},
			want: "-b; a: RemediationDeferred Waiting because it counts as available, and at least 1 available Machines must stay"},
		"the line waits for its back-off": {
			facts: scale.RemediationFacts{Machines: []scale.Machine{ailing("a", 1), ailing("b", 2)}, Limits: one, Lines: []scale.Line{twice}},
			want: "-a; b: RemediationDeferred Waiting until 2026-03-01T12:01:00Z: the Machines in its place were replaced 2 times without one " +
				"that stayed healthy (back-off)"},
		"the line was replaced by a clock that was hours ahead": {
			facts: scale.RemediationFacts{Machines: []scale.Machine{ailing("b", 2)},
				Lines: []scale.Line{{Of: twice.Of, From: twice.From, Count: 2, Last: twice.Last.Add(5 * time.Hour)}}}, want: "-b"},
		"the line was replaced too often": {
			facts: scale.RemediationFacts{Machines: []scale.Machine{ailing("b", 2)}, Lines: []scale.Line{five}},
			want: "b: RemediationDeferred Waiting until 2026-03-02T10:00:00Z: the Machines in its place were replaced 5 times without one " +
				"that stayed healthy (limit)"},
		"without a limit only the back-off counts": {
			facts: scale.RemediationFacts{Machines: []scale.Machine{ailing("b", 2)}, Lines: []scale.Line{five},
				RemediationPolicy: scale.RemediationPolicy{MaxReplacements: contract.Some(0)}}, want: "-b"},
		"without a back-off only the limit counts": {
			facts: scale.RemediationFacts{Machines: []scale.Machine{ailing("b", 2)}, Lines: []scale.Line{twice},
				RemediationPolicy: scale.RemediationPolicy{BackOff: contract.Some(time.Duration(0))}}, want: "-b"},
		"a Machine of another line does not wait": {
			facts: scale.RemediationFacts{Machines: []scale.Machine{ailing("a", 1)}, Lines: []scale.Line{five}}, want: "-a"},
		"one has recovered": {
			facts: scale.RemediationFacts{Machines: []scale.Machine{ailing("a", 1, isHealthy, func(m *scale.Machine) { m.Recovered = true })}},
			want:  "+a"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c.facts.Now, c.facts.Next = remediationNow(), 9
			require.Equal(t, c.want, shown(scale.Remediate(c.facts)))
		})
	}
}

func TestALineIsCountedUntilAMachineOfItStaysHealthy(t *testing.T) {
	t.Parallel()
	last := remediationNow().Add(-30 * time.Minute)
	line := scale.Line{Of: "a", From: 5, Count: 3, Last: last}
	decide := func(change func(*scale.RemediationFacts), machines ...scale.Machine) scale.Remediation {
		f := scale.RemediationFacts{Machines: machines, Lines: []scale.Line{line}, Next: 9, Now: remediationNow()}
		if change != nil {
			change(&f)
		}
		return scale.Remediate(f)
	}
	for name, c := range map[string]struct {
		got  scale.Remediation
		want []scale.Line
		wake time.Time
	}{
		"its next Machine is marked": {
			got:  decide(nil, ailing("b", 5)),
			want: []scale.Line{{Of: "b", From: 9, Count: 4, Last: remediationNow()}}, wake: last.Add(24 * time.Hour),
		},
		"another Machine is marked": {
			got:  decide(nil, ailing("b", 4)),
			want: []scale.Line{line, {Of: "b", From: 9, Count: 1, Last: remediationNow()}}, wake: last.Add(24 * time.Hour),
		},
		"its next Machine is available, not for long": {
			got:  decide(nil, ailing("b", 5, isHealthy, isAvailable)),
			want: []scale.Line{line}, wake: remediationNow().Add(59 * time.Minute),
		},
		"its next Machine has been available for long": {
			got: decide(func(f *scale.RemediationFacts) { f.HealthyAfter = time.Minute }, ailing("b", 5, isHealthy, isAvailable)),
		},
		"it was replaced long ago": {
			got: decide(func(f *scale.RemediationFacts) { f.Window = 30 * time.Minute }),
		},
		"it was replaced long ago, and its Machine is still there": {
			got: decide(func(f *scale.RemediationFacts) { f.Window = 30 * time.Minute }, ailing("a", 4, inDeletion)), want: []scale.Line{line},
		},
		"the Machine that was to go has recovered": {
			got:  decide(nil, ailing("a", 4, isHealthy)),
			want: []scale.Line{{From: 4, Count: 3, Last: last}}, wake: last.Add(24 * time.Hour),
		},
		"one that was adopted and was to go has recovered": {got: decide(nil, ailing("a", 0, isHealthy))},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(c.want, c.got.Lines); diff != "" {
				t.Errorf("lines (-want +got):\n%s", diff)
			}
			require.Equal(t, c.wake, c.got.Wake)
		})
	}
}

func TestTheBackOffDoublesUpToItsMaximum(t *testing.T) {
	t.Parallel()
	var waits []time.Duration
	for count := 1; count <= 8; count++ {
		line := scale.Line{Of: "a", From: 1, Count: count, Last: remediationNow()}
		d := scale.Remediate(scale.RemediationFacts{Machines: []scale.Machine{ailing("b", 1)}, Lines: []scale.Line{line}, Now: remediationNow(),
			RemediationPolicy: scale.RemediationPolicy{MaxReplacements: contract.Some(0)}})
		waits = append(waits, d.Wake.Sub(remediationNow()))
	}
	minutes := []int{1, 2, 4, 8, 16, 32, 60, 60}
	for i, n := range minutes {
		require.Equal(t, time.Duration(n)*time.Minute, waits[i])
	}
}

func TestLinesAndLimitsAreReadAsTheyWereWritten(t *testing.T) {
	t.Parallel()
	lines := []scale.Line{{Of: "b", From: 7, Count: 2, Last: remediationNow()}, {From: 3, Count: 1, Last: remediationNow().Add(time.Hour)}}
	text := scale.LinesText("set", lines)
	got, err := scale.ParseLines(text, "set")
	require.NoError(t, err)
	require.Equal(t, []scale.Line{lines[1], lines[0]}, got)
	require.Equal(t, text, scale.LinesText("set", got))
	other, err := scale.ParseLines(text, "another set, which was restored")
	require.NoError(t, err)
	require.Empty(t, other)
	require.Empty(t, scale.LinesText("set", nil))
	for _, broken := range []string{"?", `{"set":"set","lines":[{"from":0,"n":1}]}`, `{"set":"set","lines":[{"from":1,"n":0}]}`, `[]`} {
		_, err := scale.ParseLines(broken, "set")
		require.ErrorIs(t, err, scale.ErrLines, broken)
	}
	var many []scale.Line
	for i := range 2000 {
		many = append(many, scale.Line{Of: strings.Repeat("m", 63), From: int64(i + 1), Count: 1 + i%3, Last: remediationNow()})
	}
	text = scale.LinesText("set", many)
	require.Less(t, len(text), 64<<10)
	got, err = scale.ParseLines(text, "set")
	require.NoError(t, err)
	for _, l := range got {
		require.Equal(t, 3, l.Count, "those that were replaced most are kept")
	}

	for _, l := range []scale.RemediationLimits{
		{}, {Outdated: true}, {MaxInFlight: contract.Some(0)}, {MaxInFlight: contract.Some(2), MaxUnavailable: 3},
	} {
		got, err := scale.ParseLimits(l.String())
		require.NoError(t, err)
		require.Equal(t, l, got)
	}
	for _, broken := range []string{"", "max-in-flight", "max-in-flight=x", "max-in-flight=-1", "max=1"} {
		_, err := scale.ParseLimits(broken)
		require.Error(t, err, broken)
	}
	limits, err := scale.LimitsOf(&contract.Metadata{}, true)
	require.NoError(t, err)
	require.Equal(t, scale.RemediationLimits{MaxInFlight: contract.Some(1)}, limits, "what is unknown is not unlimited")
	limits, err = scale.LimitsOf(&contract.Metadata{}, false)
	require.NoError(t, err)
	require.Equal(t, scale.RemediationLimits{}, limits)
}
