package children

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestBatches_DoubleUntilTheCeiling(t *testing.T) {
	t.Parallel()
	b, left := batches{ceiling: 10}, 40
	var sizes []int
	for n := b.next(left); n > 0; n = b.next(left) {
		sizes = append(sizes, n)
		left -= n
	}
	require.Equal(t, []int{1, 2, 4, 8, 10, 10, 5}, sizes)
	require.Equal(t, 1, (&batches{}).next(1000))
	require.Zero(t, (&batches{}).next(-1))
}
