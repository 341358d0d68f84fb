// Package arms runs the two managers that benchmarks compare: examples/manager, and that of Cluster API. It builds them, starts them on a
// control plane, and reads their CPU time and memory.
package arms
