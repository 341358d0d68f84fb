// Package chaos disturbs the programs of an end-to-end test at seeded times: Plan says when each of them is killed, frozen and restarted,
// Program is a program that comes back like a container that a kubelet runs, and Link is a connection that can be cut and frozen.
//
// A seed decides the plan. What the programs make of it depends on the computer, so the same seed gives the same disturbances, and not the
// same history.
package chaos
