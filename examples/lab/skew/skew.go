// Package skew measures with which releases of Kubernetes and controller-runtime this library works, and prints the table of them.
//
// Each control plane is built from the newest release of its minor version that the module proxy serves, and kept in the user's cache
// directory. Each controller-runtime is measured in a copy of the module, with the Kubernetes modules that it is made for.
package skew

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/machinist-dev/machinist/examples/lab/internal/cli"
)

const usage = `lab skew measures with which releases of Kubernetes and controller-runtime this library works.

  lab skew --runtimes 0.24,0.23                       the tests of the root module with each, without a control plane
  lab skew --servers 1.36,1.35 --runtimes 0.24,0.23   two control planes and two copies of the library, each with each

Every row of the table is a version of controller-runtime, with the Kubernetes modules that it is made for: all tests of the root module
run in a copy that requires them. Every column at the right is the newest release of a minor version of Kubernetes that
the module proxy serves: end-to-end tests run on a control plane that is built from it. One build runs at a time; it needs 3 GB.

Exit codes: 0 everything was measured and passes; 1 a test fails, or the measurement itself; 2 wrong flags.

Flags:
`

// gracePeriod is how long a go command may take to end after an interrupt.
const gracePeriod = 30 * time.Second

// options are the flags.
type options struct {
	servers, runtimes []string
	file              string
}

// Run measures what the arguments ask for, and prints the table.
func Run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	o, err := parse(args, stdout)
	if err != nil {
		return err
	}
	return perform(ctx, o, stdout, stderr)
}

func parse(args []string, stdout io.Writer) (options, error) {
	o := options{}
	flags := flag.NewFlagSet("skew", flag.ContinueOnError)
	servers := flags.String("servers", "", "minor `versions` of Kubernetes whose control planes are built, for example 1.36,1.35")
	runtimes := flags.String("runtimes", "", "minor `versions` of controller-runtime, for example 0.24,0.23; without any, the required one")
	flags.StringVar(&o.file, "write", "", "`file` that gets the table too")
	err := cli.Parse(flags, args, usage, stdout, func() (err error) {
		if o.servers, err = minors("servers", *servers, "1."); err != nil {
			return err
		}
		if o.runtimes, err = minors("runtimes", *runtimes, "0."); err == nil && len(o.servers)+len(o.runtimes) == 0 {
			err = errors.New("--servers and --runtimes are missing: name at least one minor version of either")
		}
		return err
	})
	return o, err
}

// minors are the minor versions in the value of a flag.
func minors(name, value, major string) (all []string, err error) {
	for _, minor := range strings.FieldsFunc(value, func(r rune) bool { return r == ',' || r == ' ' }) {
		if !isMinor(minor) || !strings.HasPrefix(minor, major) {
			return nil, fmt.Errorf("--%s: %q is no minor version, as %s24 is", name, minor, major)
		}
		all = append(all, minor)
	}
	return all, nil
}

// perform measures and prints the table. It is complete or not written at all.
func perform(ctx context.Context, o options, stdout, stderr io.Writer) error {
	m, err := newMeasurement(ctx, stderr)
	if err != nil {
		return err
	}
	defer m.remove()
	if err := m.makeServers(ctx, o.servers); err != nil {
		return err
	}
	rows, err := m.makeRows(ctx, o.runtimes)
	if err != nil {
		return err
	}
	text := fmt.Sprintf("Measured on %s.\n\n%s", time.Now().UTC().Format(time.DateOnly), table(m.servers, rows))
	if _, err := io.WriteString(stdout, text); err != nil {
		return err
	}
	if o.file != "" {
		if err := os.WriteFile(o.file, []byte(text), 0o600); err != nil {
			return err
		}
	}
	return failures(rows)
}
