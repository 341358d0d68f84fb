// Package command is what the programs of the examples share: how they read flags, print help, mistakes and progress, and how they notice
// that what they print is lost, as on a full disk, so that they do not end as if all were well.
package command

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
)

// Codes are the exit codes of a program: Done for success, and Lost for a success whose output was lost.
type Codes struct{ Done, Lost int }

// Run calls f with a writer to stdout and returns its exit code. If f returns Done and a write failed, Run prints the first error
// to stderr, behind the name of the program and a colon where a name is given, and returns Lost.
func Run(program string, codes Codes, stdout, stderr io.Writer, f func(out io.Writer) int) int {
	out := &writer{Writer: stdout}
	code := f(out)
	if out.err == nil || code != codes.Done {
		return code
	}
	if program != "" {
		program += ": "
	}
	_, _ = fmt.Fprintf(stderr, "%swrite output: %v\n", program, out.err)
	return codes.Lost
}

// terminal reports whether a writer of Run, or any other, goes to a terminal that can move its cursor.
func terminal(out io.Writer) bool {
	if w, ok := out.(*writer); ok {
		out = w.Writer
	}
	file, ok := out.(*os.File)
	if !ok || os.Getenv("TERM") == "dumb" {
		return false
	}
	info, err := file.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// writer remembers the first write that failed.
type writer struct {
	io.Writer

	err error
}

// Write implements io.Writer.
func (w *writer) Write(p []byte) (int, error) {
	n, err := w.Writer.Write(p)
	if w.err == nil {
		w.err = err
	}
	return n, err
}

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
