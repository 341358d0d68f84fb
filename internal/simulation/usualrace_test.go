//go:build race

package simulation_test

// usual is how many seeds every run of the race detector has, which is ten times slower: a World has one goroutine.
const usual = 20
