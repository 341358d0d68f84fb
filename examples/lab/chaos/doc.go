// Package chaos runs programs that come back like a container that a kubelet runs, and that a test kills, freezes and restarts.
package chaos
