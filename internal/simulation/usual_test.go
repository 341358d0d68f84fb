//go:build !race

package simulation_test

// usual is how many seeds every test run has.
const usual = 300
