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

// oneOf returns one of some values; the zero value of none.
func oneOf[T any](w *World, among ...T) (one T) {
	if len(among) > 0 {
		one = among[w.choices.pick(len(among))]
	}
	return one
}

// oneIn is true once in n times, on average.
func (c *Choices) oneIn(n int) bool { return n > 0 && c.pick(n) == max(1, n-1) }

// shrink makes Choices that fail simpler: it cuts the end, sets blocks of choices to zero and removes them, as long as fails reports the
// same broken invariant. It calls fails at most limit times.
func shrink(best []uint32, limit int, fails func([]uint32) bool) {
	try := func(candidate []uint32) bool {
		limit--
		if limit < 0 || !fails(candidate) {
			return false
		}
		best = candidate
		return true
	}
	for size := len(best); size > 0; size /= 2 {
		for to := len(best); to > 0; to -= size { // each block from the end: without it, and as zeros
			from := max(to-size, 0)
			zeroed := slices.Clone(best)
			clear(zeroed[from:to])
			if !try(slices.Delete(slices.Clone(best), from, to)) && !slices.Equal(zeroed, best) {
				try(zeroed)
			}
		}
	}
}
