// Package v1 is the API of the EdgeServer operator, group edge.example.com: servers in unattended racks. It was there before
// Machinist was, and knows nothing of it.
package v1
