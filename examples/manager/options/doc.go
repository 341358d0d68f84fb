// Package options holds the flags of the manager as one struct, so that a program that embeds Machinist can have the same flags: their
// names, defaults, groups, errors and help.
//
//	o := options.Defaults()
//	o.Machines.Workers = 50 // a default of your own
//	o.AddFlags(flags)
//	// parse the flags
//	err := o.Validate()
//
// Each group of flags is a struct of its own with AddFlags and Validate, for programs that need only some of them.
package options
