// Command mutate finds missing tests: it changes one thing in a package, as a programming mistake would, and runs the
// tests that reach it. A change that no test detects is a survivor.
//
//	go run ./examples/mutate ./machine
//
// All changes of a package are compiled into one test binary, each behind a check of its number, which the binary reads
// once from its environment. So thousands of changes need one compilation, and nothing is written into the source tree.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"syscall"

	"github.com/machinist-dev/machinist/examples/command"
)

const usage = `mutate runs the tests of packages against small changes of their code, and lists the changes that no test notices.

  mutate                                   the packages that look after Machines and Nodes
  mutate ./machineset ./machineset/...     others, as the go command names them
  mutate --kinds call --sample 100 machine one hundred of the calls of one package, always the same for one --seed
  mutate --files 'delet' machinepool         files whose names match a regular expression
  mutate -o json drain | jq '.packages[].survivors[]'

What is changed (--kinds):

  compare   == becomes !=, < becomes >=, and so on
  logic     && becomes ||, and the other way round
  negate    the condition of an if, a for or a case is turned round, where it is no comparison
  return    true becomes false in a return statement, and the other way round
  call      a call whose result is not used is left out

Only the tests of the changed package itself run, the quick ones first, and only those that reach the change. A change is

  killed       a test fails with it, or takes longer than --timeout times its normal time and some seconds
  survived     all tests pass
  not reached  no test comes there at all
  left out     the compiler refuses the change: it is no mutant, and is counted beside

The score is the share of the killed in all mutants. Not every survivor is a missing test: a change can be without effect (an
optimisation, a log line). Tests that fail without any change are named, and left out.

Exit codes: 0 the tests were run, whatever survived; 1 they could not be; 2 wrong flags; 130 interrupted, after a report of what
was found so far.

Flags:
`

// The exit codes.
const (
	exitOK          = 0
	exitFailed      = 1
	exitUsage       = 2
	exitInterrupted = 130
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// options are the flags.
type options struct {
	packages []string
	output   string
	kinds    []kind
	files    *regexp.Regexp
	seed     uint64
	sample   int
	timeout  float64
	parallel int
	// dir is where the go command runs.
	dir string
}

func defaultPackages() []string {
	return []string{"machine", "machineset", "machinepool", "drain", "drain/runner", "noderef", "noderef/..."}
}

// run is main without os.Exit.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	return command.Run("mutate", command.Codes{Done: exitOK, Lost: exitFailed}, stdout, stderr, func(out io.Writer) int {
		return perform(ctx, args, out, stderr)
	})
}

// perform runs what the arguments select and returns the exit code.
func perform(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	o, err := parse(args, stdout)
	if code, refused := command.Refused("mutate", err, stderr); refused {
		return code
	}
	r, err := mutate(ctx, o, stderr)
	if writeErr := r.write(stdout, o.output); err == nil {
		err = writeErr
	}
	switch {
	case ctx.Err() != nil:
		fmt.Fprintln(stderr, "mutate: interrupted")
		return exitInterrupted
	case err != nil:
		fmt.Fprintf(stderr, "mutate: %v\n", err)
		return exitFailed
	}
	return exitOK
}

func parse(args []string, stdout io.Writer) (options, error) {
	o := options{}
	flags := flag.NewFlagSet("mutate", flag.ContinueOnError)
	flags.StringVar(&o.output, "o", "text", "format of the report: text or json")
	flags.Uint64Var(&o.seed, "seed", 1, "chooses the sample")
	flags.IntVar(&o.sample, "sample", 0, "how many mutants of each package to try; 0 is all")
	flags.Float64Var(&o.timeout, "timeout", 4, "how many times its normal time a test may take")
	flags.IntVar(&o.parallel, "parallel", 4*runtime.GOMAXPROCS(0), "how many tests run at the same time: most of them wait")
	flags.StringVar(&o.dir, "C", ".", "folder of the module")
	files := flags.String("files", "", "change only files whose names match this regular `expression`")
	kinds := flags.String("kinds", strings.Join(names(allKinds()), ","), "what to change")
	if err := command.Parse(flags, args, usage, stdout); err != nil {
		return o, err
	}
	for name := range strings.SplitSeq(*kinds, ",") {
		if !slices.Contains(allKinds(), kind(name)) {
			return o, fmt.Errorf("--kinds are some of %s, not %q", strings.Join(names(allKinds()), ","), name)
		}
		o.kinds = append(o.kinds, kind(name))
	}
	var err error
	if o.files, err = regexp.Compile(*files); err != nil {
		return o, fmt.Errorf("--files: %w", err)
	}
	if o.packages = flags.Args(); len(o.packages) == 0 {
		o.packages = defaultPackages()
	}
	switch {
	case o.output != "text" && o.output != "json":
		return o, fmt.Errorf("-o is text or json, not %q", o.output)
	case o.sample < 0, o.timeout <= 0, o.parallel <= 0:
		return o, errors.New("--sample, --timeout and --parallel cannot be negative, and only --sample can be 0")
	}
	return o, nil
}

// mutate processes one package after the other. It also reports partial results after a failure or an interruption.
func mutate(ctx context.Context, o options, progress io.Writer) (report, error) {
	r := report{Packages: []packageReport{}}
	temp, err := os.MkdirTemp("", "mutate-")
	if err != nil {
		return r, err
	}
	defer os.RemoveAll(temp) //nolint:errcheck // it is in the system's temporary folder, and nothing else can be done
	packages, err := list(ctx, o)
	if err != nil {
		return r, err
	}
	for i, p := range packages {
		folder := fmt.Sprintf("%s/%d", temp, i)
		one, err := newBench(o, p, folder, progress).work(ctx)
		if one.Mutants > 0 || one.LeftOut > 0 {
			r.Packages = append(r.Packages, one)
		}
		if err != nil {
			return r, fmt.Errorf("package %s: %w", p.ImportPath, err)
		}
		if err := os.RemoveAll(folder); err != nil { // a test binary has tens of megabytes
			return r, err
		}
	}
	return r, nil
}
