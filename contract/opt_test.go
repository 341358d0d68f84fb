package contract_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/machinist-dev/machinist/contract"
)

func TestOpt(t *testing.T) {
	var absent contract.Opt[string]
	empty := contract.Some("")

	require.False(t, absent.Found())
	require.True(t, empty.Found())
	require.Equal(t, "fallback", absent.Or("fallback"))
	require.Empty(t, empty.Or("fallback"))
	value, found := contract.Some(int32(0)).Get()
	require.True(t, found)
	require.Zero(t, value)
	require.NotEqual(t, absent, empty)
}

func TestChange_IsExactlyOneOfKeepSetAndClear(t *testing.T) {
	for name, c := range map[string]struct {
		change              contract.Change[int64]
		keeps, clears, sets bool
	}{
		"the zero Change keeps":        {change: contract.Change[int64]{}, keeps: true},
		"SetTo sets":                   {change: contract.SetTo(int64(7)), sets: true},
		"SetTo the zero value sets it": {change: contract.SetTo(int64(0)), sets: true},
		"Cleared clears":               {change: contract.Cleared[int64](), clears: true},
	} {
		t.Run(name, func(t *testing.T) {
			_, sets := c.change.Value()
			require.Equal(t, []bool{c.keeps, c.clears, c.sets}, []bool{c.change.Keeps(), c.change.Clears(), sets})
		})
	}
}
