package scale_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

	"github.com/machinist-dev/machinist/machineset/scale"
)

func TestASetWithoutALedgerThatHadMachinesBeginsNoNewOne(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		facts scale.RecoveryFacts
		want  scale.Recovery
	}{
		"it is new":                                       {scale.RecoveryFacts{}, scale.Begin},
		"its ledger was taken away":                       {scale.RecoveryFacts{Own: 2, Had: true}, scale.Rebuild},
		"another program has led it":                      {scale.RecoveryFacts{Own: 2}, scale.Rebuild},
		"it was moved with its Machines":                  {scale.RecoveryFacts{Foreign: true, Own: 2}, scale.Rebuild},
		"it was restored before its Machines":             {scale.RecoveryFacts{Foreign: true}, scale.Restore},
		"it was restored with its status":                 {scale.RecoveryFacts{Foreign: true, Had: true}, scale.Restore},
		"its ledger and all its Machines were taken away": {scale.RecoveryFacts{Had: true}, scale.Restore},
	} {
		require.Equal(t, tc.want, scale.Recover(tc.facts), name)
	}
}

func TestARestoreIsOverWhenAllAreThereOrAPersonSaysSo(t *testing.T) {
	t.Parallel()
	waits := scale.Ledger{Restoring: true}
	for name, tc := range map[string]struct {
		ledger            scale.Ledger
		machines, desired int
		said, want        bool
	}{
		"some are there":   {waits, 1, 2, false, false},
		"all are there":    {waits, 2, 2, false, true},
		"more are there":   {waits, 3, 2, false, true},
		"none is wanted":   {waits, 0, 0, false, true},
		"a person says so": {waits, 0, 2, true, true},
		"nothing was":      {scale.NewLedger(), 2, 2, true, false},
	} {
		require.Equal(t, tc.want, tc.ledger.RestoreIsOver(tc.machines, tc.desired, tc.said), name)
	}
}

func TestARebuiltLedgerBeginsBehindAllThatCanHaveBeenTaken(t *testing.T) {
	t.Parallel()
	ledger := scale.Rebuilt("set", 7)
	require.Greater(t, ledger.Next, int64(1<<19))
	require.True(t, ledger.IsOf("set"))
	require.False(t, ledger.IsOf("other"))
	read, err := scale.ParseLedger(ledger.String())
	require.NoError(t, err)
	require.Equal(t, ledger, read)
	ledger.Restoring = true
	read, err = scale.ParseLedger(ledger.String())
	require.NoError(t, err)
	require.True(t, read.Restoring)
}

func TestWhatACacheShows(t *testing.T) {
	t.Parallel()
	live := []scale.Live{{Name: "c", UID: "3", ResourceVersion: "30"}, {Name: "a", UID: "1", ResourceVersion: "10"},
		{Name: "b", UID: "2", ResourceVersion: "20"}}
	all := map[string]types.UID{"a": "1", "b": "2", "c": "3"}
	some := map[string]types.UID{"c": "3"}
	for name, tc := range map[string]struct {
		facts   scale.CacheFacts
		want    scale.Cached
		missing []string
	}{
		"nothing is there": {scale.CacheFacts{Seen: "5"}, scale.ShowsAll, nil},
		"all":              {scale.CacheFacts{Live: live, Shown: all}, scale.ShowsAll, nil},
		"also one that is gone": {scale.CacheFacts{Live: live[:1], Shown: all, Seen: "99", Since: time.Hour}, scale.ShowsAll,
			nil},
		"it has yet to see two":   {scale.CacheFacts{Live: live, Shown: some, Seen: "9"}, scale.Behind, []string{"a", "b"}},
		"it has seen one of them": {scale.CacheFacts{Live: live, Shown: some, Seen: "10"}, scale.LeavesOut, []string{"a"}},
		"it has seen both":        {scale.CacheFacts{Live: live, Shown: some, Seen: "20"}, scale.LeavesOut, []string{"a", "b"}},
		"it cannot say": {scale.CacheFacts{Live: live, Shown: some, Since: scale.CacheLimit - 1}, scale.Behind,
			[]string{"a", "b"}},
		"it cannot say for long": {scale.CacheFacts{Live: live, Shown: some, Since: scale.CacheLimit}, scale.LeavesOut,
			[]string{"a", "b"}},
		"versions that cannot be compared": {scale.CacheFacts{Live: live, Shown: some, Seen: "x"}, scale.Behind, []string{"a", "b"}},
		"another one of the name, from before": {scale.CacheFacts{Live: live[1:2], Shown: map[string]types.UID{"a": "0"}, Seen: "9"},
			scale.Behind, []string{"a"}},
		"another one of the name, although it saw": {scale.CacheFacts{Live: live[1:2], Shown: map[string]types.UID{"a": "0"}, Seen: "11"},
			scale.LeavesOut, []string{"a"}},
	} {
		got, missing := scale.Compare(tc.facts)
		require.Equal(t, tc.want, got, name)
		require.Equal(t, tc.missing, missing, name)
	}
}
