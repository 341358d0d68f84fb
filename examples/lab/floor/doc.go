// Package floor runs the least that a manager can cost: a process that watches what another manager watches, and makes the requests that
// the other has made, and decides nothing. "lab bench fleet --floor" runs it beside a manager and compares their CPU time.
//
// The process reads one request in each line of its standard input, as JSON of [cluster.AuditEvent], and ends with its input. The first
// request for a watch of a kind starts a cache of it, with the decoders and the transform of examples/manager. Writes have the bodies that
// the other has sent. By then the API server would answer otherwise, because an object has another version or is gone, so they go to a
// server that sends what the API server has answered the other; that is decoded and not read. Reads go to the API server. Lists, Leases,
// reviews of access and discovery are left out, as is a request for a kind without a cache, or without the body of its answer.
//
// A manager that reads from its caches and a floor get the same events. The floor does not copy what it reads, keeps no index and no
// queue, and writes no log.
package floor
