package machine

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/machinist-dev/machinist/contract"
)

func TestDeletionCompleted(t *testing.T) {
	own := contract.MachineFinalizer
	for name, tc := range map[string]struct {
		finalizers []string
		want       string
	}{
		"there is no other one": {finalizers: []string{own}, want: "Deletion completed"},
		"the set gives another one, or others have theirs": {finalizers: []string{own, "example.com/guest"},
			want: "Deletion completed, and these finalizers are left: example.com/guest"},
	} {
		t.Run(name, func(t *testing.T) {
			s := attached(&Scope{})
			s.env.frame.Finalizer, s.State.Finalizers = own, tc.finalizers
			_, err := removeFinalizer(t.Context(), s)
			require.NoError(t, err)
			said, _ := s.Condition(contract.ConditionDeleting)
			require.Equal(t, tc.want, said.Message)
			require.Equal(t, contract.ReasonDeletionCompleted, said.Reason)
		})
	}
}
