package inframachine

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAnInstanceStaysForAnotherInfraMachineThatUsesIt(t *testing.T) {
	t.Parallel()
	used, unused, going := claim{Name: "used", Named: true}, claim{Name: "unused"}, claim{Name: "going", Named: true, Deleting: true}
	far, farUnused := claim{Name: "far", Named: true, Elsewhere: true}, claim{Name: "far-unused", Elsewhere: true}
	for name, tc := range map[string]struct {
		facts claims
		want  []string
	}{
		"there is no other, and its Machine names it": {facts: claims{Named: true}},
		"there is no other, and its Machine is gone":  {},
		"a Machine names it, and the other is a copy": {facts: claims{Named: true, Others: []claim{unused}}},
		"it is a copy":            {facts: claims{Others: []claim{used, going}}, want: []string{"used"}},
		"no Machine names either": {facts: claims{Others: []claim{unused}}, want: []string{"unused"}},
		"Machines name both, as with an ID in a template": {facts: claims{Named: true, Others: []claim{used}}, want: []string{"used"}},
		"Machines name both, and it has made it": {
			facts: claims{Named: true, Made: true, Others: []claim{used}}, want: []string{"used"}},
		"all are being deleted":                         {facts: claims{Others: []claim{going}}},
		"it was restored into another namespace":        {facts: claims{Named: true, Others: []claim{far}}, want: []string{"far"}},
		"a copy was restored into another namespace":    {facts: claims{Named: true, Made: true, Others: []claim{far}}},
		"another namespace has copies without Machines": {facts: claims{Named: true, Others: []claim{farUnused}}},
		"one of each": {facts: claims{Made: true, Others: []claim{used, unused, far, farUnused}}, want: []string{"unused", "used"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tc.want, decideHolders(tc.facts))
		})
	}
}
