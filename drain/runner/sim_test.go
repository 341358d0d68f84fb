package runner_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"github.com/machinist-dev/machinist/drain/runner"
)

// TestSimulation drives plan and Runner against a simulated cluster. SIM_SEED=n repeats one run with its trace, SIM_SEEDS=n changes how
// many there are.
func TestSimulation(t *testing.T) {
	if one, found := simNumber(t, "SIM_SEED"); found {
		s := simulate(t, one, troubleOf(one))
		t.Logf("%s\n%v", strings.Join(s.trace, "\n"), s.count)
		report(t, one, s)
		return
	}
	seeds, found := simNumber(t, "SIM_SEEDS")
	if !found {
		seeds = unlessShort(200, 30)
	}
	simulateAll(t, seeds)
}

func TestSimulationInTurns(t *testing.T) {
	sum := simulateAll(t, unlessShort(60, 10), func(setup *simSetup) { setup.turns, setup.informers = true, false })
	require.Positive(t, sum["accepted"])
	require.Positive(t, sum["done"])
}

func unlessShort(seeds, short uint64) uint64 {
	if testing.Short() {
		return short
	}
	return seeds
}

func simulateAll(t *testing.T, seeds uint64, change ...func(*simSetup)) map[string]int {
	t.Helper()
	sum, failed := map[string]int{}, 0
	for seed := uint64(1); seed <= seeds && failed < 3; seed++ {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			s := simulate(t, seed, troubleOf(seed), change...)
			for what, n := range s.count {
				sum[what] += n
			}
			if len(s.broken) > 0 {
				failed++
			}
			report(t, seed, s, change...)
		})
	}
	t.Logf("%v", sum)
	return sum
}

// FuzzSimulation lets the fuzzer choose which kinds of trouble come together.
func FuzzSimulation(f *testing.F) {
	f.Add(uint64(1), uint32(0))
	f.Add(uint64(2), uint32(allTrouble))
	f.Fuzz(func(t *testing.T, seed uint64, trouble uint32) {
		report(t, seed, simulate(t, seed, simTrouble(trouble)&allTrouble))
	})
}

func TestSimulationRepeats(t *testing.T) {
	for _, seed := range []uint64{3, 8, 21} {
		first, second := simulate(t, seed, allTrouble), simulate(t, seed, allTrouble)
		require.Equal(t, first.sum, second.sum, "seed %d:\n%s", seed, cmp.Diff(first.trace, second.trace))
	}
}

// troubleOf draws which kinds of trouble a seed has: none, some or all.
func troubleOf(seed uint64) simTrouble {
	rng := rand.New(rand.NewPCG(seed, 99))
	switch rng.IntN(8) {
	case 0:
		return 0
	case 1:
		return allTrouble
	case 2, 3:
		return simTrouble(rng.Uint32()) & allTrouble
	default:
		return simTrouble(rng.Uint32()&rng.Uint32()) & allTrouble
	}
}

func report(t *testing.T, seed uint64, s *sim, change ...func(*simSetup)) {
	t.Helper()
	if len(s.broken) == 0 {
		return
	}
	needed := shrink(s.trouble, func(less simTrouble) bool { return len(simulate(t, seed, less, change...).broken) > 0 })
	t.Errorf("seed %d, trouble %s, of which %q is enough:\n%s\nthe end of the run:\n%s\nrepeat with SIM_SEED=%d go test -run "+
		"^TestSimulation$",
		seed, s.trouble, needed, strings.Join(s.broken, "\n"), strings.Join(s.trace[max(0, len(s.trace)-60):], "\n"), seed)
}

func simNumber(t *testing.T, name string) (uint64, bool) {
	t.Helper()
	text, found := os.LookupEnv(name)
	if !found {
		return 0, false
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return n, true
}

// TestSimulationNotices checks the checks: what a port does wrong is found within a few seeds.
func TestSimulationNotices(t *testing.T) {
	evict := func(ctx context.Context, e runner.Evictor, pod runner.PodRef) error { return e.Evict(ctx, pod, nil) }
	for want, broken := range map[string]func(ctx context.Context, e runner.Evictor, pod runner.PodRef) error{
		"has no UID precondition": func(ctx context.Context, e runner.Evictor, pod runner.PodRef) error {
			pod.UID = ""
			return evict(ctx, e, pod)
		},
		"again": func(ctx context.Context, e runner.Evictor, pod runner.PodRef) error {
			return errors.Join(evict(ctx, e, pod), evict(ctx, e, pod))
		},
		"Start did not return": func(ctx context.Context, e runner.Evictor, pod runner.PodRef) error {
			return evict(context.WithoutCancel(ctx), e, pod)
		},
	} {
		t.Run(want, func(t *testing.T) {
			for seed := range uint64(20) {
				s := simulate(t, seed, allTrouble, func(setup *simSetup) {
					setup.breakEvictor = func(e runner.Evictor) runner.Evictor {
						return runner.EvictorFunc(func(ctx context.Context, pod runner.PodRef, _ *int64) error { return broken(ctx, e, pod) })
					}
				})
				if strings.Contains(strings.Join(s.broken, "\n"), want) {
					return
				}
			}
			t.Errorf("twenty runs did not notice")
		})
	}
}
