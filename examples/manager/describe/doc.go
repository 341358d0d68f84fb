// Package describe explains what a Machine waits for, since when, and what a person can do about it.
//
// [Waits] decides from values that were read before, [Reader] reads them from an API server, and [Machine.Print] writes text. Everything
// can be printed as JSON. The package changes nothing.
//
// The command "manager describe" uses it. An operator with Machines of another kind sets the kind of the Reader.
package describe
