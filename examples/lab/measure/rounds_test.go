package measure_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"github.com/machinist-dev/machinist/examples/lab/measure"
)

func TestMedianIsTheMiddleWhateverTheOrder(t *testing.T) {
	for _, tc := range []struct {
		values []float64
		want   float64
	}{
		{nil, 0}, {[]float64{3}, 3}, {[]float64{9, 1, 2}, 2}, {[]float64{4, 1, 3, 2}, 2.5},
	} {
		given := append([]float64(nil), tc.values...)
		if got := measure.Median(tc.values); got != tc.want {
			t.Errorf("Median(%v) = %v, want %v", tc.values, got, tc.want)
		}
		if diff := cmp.Diff(given, tc.values); diff != "" {
			t.Errorf("the values were changed (-before +after):\n%s", diff)
		}
	}
}

func TestEveryRoundBeginsWithAnotherArm(t *testing.T) {
	arms := []string{"a", "b", "c"}
	var first []string
	for round := range 4 {
		order := measure.InTurn(arms, round)
		first = append(first, order[0])
		require.ElementsMatch(t, arms, order)
	}
	require.Equal(t, []string{"a", "b", "c", "a"}, first)
}

func TestWorkInParallelIsDoneOnceEachOrSaysWhyNot(t *testing.T) {
	var done [50]atomic.Int32
	require.NoError(t, measure.InParallel(t.Context(), len(done), func(i int) error { done[i].Add(1); return nil }))
	for i := range done {
		require.Equal(t, int32(1), done[i].Load(), i)
	}
	broken := errors.New("it broke")
	require.ErrorIs(t, measure.InParallel(t.Context(), 3, func(int) error { return broken }), broken)

	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(broken)
	require.ErrorIs(t, measure.InParallel(ctx, 3, func(int) error { return nil }), broken)
}
