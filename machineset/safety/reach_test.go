package safety_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/machinist-dev/machinist/machineset/safety"
)

const tolerance = 30 * time.Second

func TestAServerThatDoesNotAnswerForTheToleranceFreezes(t *testing.T) {
	t.Parallel()
	var r safety.Reach
	require.Equal(t, time.Second, r.Next(time.Minute, tolerance), "it has not answered yet")
	require.Equal(t, 6*time.Second, r.Observe(false, noon, 0).Next(time.Minute, tolerance), "it has not for long")
	r = r.Observe(true, noon, tolerance)
	require.Equal(t, safety.Reach{Answered: true, ThawedAt: noon}, r)
	require.Equal(t, time.Minute, r.Next(time.Minute, tolerance))
	r = r.Observe(false, noon.Add(time.Minute), tolerance)
	require.False(t, r.IsFrozen())
	require.Equal(t, 6*time.Second, r.Next(time.Minute, tolerance))
	r = r.Observe(false, noon.Add(time.Minute+29*time.Second), tolerance)
	require.False(t, r.IsFrozen())
	short := r.Observe(true, noon.Add(time.Minute+29*time.Second), tolerance)
	require.Equal(t, noon, short.ThawedAt, "a short outage starts no timer anew")
	r = r.Observe(false, noon.Add(time.Minute+30*time.Second), tolerance)
	require.True(t, r.IsFrozen())
	require.Equal(t, noon.Add(time.Minute+30*time.Second), r.FrozenSince)
	require.Equal(t, r, r.Observe(false, noon.Add(time.Hour), tolerance))
	r = r.Observe(true, noon.Add(2*time.Hour), tolerance)
	require.Equal(t, safety.Reach{Answered: true, ThawedAt: noon.Add(2 * time.Hour)}, r)
}

// An outage that is longer than the health timeout: Gardener makes every Unknown Machine Running at its end.
func TestAnOutageLongerThanTheHealthTimeoutStartsTheTimersAnew(t *testing.T) {
	t.Parallel()
	const timeout = 10 * time.Minute
	unknownSince := noon.Add(time.Minute)
	r := safety.Reach{}.Observe(true, noon, tolerance)
	r = r.Observe(false, unknownSince, tolerance).Observe(false, noon.Add(2*time.Minute), tolerance)
	require.True(t, r.IsFrozen())
	back := noon.Add(time.Hour)
	r = r.Observe(true, back, tolerance)
	require.Equal(t, back, r.Timer(unknownSince))
	require.True(t, back.Before(r.Timer(unknownSince).Add(timeout)), "not one of them is due when the server is back")
	later := back.Add(time.Minute)
	require.Equal(t, later, r.Timer(later), "what fails afterwards counts from then on")
}

func TestAProcessThatStartsDuringAnOutageStartsTheTimersAnewToo(t *testing.T) {
	t.Parallel()
	r := safety.Reach{}.Observe(false, noon, tolerance).Observe(false, noon.Add(time.Minute), tolerance)
	require.True(t, r.IsFrozen())
	require.Equal(t, noon.Add(time.Hour), r.Observe(true, noon.Add(time.Hour), tolerance).Timer(noon))
}

func TestAClockThatIsSetBackBeginsAnew(t *testing.T) {
	t.Parallel()
	r := safety.Reach{}.Observe(true, noon, tolerance).Observe(false, noon.Add(time.Hour), tolerance).Observe(false, noon, tolerance)
	require.False(t, r.IsFrozen())
	require.True(t, r.Observe(false, noon.Add(tolerance), tolerance).IsFrozen())
}

func TestWhatDependsOnTwoServersIsFrozenWithOneOfThem(t *testing.T) {
	t.Parallel()
	up := safety.Reach{Answered: true, ThawedAt: noon}
	down := safety.Reach{Answered: true, DownSince: noon.Add(time.Minute), FrozenSince: noon.Add(2 * time.Minute),
		ThawedAt: noon.Add(-time.Hour)}
	for _, both := range []safety.Reach{safety.Both(up, down), safety.Both(down, up)} {
		require.True(t, both.IsFrozen())
		require.Equal(t, noon, both.ThawedAt, "the later one")
	}
	require.False(t, safety.Both(up, up).IsFrozen())
	require.False(t, safety.Both(up, safety.Reach{}).Answered)
}

// Gardener issue 760: fifty Machines of one zone become Unknown at once.
func TestFiftyUnknownMachinesInOneZoneReplaceNothing(t *testing.T) {
	t.Parallel()
	o := safety.FindOutages([]safety.Domain{{"a", 50, 50}, {"b", 50, 1}, {"c", 50, 0}}, safety.OutageLimits{})
	require.Equal(t, safety.Outages{Down: []string{"a"}}, o)
	require.True(t, o.Spares("a"))
	require.False(t, o.Spares("b"), "one that fails by itself is replaced")
}

func TestMachinesThatFailOneByOneAreNoOutage(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		domains []safety.Domain
		limits  safety.OutageLimits
		want    safety.Outages
	}{
		"no Machine":             {nil, safety.OutageLimits{}, safety.Outages{}},
		"all of a domain of two": {[]safety.Domain{{"a", 2, 2}, {"b", 9, 0}}, safety.OutageLimits{}, safety.Outages{}},
		"half of a domain":       {[]safety.Domain{{"a", 10, 5}}, safety.OutageLimits{}, safety.Outages{}},
		"more than half": {[]safety.Domain{{"a", 10, 6}, {"b", 1, 0}}, safety.OutageLimits{},
			safety.Outages{Down: []string{"a"}}},
		"all domains": {[]safety.Domain{{"a", 10, 10}, {"b", 5, 4}, {"empty", 0, 0}}, safety.OutageLimits{},
			safety.Outages{Down: []string{"a", "b"}, Everywhere: true}},
		"the domain is not known": {[]safety.Domain{{"", 10, 10}}, safety.OutageLimits{},
			safety.Outages{Down: []string{""}, Everywhere: true}},
		"switched off": {[]safety.Domain{{"a", 10, 10}}, safety.OutageLimits{Share: 2}, safety.Outages{}},
		"the same domain twice": {[]safety.Domain{{"a", 2, 2}, {"b", 1, 0}, {"a", 2, 2}}, safety.OutageLimits{},
			safety.Outages{Down: []string{"a"}}},
		"numbers that cannot be": {[]safety.Domain{{"a", -1, 5}, {"b", 3, -7}}, safety.OutageLimits{},
			safety.Outages{Down: []string{"a"}}},
		"a limit of its own": {[]safety.Domain{{"a", 10, 2}, {"b", 1, 0}}, safety.OutageLimits{Share: .2, Least: 1},
			safety.Outages{Down: []string{"a"}}},
		"a domain with one beside": {[]safety.Domain{{"a", 9, 9}, {"b", 1, 1}}, safety.OutageLimits{},
			safety.Outages{Down: []string{"a"}}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tc.want, safety.FindOutages(tc.domains, tc.limits))
		})
	}
}
