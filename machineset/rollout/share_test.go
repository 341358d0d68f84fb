package rollout

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// The sizes are those of Kubernetes' deployment controller, the largest set first.
func TestShare(t *testing.T) {
	for name, tc := range map[string]struct {
		from []int
		n    int
		want []int
	}{
		"5 to 3":                         {from: []int{3, 2}, n: -2, want: []int{2, 1}},
		"9 to 4":                         {from: []int{8, 1}, n: -5, want: []int{4, 0}},
		"7 to 10":                        {from: []int{3, 2, 2}, n: 3, want: []int{4, 3, 3}},
		"13 to 8":                        {from: []int{8, 3, 2}, n: -5, want: []int{5, 2, 1}},
		"5 to 10":                        {from: []int{3, 2}, n: 5, want: []int{6, 4}},
		"what is left over to the first": {from: []int{1, 1, 1}, n: 1, want: []int{2, 1, 1}},
		"rounding gives no more away":    {from: []int{1, 1, 1, 1}, n: 2, want: []int{2, 2, 1, 1}},
		"nothing to share":               {from: []int{2, 1}, want: []int{2, 1}},
		"all goes":                       {from: []int{2, 1}, n: -3, want: []int{0, 0}},
		"no sets":                        {},
	} {
		t.Run(name, func(t *testing.T) {
			parts := share(tc.n, tc.from)
			var got []int
			for i, part := range parts {
				got = append(got, tc.from[i]+part)
			}
			require.Equal(t, tc.want, got)
		})
	}
}
