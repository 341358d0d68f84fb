// Command floor is the least that a manager can cost: it watches what another manager watches, and makes the requests that the other has
// made, and decides nothing. examples/controlplane/setbench runs it beside a manager and compares their CPU time.
//
// It reads one request in each line of standard input, as JSON of [cluster.AuditEvent], and ends with its input. The first request for a
// watch of a kind starts a cache of it, with the decoders and the transform of examples/manager. Writes are dry runs with the body that
// the other has sent, so that they change nothing; what the API server answers to them is decoded and not read. Leases, reviews of
// access and discovery are left out, as is a request for a kind without a cache.
//
// A manager that reads from its caches and a floor get the same events. The floor does not copy what it reads, keeps no index and no
// queue, and writes no log.
package main
