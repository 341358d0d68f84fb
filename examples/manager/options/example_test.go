package options_test

import (
	"flag"
	"fmt"

	"github.com/machinist-dev/machinist/examples/manager/options"
)

// A program that embeds the reconcilers has the manager's flags, with a default of its own.
func Example() {
	o := options.Defaults()
	o.Machines.Workers = 50
	flags := flag.NewFlagSet("fleet", flag.ContinueOnError)
	o.AddFlags(flags)
	if err := flags.Parse([]string{"--machinesets", "--status-delay=0"}); err != nil {
		fmt.Println(err)
	}
	fmt.Println(o.Kinds.MachineSets, o.Machines.Workers, o.Machines.StatusDelay, o.Validate())
	// Output: true 50 0s <nil>
}
