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

// fleet returns Machines of one set: h is healthy, u unhealthy for an hour and more, each at another time, s a suspect, p starting, m
// unhealthy and marked, and d the same in deletion; x is not judged, and f neither, which was unhealthy before.
func fleet(states string) []healthcheck.Machine {
	var all []healthcheck.Machine
	for i, state := range states {
		m := healthcheck.Machine{
			Name: fmt.Sprintf("m%02d", i), UID: types.UID(fmt.Sprintf("u%02d", i)), Group: "deployment",
			Created: now.Add(-24 * time.Hour),
			Verdict: healthcheck.Verdict{Class: healthcheck.Healthy},
		}
		since := now.Add(-time.Duration(i+1) * time.Hour)
		switch state {
		case 'u', 'm', 'd':
			m.Verdict = healthcheck.Verdict{Class: healthcheck.Unhealthy, Reason: healthcheck.ReasonUnhealthyNode, Since: since}
			m.Marked, m.Deleting = state != 'u', state == 'd'
		case 's':
			m.Verdict = healthcheck.Verdict{Suspect: true, Since: since}
		case 'x', 'f':
			m.Verdict = healthcheck.Verdict{Reason: healthcheck.ReasonControlPlaneNotInitialized, Unjudged: true}
			m.Failed = state == 'f'
		case 'p':
			m.Created = now.Add(-time.Minute)
			m.Verdict = healthcheck.Verdict{Unstarted: true, Since: m.Created}
		}
		all = append(all, m)
	}
	return all
}

// limits are a maximum or a range.
func limits(text string) (contract.Opt[intstr.IntOrString], string) {
	if strings.HasPrefix(text, "[") {
		return contract.Opt[intstr.IntOrString]{}, text
	}
	return contract.Some(intstr.Parse(text)), ""
}

func limit(t *testing.T, text string) healthcheck.Limit {
	t.Helper()
	l, err := healthcheck.ParseLimit(limits(text))
	require.NoError(t, err)
	return l
}

func planned(t *testing.T, states, most string) healthcheck.PlanFacts {
	t.Helper()
	f := healthcheck.PlanFacts{Machines: fleet(states), Known: true, Now: now}
	f.MaxUnhealthy, f.UnhealthyRange = limits(most)
	return f
}

// acts are the outcomes in the order of the Machines.
func acts(d healthcheck.Decision) string {
	var all []string
	for _, o := range d.Outcomes {
		text := string(o.Action)
		if o.Action == healthcheck.ActionNone {
			text = "None"
		}
		if o.Reason != "" {
			text += "/" + o.Reason
		}
		all = append(all, text)
	}
	return strings.Join(all, " ")
}

// Rule: appendix A7 of the facts about Cluster API, and its tests of isAllowedRemediation.
func TestALimitCountsAsClusterAPIDoes(t *testing.T) {
	for _, tc := range []struct {
		most             string
		total, unhealthy int
		allowed          bool
		remaining        int
	}{
		{"40%", 5, 2, true, 0}, {"40%", 5, 3, false, 0}, {"60%", 7, 4, true, 0}, {"60%", 7, 5, false, 0}, {"40%", 25, 10, true, 0},
		{"40%", 6, 2, true, 0}, {"40%", 6, 3, false, 0}, {"100%", 5, 5, true, 0}, {"2", 5, 1, true, 1}, {"0", 5, 1, false, 0}, {"0", 5, 0, true,
			0},
		{"[3-5]", 10, 2, false, 0}, {"[3-5]", 10, 3, true, 2}, {"[3-5]", 10, 5, true, 0}, {"[3-5]", 10, 6, false, 0}, {"40%", 0, 0, true, 0},
	} {
		allowed, remaining := limit(t, tc.most).Allows(tc.total, tc.unhealthy)
		require.Equal(t, tc.allowed, allowed, "%+v", tc)
		require.Equal(t, tc.remaining, remaining, "%+v", tc)
	}
	byDefault, err := healthcheck.ParseLimit(contract.Opt[intstr.IntOrString]{}, "")
	require.NoError(t, err)
	allowed, _ := byDefault.Allows(3, 3)
	require.True(t, allowed, "the default is 100%")
	for _, wrong := range []string{"many", "5", "-5%", "%"} {
		_, err := healthcheck.ParseLimit(contract.Some(intstr.FromString(wrong)), "")
		require.ErrorIs(t, err, healthcheck.ErrLimit, wrong)
	}
	for _, wrong := range []string{"[5-3]", "3-5", "[3-", "[a-b]", "[3]", "[-1-3]", "[3-5]x", "[ 3-5]", "[3-5]\nx", "[3-2147483648]"} {
		_, err := healthcheck.ParseLimit(contract.Opt[intstr.IntOrString]{}, wrong)
		require.ErrorIs(t, err, healthcheck.ErrLimit, wrong)
	}
	_, err = healthcheck.ParseLimit(contract.Some(intstr.FromInt32(-1)), "")
	require.ErrorIs(t, err, healthcheck.ErrLimit)
}

func TestOutcomes(t *testing.T) {
	for name, tc := range map[string]struct {
		states, most string
		change       func(*healthcheck.PlanFacts)
		want         string
		allowed      bool
		reason       string
	}{
		"one of many":        {"huhhh", "40%", nil, "None Mark None None None", true, healthcheck.ReasonRemediationAllowed},
		"as many as allowed": {"uuhhh", "40%", nil, "Mark Mark None None None", true, healthcheck.ReasonRemediationAllowed},
		"more than allowed": {"uuuhh", "40%", nil, "Hold/TooManyUnhealthy Hold/TooManyUnhealthy Hold/TooManyUnhealthy None None", false,
			healthcheck.ReasonTooManyUnhealthy},
		"a suspect counts": {"uushh", "40%", nil, "Hold/TooManyUnhealthy Hold/TooManyUnhealthy None None None", false,
			healthcheck.ReasonTooManyUnhealthy},
		"a scale-up does not": {"uuhhhppppp", "20%", nil, "Mark Mark None None None None None None None None", true,
			healthcheck.ReasonRemediationAllowed},
		"a scale-up when the ledger was lost": {"uuhhhppppp", "20%", func(f *healthcheck.PlanFacts) { f.Known = false },
			"Hold/TooManyUnhealthy Hold/TooManyUnhealthy None None None None None None None None", false, healthcheck.ReasonTooManyUnhealthy},
		"a marked one waits": {"mhdhh", "40%", nil, "Wait None Wait None None", true, healthcheck.ReasonRemediationAllowed},
		"nothing replaces a Machine without an owner": {"uh", "50%", func(f *healthcheck.PlanFacts) { f.Machines[0].Group = "" },
			"Hold/NoOwner None", true, healthcheck.ReasonRemediationAllowed},
		"but an external remediation": {"uh", "50%", func(f *healthcheck.PlanFacts) { f.Machines[0].Group, f.External = "", true },
			"Mark None", true, healthcheck.ReasonRemediationAllowed},
		"a limit that cannot be read": {"uh", "50%", func(f *healthcheck.PlanFacts) { f.UnhealthyRange = "any" },
			"Hold/LimitUnreadable None", false, healthcheck.ReasonLimitUnreadable},
		"healthy again": {"mhh", "50%", func(f *healthcheck.PlanFacts) {
			f.Machines[0].Verdict = healthcheck.Verdict{Class: healthcheck.Healthy}
		},
			"Unmark None None", true, healthcheck.ReasonRemediationAllowed},
		"skipped ones do not count": {"uuh", "50%", func(f *healthcheck.PlanFacts) { f.Machines[0].Verdict.Skipped = true },
			"Mark None", true, healthcheck.ReasonRemediationAllowed},
		"no Machines": {"", "50%", nil, "", true, healthcheck.ReasonRemediationAllowed},
	} {
		t.Run(name, func(t *testing.T) {
			f := planned(t, tc.states, tc.most)
			if tc.change != nil {
				tc.change(&f)
			}
			got := healthcheck.Plan(f)
			require.Equal(t, tc.want, acts(got))
			require.Equal(t, tc.allowed, got.Allowed)
			require.Equal(t, tc.reason, got.Reason)
			for _, o := range got.Outcomes {
				require.Equal(t, o.Action == healthcheck.ActionHold, o.Message != "", "what happens is explained: %+v", o)
			}
			slices.Reverse(f.Machines)
			require.Empty(t, cmp.Diff(got, healthcheck.Plan(f)), "the order does not matter")
		})
	}
}

// zoned puts Machines into the domains that a text names, and has the unhealthy and suspicious ones fail within a minute.
func zoned(f healthcheck.PlanFacts, domains string) healthcheck.PlanFacts {
	for i := range f.Machines {
		m := &f.Machines[i]
		m.Domain = domains[i : i+1]
		if m.Verdict.Bad() {
			m.Verdict.Since = now.Add(-10*time.Minute - time.Duration(i)*time.Second)
		}
	}
	return f
}

func TestAnOutageReplacesNothing(t *testing.T) {
	held := func(n int) string { return strings.TrimSpace(strings.Repeat("Hold/Outage ", n)) }
	for name, tc := range map[string]struct {
		states, domains string
		change          func(*healthcheck.PlanFacts)
		want            string
		outages         []string
	}{
		"all Machines at once":      {"uuuu", "aabb", nil, held(4), []string{"All 4 Machines became unhealthy at once"}},
		"both of two":               {"uu", "ab", nil, held(2), []string{"All 2 Machines became unhealthy at once"}},
		"the only one is no outage": {"u", "a", nil, "Mark", nil},
		"all of a domain": {"uuhhhh", "aabbcc", nil, held(2) + " None None None None",
			[]string{"2 of 2 Machines of failure domain a became unhealthy at once"}},
		"most of a domain": {"uuhhhh", "aaabbb", nil, held(2) + " None None None None",
			[]string{"2 of 3 Machines of failure domain a became unhealthy at once"}},
		"half of a domain":            {"uhhhhh", "aabbcc", nil, "Mark None None None None None", nil},
		"one in each domain":          {"uhuhuh", "aabbcc", nil, "Mark None Mark None Mark None", nil},
		"the only one of each domain": {"uhh", "abc", nil, "Mark None None", nil},
		"two domains": {"uuuuhh", "aabbcc", nil, held(4) + " None None", []string{"2 of 2 Machines of failure domain a became unhealthy at once",
			"2 of 2 Machines of failure domain b became unhealthy at once"}},
		"the first of a domain whose others are suspects": {"usshhhhh", "aaabbbbb", nil, "Hold/Outage None None None None None None None",
			[]string{"3 of 3 Machines of failure domain a became unhealthy at once"}},
		"one beside an outage, long before": {"uuuhhhh", "aaabbbb",
			func(f *healthcheck.PlanFacts) { f.Machines[0].Verdict.Since = now.Add(-5 * time.Hour) },
			"Mark Hold/Outage Hold/Outage None None None None", []string{"2 of 3 Machines of failure domain a became unhealthy at once"}},
		"Nodes that are gone, nothing says since when": {"uuhh", "aabb", func(f *healthcheck.PlanFacts) {
			f.Machines[0].Verdict.Since, f.Machines[1].Verdict.Since = time.Time{}, time.Time{}
		}, held(2) + " None None", []string{"2 of 2 Machines of failure domain a became unhealthy at once"}},
		"Machines that are being deleted": {"ddduhhhh", "aaaaabbb", nil, "Wait Wait Wait Mark None None None None", nil},
		"unknown domains": {"uuhh", "aabb", func(f *healthcheck.PlanFacts) {
			for i := range f.Machines {
				f.Machines[i].Domain = ""
			}
		}, "Mark Mark None None", nil},
		"a person requests one nevertheless": {"uuuu", "aabb", func(f *healthcheck.PlanFacts) {
			f.Machines[1].Verdict.Reason = healthcheck.ReasonHasRemediateAnnotation
		}, "Hold/Outage Mark Hold/Outage Hold/Outage", []string{"All 3 Machines became unhealthy at once"}},
	} {
		t.Run(name, func(t *testing.T) {
			f := zoned(planned(t, tc.states, "100%"), tc.domains)
			if tc.change != nil {
				tc.change(&f)
			}
			got := healthcheck.Plan(f)
			require.Equal(t, tc.want, acts(got))
			require.Equal(t, tc.outages, healthcheck.Outages(f))
			if !strings.Contains(tc.want, "Mark") && tc.outages != nil {
				require.False(t, got.Allowed)
				require.Equal(t, healthcheck.ReasonOutage, got.Reason)
			}
		})
	}
}

func TestALedgerHasABoundedSize(t *testing.T) {
	f := planned(t, strings.Repeat("p", 600)+strings.Repeat("u", 600), "100%")
	f.Machines[999].Verdict.Reason = healthcheck.ReasonHasRemediateAnnotation // the last one by its name
	got := acts(healthcheck.Plan(f))
	require.Equal(t, 500, strings.Count(got, "Mark"), "also for what a person requests")
	require.Equal(t, 100, strings.Count(got, "Hold/RemediationInFlight"))
}

// mcm.md 2.4 and 9.4: the protection of Gardener's machine-controller-manager counts Machines of a whole deployment, and knows no zones.
func TestFiftyUnknownMachinesInOneZoneAreNotReplaced(t *testing.T) {
	f := zoned(planned(t, strings.Repeat("u", 50)+strings.Repeat("h", 100), "100%"), strings.Repeat("a", 50)+strings.Repeat("b",
		50)+strings.Repeat("c", 50))
	got := healthcheck.Plan(f)
	require.NotContains(t, acts(got), "Mark")
	require.Empty(t, got.Ledger.InFlight)
	require.Contains(t, got.Message, "50 of 50 Machines of failure domain a became unhealthy at once")
}

// The Nodes of a zone do not reach their timeouts in the same second: the first one is not to be replaced either.
func TestAZoneThatFailsOneSecondAfterAnotherIsNotReplaced(t *testing.T) {
	const timeout = 5 * time.Minute
	for second := range 20 {
		f := planned(t, strings.Repeat("h", 30), "100%")
		f.Now = now.Add(timeout + time.Duration(second)*time.Second)
		for i := range f.Machines {
			m := &f.Machines[i]
			if m.Domain = string("ab"[i%2]); m.Domain == "b" {
				continue
			}
			since := now.Add(time.Duration(i) * time.Second)
			m.Verdict = healthcheck.Verdict{Suspect: true, Since: since}
			if f.Now.Sub(since) > timeout {
				m.Verdict = healthcheck.Verdict{Class: healthcheck.Unhealthy, Since: since}
			}
		}
		require.NotContains(t, acts(healthcheck.Plan(f)), "Mark", "second %d", second)
	}
}

func TestMachinesThatCannotBeJudgedCountAsBefore(t *testing.T) {
	tests := map[string]struct {
		states, limit                 string
		healthy, unhealthy, remaining int
		allowed                       bool
		message                       string
	}{
		"none was judged":                 {"xx", "100%", 2, 0, 2, true, "2 of 2 Machines are not judged now, and count as before: Control"},
		"one was unhealthy":               {"xxf", "40%", 2, 1, 0, true, "3 of 3 Machines are not judged now"},
		"more were than the limit allows": {"xff", "40%", 1, 2, 0, false, "exceeds maxUnhealthy"},
		"one beside others":               {"hhx", "100%", 3, 0, 3, true, "1 of 3 Machines are not judged now"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			d := healthcheck.Plan(planned(t, test.states, test.limit))
			require.Equal(t, []int{test.healthy, test.unhealthy, test.remaining}, []int{d.Healthy, d.Unhealthy, d.Remaining})
			require.Equal(t, test.allowed, d.Allowed)
			require.Contains(t, d.Message, test.message)
			for _, o := range d.Outcomes {
				require.Equal(t, healthcheck.ActionNone, o.Action)
			}
		})
	}
}
