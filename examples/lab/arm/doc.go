// Package arm starts what benchmarks compare: examples/manager, and Cluster API's manager. It builds them, starts them on a control plane,
// creates the objects that both need, and reads their CPU time and memory.
package arm
