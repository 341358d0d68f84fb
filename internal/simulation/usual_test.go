//go:build !race

package simulation_test

// usual is how many seeds every test run has, about ten seconds of two processors; give -seeds for more.
const usual = 100
