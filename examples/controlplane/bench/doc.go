// Package bench holds what the benchmarks on a control plane share: progress for people, processes that are measured from outside,
// rounds, and medians.
package bench
