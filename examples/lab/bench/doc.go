// Package bench has the shared parts of the benchmarks on a control plane: progress output, measured processes, rounds,
// and medians.
package bench
