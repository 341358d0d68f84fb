// Package published reads what other projects publish as Go modules, such as CustomResourceDefinitions, for tests and for examples/lab.
package published
