package command

import (
	"errors"
	"flag"
	"fmt"
	"io"
)

// Parse reads flags. It prints no mistake: the caller does, once. Help is the usage and the flags with their defaults; it goes to out, and
// the error is flag.ErrHelp.
func Parse(flags *flag.FlagSet, args []string, usage string, out io.Writer) error {
	flags.SetOutput(io.Discard)
	err := flags.Parse(args)
	if errors.Is(err, flag.ErrHelp) {
		_, _ = io.WriteString(out, usage)
		flags.SetOutput(out)
		flags.PrintDefaults()
	}
	return err
}

// Refused reports whether a program ends because of its arguments, and with which exit code: 0 after help, and 2 after a mistake, which it
// prints behind the name of the program.
func Refused(program string, parsed error, stderr io.Writer) (code int, refused bool) {
	switch {
	case parsed == nil:
		return 0, false
	case errors.Is(parsed, flag.ErrHelp):
		return 0, true
	}
	_, _ = fmt.Fprintf(stderr, "%s: %v\nRun with --help for help.\n", program, parsed)
	return 2, true
}
