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
	for name, tc := range map[string]struct {
		text     string
		highest  int64
		controls bool
		deleting bool
		want     ledgerState
		ledger   scale.Ledger
	}{
		"a new owner":                               {want: ledgerStored, ledger: scale.NewLedger()},
		"its own":                                   {text: own.String(), highest: 3, controls: true, want: ledgerStored, ledger: own},
		"its own, and all children are gone":        {text: own.String(), want: ledgerStored, ledger: own},
		"an earlier one was put back":               {text: `{"uid":"set","next":3}`, highest: 3, controls: true, want: ledgerLost, ledger: rebuilt},
		"one of before the first slot was put back": {text: `{"next":1}`, highest: 3, controls: true, want: ledgerLost, ledger: rebuilt},
		"it was taken away":                         {highest: 3, controls: true, want: ledgerLost, ledger: rebuilt},
		"another program has led the owner":         {controls: true, want: ledgerLost, ledger: scale.Rebuilt("set", 0)},
		"it was taken away, and the owner goes":     {highest: 3, controls: true, deleting: true, want: ledgerStored, ledger: scale.NewLedger()},
		"that of another owner":                     {text: `{"uid":"other","next":9}`, want: ledgerForeign, ledger: scale.Rebuilt("set", 0)},
		"that of another owner, and some children came": {text: `{"uid":"other","next":9}`, highest: 3, controls: true,
			want: ledgerForeign, ledger: rebuilt},
		"no ledger at all": {text: "?", highest: 3, controls: true, want: ledgerUnreadable, ledger: rebuilt},
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
			ledger, state, err := decideLedger(ledgerFacts{Owner: contract.Common{Metadata: owner}, Highest: tc.highest, Controls: tc.controls})
			require.Equal(t, tc.want, state)
			require.Equal(t, tc.ledger, ledger)
			require.Equal(t, tc.want == ledgerUnreadable, err != nil)
		})
	}
}
