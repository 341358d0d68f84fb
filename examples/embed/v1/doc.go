// Package v1 is the API of the EdgeServer operator, group edge.example.com: servers in unattended racks. It is older than the use of
// Machinist, and does not depend on it.
package v1
