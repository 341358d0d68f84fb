// Package describe tells what a Machine waits for, since when, and what a person can do about it; and draws a MachineDeployment as a
// tree of its MachineSets, Machines, Nodes and the budgets that hold a drain.
//
// [Waits] and [TreeOf] decide from values that were read before, [Reader] reads them from an API server, and [Machine.Print] and
// [Tree.Print] write text. Everything can be printed as JSON. The package changes nothing.
//
// The commands "manager describe" and "manager tree" use it. An operator with Machines of another kind sets the kinds of the Reader.
package describe
