package children

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/internal/engine"
	"github.com/machinist-dev/machinist/machineset/scale"
)

func TestDecideLedger(t *testing.T) {
	t.Parallel()
	rebuilt, own := scale.Rebuilt("set", 3), scale.Ledger{Set: "set", Next: 4}
	replacing := rebuilt
	replacing.Replaced = scale.Replacements{Names: []string{"a"}, From: 1, Count: 1}
	for name, tc := range map[string]struct {
		text                      string
		highest                   int64
		controls                  bool
		deleting                  bool
		lost, foreign, unreadable bool
		ledger                    scale.Ledger
	}{
		"a new owner":                        {ledger: scale.NewLedger()},
		"its own":                            {text: own.String(), highest: 3, controls: true, ledger: own},
		"its own, and all children are gone": {text: own.String(), ledger: own},
		"an earlier one was put back":        {text: `{"uid":"set","next":3}`, highest: 3, controls: true, lost: true, ledger: rebuilt},
		"the first replacement was before the first slot": {text: `{"next":1,"replaced":{"names":["a"],"from":1,"count":1}}`, highest: 3,
			controls: true, lost: true, ledger: replacing},
		"one of before the first slot was put back": {text: `{"next":1}`, highest: 3, controls: true, lost: true, ledger: rebuilt},
		"it was taken away":                         {highest: 3, controls: true, lost: true, ledger: rebuilt},
		"another program has led the owner":         {controls: true, lost: true, ledger: scale.Rebuilt("set", 0)},
		"it was taken away, and the owner goes":     {highest: 3, controls: true, deleting: true, ledger: scale.NewLedger()},
		"that of another owner":                     {text: `{"uid":"other","next":9}`, foreign: true, ledger: scale.Rebuilt("set", 0)},
		"that of another owner, and some children came": {text: `{"uid":"other","next":9}`, highest: 3, controls: true,
			foreign: true, ledger: rebuilt},
		"no ledger at all": {text: "?", highest: 3, controls: true, unreadable: true, ledger: rebuilt},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			owner := &contract.Metadata{UID: "set"}
			if tc.text != "" {
				owner.Annotations = map[string]string{scale.LedgerAnnotation: tc.text}
			}
			if tc.deleting {
				owner.Deleting = time.Unix(1, 0)
			}
			ledger, lost, foreign, err := decideLedger(contract.Common{Metadata: owner}, tc.highest, tc.controls)
			require.Equal(t, tc.ledger, ledger)
			require.Equal(t, []bool{tc.lost, tc.foreign, tc.unreadable}, []bool{lost, foreign, err != nil})
		})
	}
}

func TestLag(t *testing.T) {
	t.Parallel()
	var lag Lag
	now := time.Now()
	judge := func(after time.Duration, missing ...string) (bool, string, time.Duration) {
		return lag.Judge("Machine", missing, now.Add(after))
	}
	shows, message, again := judge(0)
	require.True(t, shows)
	require.Empty(t, message)
	require.Zero(t, again)
	for _, after := range []time.Duration{0, lagLimit - 1} {
		shows, message, again = judge(after, "b", "a")
		require.False(t, shows)
		require.Empty(t, message, "it may be late")
		require.Equal(t, engine.BehindRetry, again)
	}
	shows, message, again = judge(lagLimit, "b", "a")
	require.False(t, shows)
	require.Contains(t, message, "Machine a exists, and the cache does not show it")
	require.Equal(t, askAgain, again)
	_, message, _ = judge(-time.Hour, "a")
	require.Empty(t, message, "the clock was put back")
	judge(0)
	_, message, _ = judge(time.Hour, "c")
	require.Empty(t, message, "another one is missing since now")
	shows, message, _ = judge(time.Hour+lagLimit, "d")
	require.False(t, shows)
	require.Empty(t, message, "what was missing is shown, as while a set creates many")
}

func TestNoMoreMachinesAreRememberedThanThereAre(t *testing.T) {
	t.Parallel()
	r := NewMemory()
	for _, uid := range []types.UID{"alive", "gone"} {
		r.synced[uid] = inStep{}
	}
	s := &Scope[contract.MachineSetState, contract.MachineSetUpdate, contract.MachineState, contract.MachineUpdate]{memory: r}
	s.Own = []Child[contract.MachineState]{{Metadata: &contract.Metadata{UID: "alive"}}}
	require.NoError(t, s.Sync("", nil))
	require.Equal(t, map[types.UID]inStep{"alive": {}}, r.synced)
}
