package inframachine

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAnInstanceStaysForAnotherInfraMachineThatUsesIt(t *testing.T) {
	t.Parallel()
	used, unused, going := claim{Name: "used", Named: true}, claim{Name: "unused"}, claim{Name: "going", Named: true, Deleting: true}
	for name, tc := range map[string]struct {
		named  bool
		others []claim
		want   []string
	}{
		"there is no other, and its Machine names it": {named: true},
		"there is no other, and its Machine is gone":  {},
		"a Machine names it, and the other is a copy": {named: true, others: []claim{unused}},
		"it is a copy":            {others: []claim{used, going}, want: []string{"used"}},
		"no Machine names either": {others: []claim{unused}, want: []string{"unused"}},
		"Machines name both, as with an ID in a template": {named: true, others: []claim{used}, want: []string{"used"}},
		"all are being deleted":                           {others: []claim{going}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tc.want, decideHolders(tc.named, tc.others))
		})
	}
}
