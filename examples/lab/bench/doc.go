// Package bench measures what Machines, sets, pools, rollouts, health checks and drains cost with this library and with its peers, on a
// real control plane on this computer.
//
// Requests are counted from the API server's audit log, so they are exact. Times depend on the computer and hold only beside the other
// times of the same run.
package bench
