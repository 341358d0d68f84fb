// Package cli reads the flags of the subcommands of lab.
package cli

import (
	"errors"
	"flag"
	"fmt"
	"io"

	"github.com/machinist-dev/machinist/examples/command"
)

// ErrUsage is matched by errors in the command line, and by the wish for help, which also matches flag.ErrHelp.
var ErrUsage = errors.New("wrong usage")

// Parse accepts flags only. Help goes to stdout. check returns an error for the first value that is wrong; nil for none. Errors match
// ErrUsage.
func Parse(flags *flag.FlagSet, args []string, usage string, stdout io.Writer, check func() error) error {
	err := command.Parse(flags, args, usage, stdout)
	if err == nil && flags.NArg() > 0 {
		err = fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	if err == nil && check != nil {
		err = check()
	}
	if err != nil {
		return fmt.Errorf("%w: %w", ErrUsage, err)
	}
	return nil
}

// Format is an error for an output format other than text and json.
func Format(output string) error {
	if output != "text" && output != "json" {
		return fmt.Errorf("-o must be text or json, not %q", output)
	}
	return nil
}
