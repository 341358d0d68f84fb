package engine_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/machinist-dev/machinist/internal/engine"
)

func TestResultsComeInTheOrderOfTheItems(t *testing.T) {
	t.Parallel()
	for _, limit := range []int{-1, 0, 1, 3, 100} {
		got := engine.InParallel(limit, []int{3, 1, 2, 5, 4}, func(i int) int { return 10 * i })
		require.Equal(t, []int{30, 10, 20, 50, 40}, got, limit)
		require.Empty(t, engine.InParallel(limit, nil, func(int) int { return 0 }))
	}
}

func TestNoMoreRunAtATimeThanAllowed(t *testing.T) {
	t.Parallel()
	const limit = 3
	var mu sync.Mutex
	running, most, arrived := 0, 0, make(chan struct{})
	engine.InParallel(limit, make([]struct{}, 30), func(struct{}) error {
		mu.Lock()
		running++
		if most = max(most, running); most == limit {
			select {
			case <-arrived:
			default:
				close(arrived)
			}
		}
		mu.Unlock()
		<-arrived // the first of them wait for each other
		mu.Lock()
		defer mu.Unlock()
		running--
		return nil
	})
	require.Equal(t, limit, most)
}

func TestWithALimitOfOneTheCallsComeInOrder(t *testing.T) {
	t.Parallel()
	var order []int
	engine.InParallel(1, []int{1, 2, 3}, func(i int) error {
		order = append(order, i)
		return nil
	})
	require.Equal(t, []int{1, 2, 3}, order)
}

// A goroutine that panics ends the process. The caller's worker recovers.
func TestAPanicOfACallReachesTheCaller(t *testing.T) {
	t.Parallel()
	for _, limit := range []int{1, 2, 5} {
		var done atomic.Int32
		value := func() (value any) {
			defer func() { value = recover() }()
			engine.InParallel(limit, []int{1, 2, 3, 4}, func(i int) int {
				if i == 2 {
					panic("a step of an embedder") //nolint:forbidigo // what is tested
				}
				done.Add(1)
				return i
			})
			return nil
		}()
		require.Contains(t, fmt.Sprint(value), "a step of an embedder", "limit %d", limit)
		require.GreaterOrEqual(t, done.Load(), int32(1))
	}
}
