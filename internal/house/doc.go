// Package house has no code: its tests are about the whole module. They hold the exported surface against its baseline.
package house
