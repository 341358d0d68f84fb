package bench

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/machinist-dev/machinist/examples/lab/arm"
	"github.com/machinist-dev/machinist/examples/lab/cluster"
	"github.com/machinist-dev/machinist/examples/lab/internal/cli"
	"github.com/machinist-dev/machinist/examples/lab/measure"
)

const usage = `lab bench %s: %s

  go run -C examples/lab . bench %[1]s                      all cases with all their arms, one round
  go run -C examples/lab . bench %[1]s --rounds 3 -o json   medians of three rounds, as JSON

Arms: %[3]s%[4]s

The control plane is a real one: etcd, kube-apiserver, kube-controller-manager, kube-scheduler; kwok plays the kubelets. Requests are
counted from the audit log until the manager is at rest, without Leases; reads are gets and lists, and watches are counted by themselves
when they begin. Times and CPU are in seconds, heap is in KiB and memory in MiB. Times depend on the computer and hold only beside the other
times of the same run.

The last lines of standard output (of standard error with -o json) are, one for each case,
  %[1]s-bench: case=… figure ours=… capi=… ratio=… (<=0.50 met) | …
medians of all rounds; "-" is what was not measured. A target that was missed is shown and is no failure of the run.

Progress goes to standard error. Ctrl-C stops and removes everything, and prints what was measured so far. The first run builds the control
plane and Cluster API's manager, which takes minutes; both are kept in the user's cache directory.
Exit codes: 0 all was measured, 1 something failed, 2 wrong flags.

Flags:
`

// options are the flags of all benchmarks.
type options struct {
	size, rounds int
	arms, cases  []string
	output       string
	keep         bool

	pods, managers, workers int
	steady                  time.Duration
	floor                   bool
}

// kind is a benchmark.
type kind struct {
	name, about string
	// arms and cases are all that it has; the first arm is ours, and the second one is what it is compared with.
	arms, cases []string
	size, max   int
	// has reports whether a case has an arm; nil for all.
	has     func(of, arm string) bool
	columns []measure.Column
	// flags defines those that only this kind has, and check returns an error for the first one that is wrong; nil for none.
	flags func(*flag.FlagSet, *options)
	check func(options) error
	// plane changes the control plane; nil for not at all.
	plane func(options, *cluster.Options)
	// fresh: each run has a control plane of its own.
	fresh bool
	// prepare is called once on each control plane, and one measures one run.
	prepare func(context.Context, *lab) error
	one     func(context.Context, *lab, *measure.Run) error
}

// Names of the benchmarks.
func Names() []string {
	var names []string
	for _, k := range kinds() {
		names = append(names, k.name)
	}
	return names
}

func kinds() []kind {
	return []kind{machines(), set(), rollout(), health(), fleet(), pool(), drains(), gardener()}
}

func managers() []string { return []string{string(arm.Ours), string(arm.CAPI)} }

// parse reads the flags of a kind. Help goes to stdout.
func parse(k kind, args []string, stdout io.Writer) (options, error) {
	o := options{managers: 1, cases: k.cases, arms: k.arms}
	flags := flag.NewFlagSet(k.name, flag.ContinueOnError)
	flags.StringVar(&o.output, "o", "text", "format of the result: text or json")
	flags.IntVar(&o.rounds, "rounds", 1, "how often everything is measured; medians are printed")
	flags.BoolVar(&o.keep, "keep", false, "keep the directory with the audit log and the logs of all components")
	if k.size > 0 {
		flags.IntVar(&o.size, "size", k.size, "how many Machines, or instances, there are")
	}
	chosen := flags.String("arms", "", "comma-separated `names` of arms; the default is all")
	cases := flags.String("cases", "", "comma-separated `names` of cases; the default is all")
	if k.flags != nil {
		k.flags(flags, &o)
	}
	text := ""
	if len(k.cases) > 1 {
		text = "\nCases: " + strings.Join(k.cases, ", ")
	}
	about := fmt.Sprintf(usage, k.name, k.about, strings.Join(k.arms, ", "), text)
	err := cli.Parse(flags, args, about, stdout, func() (err error) {
		if o.arms, err = choose("arm", *chosen, k.arms); err != nil {
			return err
		}
		if o.cases, err = choose("case", *cases, k.cases); err != nil {
			return err
		}
		return o.validate(k)
	})
	return o, err
}

func (o options) validate(k kind) error {
	if err := cli.Format(o.output); err != nil {
		return err
	}
	switch {
	case o.rounds < 1:
		return errors.New("--rounds must be at least 1")
	case k.size > 0 && (o.size < 1 || o.size > k.max):
		return fmt.Errorf("--size must be 1 to %d", k.max)
	case o.pods < 0 || o.steady < 0:
		return errors.New("--pods and --steady must be 0 or more")
	case !slices.ContainsFunc(o.cases, func(of string) bool { return len(k.armsOf(of, o.arms)) > 0 }):
		return errors.New("none of the cases has any of the arms")
	case k.check != nil:
		return k.check(o)
	}
	return nil
}

// armsOf are those of some arms that a case has.
func (k kind) armsOf(of string, arms []string) []string {
	return slices.DeleteFunc(slices.Clone(arms), func(name string) bool { return k.has != nil && !k.has(of, name) })
}

// choose returns what was named, in the order of all, and all when nothing was.
func choose(what, named string, all []string) ([]string, error) {
	if named == "" {
		return all, nil
	}
	var chosen []string
	for name := range strings.SplitSeq(named, ",") {
		name = strings.TrimSpace(name)
		if !slices.Contains(all, name) {
			return nil, fmt.Errorf("no %s %q; there are %s", what, name, strings.Join(all, ", "))
		}
		chosen = append(chosen, name)
	}
	return slices.DeleteFunc(slices.Clone(all), func(one string) bool { return !slices.Contains(chosen, one) }), nil
}
