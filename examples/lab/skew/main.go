// Command skew measures with which releases of Kubernetes and controller-runtime this library works, and prints the table of them.
//
//	go run -C examples/lab ./skew --servers 1.36,1.35,1.34 --runtimes 0.24,0.23
//
// Each control plane is built from the newest release of its minor version that the module proxy serves, and kept in the user's cache
// directory. Each controller-runtime is measured in a copy of the module, with the Kubernetes modules that it is made for.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/machinist-dev/machinist/examples/command"
)

const usage = `skew measures with which releases of Kubernetes and controller-runtime this library works.

  skew --servers 1.36,1.35 --runtimes 0.24,0.23   two control planes and two copies of the library, each with each
  skew --build --servers 1.35                     only build the programs of a control plane, which takes minutes

Every row of the table is a version of controller-runtime, with the Kubernetes modules that it is made for: the tests of the library
run in a copy of the module that requires them. Every column at the right is the newest release of a minor version of Kubernetes that
the module proxy serves: end-to-end tests run on a control plane that is built from it. One build runs at a time; it needs 3 GB.

Exit codes: 0 everything was measured and passes; 1 a test fails, or the measurement itself; 2 wrong flags; 130 interrupted.

Flags:
`

// The exit codes.
const (
	exitOK          = 0
	exitFailed      = 1
	exitUsage       = 2
	exitInterrupted = 130
)

// gracePeriod is how long a go command may take to end after an interrupt.
const gracePeriod = 30 * time.Second

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// options are the flags.
type options struct {
	servers, runtimes []string
	file              string
	buildOnly         bool
}

// run is main without os.Exit.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	return command.Run("skew", command.Codes{Done: exitOK, Lost: exitFailed}, stdout, stderr, func(out io.Writer) int {
		o, err := parse(args, out)
		if code, refused := command.Refused("skew", err, stderr); refused {
			return code
		}
		err = perform(ctx, o, out, stderr)
		switch {
		case ctx.Err() != nil:
			_, _ = fmt.Fprintln(stderr, "skew: interrupted")
			return exitInterrupted
		case err != nil:
			_, _ = fmt.Fprintf(stderr, "skew: %v\n", err)
			return exitFailed
		}
		return exitOK
	})
}

func parse(args []string, stdout io.Writer) (options, error) {
	o := options{}
	flags := flag.NewFlagSet("skew", flag.ContinueOnError)
	servers := flags.String("servers", "", "minor `versions` of Kubernetes whose control planes are built, for example 1.36,1.35")
	runtimes := flags.String("runtimes", "", "minor `versions` of controller-runtime, for example 0.24,0.23; without any, the required one")
	flags.StringVar(&o.file, "write", "",
		"`file` that gets the table too; its rows and columns of other minor versions stay")
	flags.BoolVar(&o.buildOnly, "build", false, "build the control planes and print where they are; measure nothing")
	if err := command.Parse(flags, args, usage, stdout); err != nil {
		return o, err
	}
	if flags.NArg() > 0 {
		return o, fmt.Errorf("unexpected argument %q: versions are values of --servers and --runtimes", flags.Arg(0))
	}
	for _, list := range []struct {
		name, value, major string
		to                 *[]string
	}{{"servers", *servers, "1.", &o.servers}, {"runtimes", *runtimes, "0.", &o.runtimes}} {
		for _, minor := range strings.FieldsFunc(list.value, func(r rune) bool { return r == ',' || r == ' ' }) {
			if !isMinor(minor) || !strings.HasPrefix(minor, list.major) {
				return o, fmt.Errorf("--%s: %q is no minor version, as %s24 is", list.name, minor, list.major)
			}
			*list.to = append(*list.to, minor)
		}
	}
	if len(o.servers) == 0 {
		return o, errors.New("--servers is missing: name at least one minor version of Kubernetes")
	}
	return o, nil
}

// perform measures and prints the table. It is complete or not written at all.
func perform(ctx context.Context, o options, stdout, stderr io.Writer) error {
	m, err := newMeasurement(ctx, stderr)
	if err != nil {
		return err
	}
	defer m.remove()
	if err := m.makeServers(ctx, o.servers); err != nil || o.buildOnly {
		return err
	}
	rows, err := m.makeRows(ctx, o.runtimes)
	if err != nil {
		return err
	}
	text := table(m.servers, rows)
	if _, err := io.WriteString(stdout, text); err != nil {
		return err
	}
	if o.file == "" {
		return failures(rows)
	}
	old, err := os.ReadFile(o.file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.WriteFile(o.file, []byte(withOld(string(old), text)), 0o600); err != nil {
		return err
	}
	return failures(rows)
}
