package machine

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"github.com/machinist-dev/machinist/contract"
)

func TestHooksAreWaitedForUntilTheyAreGoneOrTheirTimeIsUp(t *testing.T) {
	now, hooks := time.Unix(1000, 0), []string{"a"}
	for name, tc := range map[string]struct {
		facts hookFacts
		want  hookAction
	}{
		"none":                            {hookFacts{}, hooksDone},
		"none any more":                   {hookFacts{Started: now.Add(-time.Hour), Limit: time.Minute}, hooksDone},
		"the first look":                  {hookFacts{Hooks: hooks, Limit: time.Minute}, hooksBegin},
		"no limit":                        {hookFacts{Hooks: hooks, Started: now.Add(-time.Hour)}, hooksWait},
		"within the limit":                {hookFacts{Hooks: hooks, Started: now.Add(-59 * time.Second), Limit: time.Minute}, hooksWait},
		"the limit is reached":            {hookFacts{Hooks: hooks, Started: now.Add(-time.Minute), Limit: time.Minute}, hooksOverdue},
		"another hook, after the limit":   {hookFacts{Hooks: []string{"b"}, Started: now.Add(-time.Hour), Limit: time.Minute}, hooksOverdue},
		"a negative limit is no limit":    {hookFacts{Hooks: hooks, Started: now.Add(-time.Hour), Limit: -1}, hooksWait},
		"a start that is yet to come":     {hookFacts{Hooks: hooks, Started: now.Add(time.Hour), Limit: time.Minute}, hooksWait},
		"the limit counts from its start": {hookFacts{Hooks: hooks, Started: now.Add(-time.Second), Limit: time.Second}, hooksOverdue},
	} {
		t.Run(name, func(t *testing.T) {
			tc.facts.Now = now
			if got := decideHooks(tc.facts); got != tc.want {
				t.Errorf("want %d, got %d", tc.want, got)
			}
		})
	}
}

func TestAMessageNamesHooksInOrderAndNotTooMany(t *testing.T) {
	annotations := map[string]string{"other": ""}
	for _, name := range []string{"k", "b", "a", "c", "d", "e", "f", "g", "h", "i", "l", "j"} {
		annotations[contract.PreDrainHook+"/"+name] = ""
	}
	hooks := hooksOf(annotations, contract.PreDrainHook)
	require.Len(t, hooks, 12)
	p := contract.PreDrainHook
	want := "Waiting for pre-drain hooks to succeed (hooks: " + p + "/a," + p + "/b)"
	if diff := cmp.Diff(want, waitingForHooks("pre-drain", hooks[:2])); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	require.Contains(t, waitingForHooks("pre-drain", hooks), p+"/j,... (2 more))")
}
