package machine

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/machinist-dev/machinist/contract"
)

func TestDeletionCompleted(t *testing.T) {
	for name, tc := range map[string]struct {
		finalizers []string
		own        string
		names      string
	}{
		"the set and the reconciler have the same one": {finalizers: []string{contract.MachineFinalizer}, own: contract.MachineFinalizer},
		"others have their own controllers":            {finalizers: []string{"example.com/own", "example.com/guest"}, own: "example.com/own"},
		"the set gives another one": {
			finalizers: []string{"example.com/own", contract.MachineFinalizer}, own: "example.com/own", names: contract.MachineFinalizer},
	} {
		t.Run(name, func(t *testing.T) {
			got := deletionCompleted(tc.finalizers, tc.own)
			if tc.names == "" {
				require.Equal(t, "Deletion completed", got)
				return
			}
			require.Contains(t, got, "finalizer "+tc.names+" is left, and the reconciler removes "+tc.own)
		})
	}
}
