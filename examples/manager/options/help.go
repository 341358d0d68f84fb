package options

import (
	"flag"
	"fmt"
	"io"
)

// PrintHelp prints the flags by group, each group sorted by name.
func (o *Options) PrintHelp(out io.Writer) {
	for i, g := range o.Groups() {
		if i > 0 {
			fmt.Fprintln(out)
		}
		fmt.Fprintf(out, "%s flags:\n", g.Name)
		flags := g.Flags()
		flags.SetOutput(out)
		flags.PrintDefaults()
	}
}

// Shown is a flag as documentation shows it.
type Shown struct {
	// Name has no dashes, and Value is the word for the value; empty for a switch.
	Name, Value string
	// Default is the value of a flag that is not given.
	Default string
	// Usage is the meaning.
	Usage string
}

// Shown returns the flags of the group as documentation shows them, sorted by name.
func (g Group) Shown() []Shown {
	var all []Shown
	g.Flags().VisitAll(func(f *flag.Flag) {
		value, usage := flag.UnquoteUsage(f)
		all = append(all, Shown{Name: f.Name, Value: value, Default: f.DefValue, Usage: usage})
	})
	return all
}
