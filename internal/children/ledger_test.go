package children

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/machinist-dev/machinist/contract"
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
