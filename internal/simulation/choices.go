package simulation

import (
	"math/rand/v2"
	"slices"
)

// Choices are what a seed decides: each is a number below what was possible, in the order in which the history asked for them. The number
// zero is always the mildest possibility, so a history becomes simpler when choices become zero.
type Choices struct {
	random *rand.Rand
	given  []uint32
	made   []uint32
}

// Seeded returns the Choices of a seed.
func Seeded(seed uint64) *Choices {
	return &Choices{random: rand.New(rand.NewPCG(seed, 0x73696d756c617465))}
}

// Replayed returns given Choices; those after them are zero.
func Replayed(given []uint32) *Choices { return &Choices{given: given} }

// pick returns a number from 0 to n-1; 0 for n below 2.
func (c *Choices) pick(n int) int {
	if n < 2 {
		return 0
	}
	chosen := uint32(0)
	switch {
	case c.random != nil:
		chosen = uint32(c.random.IntN(n))
	case len(c.made) < len(c.given):
		chosen = min(c.given[len(c.made)], uint32(n-1))
	}
	c.made = append(c.made, chosen)
	return int(chosen)
}

// oneIn is true once in n times, on average.
func (c *Choices) oneIn(n int) bool { return n > 0 && c.pick(n) == max(1, n-1) }

// Made are the choices so far.
func (c *Choices) Made() []uint32 { return slices.Clone(c.made) }

// Shrink returns simpler Choices that still fail: it cuts the end, sets blocks of choices to zero and removes them, as long as fails says
// that the history is broken in the same way. It calls fails at most limit times.
func Shrink(failing []uint32, limit int, fails func([]uint32) bool) []uint32 {
	s := shrinker{best: slices.Clone(failing), left: limit, fails: fails}
	for size := len(s.best); size > 0; size /= 2 {
		s.blocks(size)
	}
	for n := len(s.best); n > 0 && s.best[n-1] == 0; n-- {
		s.best = s.best[:n-1]
	}
	return s.best
}

type shrinker struct {
	best  []uint32
	left  int
	fails func([]uint32) bool
}

// blocks tries each block of a size, from the end: without it, and as zeros.
func (s *shrinker) blocks(size int) {
	for at := len(s.best) - size; at > -size; at -= size {
		from, to := max(at, 0), min(at+size, len(s.best))
		if from >= to {
			continue
		}
		without := slices.Delete(slices.Clone(s.best), from, to)
		if s.try(without) {
			continue
		}
		zeroed := slices.Clone(s.best)
		for i := from; i < to; i++ {
			zeroed[i] = 0
		}
		if !slices.Equal(zeroed, s.best) {
			s.try(zeroed)
		}
	}
}

func (s *shrinker) try(candidate []uint32) bool {
	if s.left <= 0 || !s.fails(candidate) {
		s.left--
		return false
	}
	s.left--
	s.best = candidate
	return true
}
