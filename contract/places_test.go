package contract_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/machinist-dev/machinist/contract"
)

func TestPlaces_AreThoseThatReflectionFinds(t *testing.T) {
	for name, c := range layoutCases() {
		t.Run(name, func(t *testing.T) {
			places := contract.Places(c.layout)
			seen := map[string]bool{}
			for _, p := range places {
				require.False(t, seen[p.Name], "%s stands there twice", p.Name)
				seen[p.Name] = true
				require.NotEmpty(t, p.Type, p.Name)
				require.NotEmpty(t, p.Writer, "%s: who writes it is not said", p.Name)
			}
		})
	}
}

func TestPlaces_OfNothingAreNone(t *testing.T) {
	for _, nothing := range []any{nil, (*contract.MachineLayout)(nil), 7, contract.MachineLayout{}, new(string)} {
		require.Empty(t, contract.Places(nothing))
	}
}
