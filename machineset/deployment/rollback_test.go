package deployment

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/internal/children"
)

func TestRollbackFindsTheRevision(t *testing.T) {
	t.Parallel()
	one := func(revision int64, matches, deleting bool) *set {
		state := &contract.MachineSetState{}
		state.Key.Name = fmt.Sprint(revision)
		if state.Annotations = map[string]string{contract.RevisionAnnotation: fmt.Sprint(revision)}; deleting {
			state.Deleting = time.Unix(1, 0)
		}
		s := &set{Child: children.Child[contract.MachineSetState]{State: state, Metadata: &state.Metadata}}
		if !matches {
			s.diff = []string{"template"}
		}
		return s
	}
	for name, tc := range map[string]struct {
		sets     []*set
		revision int64
		want     string // the name of the set, or what the error says
	}{
		"the one before the current one":   {sets: []*set{one(2, false, false), one(5, true, false)}, want: "2"},
		"sets in deletion do not count":    {sets: []*set{one(2, false, false), one(5, true, false), one(4, false, true)}, want: "2"},
		"one in deletion by its number":    {sets: []*set{one(5, true, false), one(4, false, true)}, revision: 4, want: "there is no revision 4"},
		"one by its number":                {sets: []*set{one(2, false, false), one(5, true, false)}, revision: 2, want: "2"},
		"the current one by its number":    {sets: []*set{one(2, false, false), one(5, true, false)}, revision: 5, want: "of revision 5 already"},
		"no set has the template yet":      {sets: []*set{one(1, false, false), one(2, false, false)}, want: "2"},
		"the only set, of before a change": {sets: []*set{one(1, false, false)}, want: "1"},
		"the set with the template is going": {
			sets: []*set{one(1, false, false), one(2, false, false), one(3, true, true)}, want: "2"},
		"the set with the template is not numbered yet": {
			sets: []*set{one(1, false, false), one(2, false, false), one(0, true, false)}, want: "2"},
		"again, before the set of the first time has a new number": {
			sets: []*set{one(1, true, false), one(2, false, false)}, want: "of revision 1 already"},
		"the first revision is current": {sets: []*set{one(1, true, false)}, want: "no earlier revision"},
		"none is numbered":              {sets: []*set{one(0, false, false)}, want: "no earlier revision"},
	} {
		t.Run(name, func(t *testing.T) {
			slices.Reverse(tc.sets)
			for range 2 {
				slices.Reverse(tc.sets)
				if got, err := revisionOf(tc.sets, tc.revision); err != nil {
					require.ErrorIs(t, err, ErrRevision)
					require.ErrorContains(t, err, tc.want)
				} else {
					require.Equal(t, tc.want, got.Key.Name)
				}
			}
		})
	}
}
