package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/machinist-dev/machinist/examples/command"
	"github.com/machinist-dev/machinist/examples/lab/bench"
)

const usage = `drainbench drains the same Nodes with this library, with kubectl's drain helper and with Cluster API's manager, on a
real control plane on this computer (etcd, kube-apiserver, kube-controller-manager, kube-scheduler; kwok plays the
kubelets), and prints what each of them cost.

  go run -C examples/lab ./drainbench                               all scenarios with all their arms, one round
  go run -C examples/lab ./drainbench --scenario 1,4                some scenarios
  go run -C examples/lab ./drainbench --arms ours,kubectl           some arms
  go run -C examples/lab ./drainbench --rounds 3 -o json | jq .line medians of three rounds, as JSON

Scenarios:
%s
Arms:
  ours              drain/runner behind the informers of a manager (Nodes, budgets), four workers
  kubectl           kubectl's drain.Helper: retry delay 5 s, one call per Node, all Nodes at once, no client limits
  kubectl-defaults  the same with client-go's own limits, 5 requests a second: what the kubectl command does
  capi              the manager of Cluster API v1.13.6 without client limits; a Machine is deleted. It evicts one pod after the other
                    for 10 s at most and looks again after 20 s; 100 pods are about what one such pass can do

An arm is prepared first: informers are synced, the manager runs, the Machine has its Node. Then the clock starts. Wall is
the time until the arm says that its Nodes are drained; for Cluster API, until it goes on to delete the Machine's
infrastructure. "last eviction" and "pods gone" say where that time went. After 3 minutes an arm is given up, and its
wall begins with ">"; if that happens to ours, something is broken, and the run fails.

Requests are those about pods, Nodes, budgets, DaemonSets and volumes, and discovery. Cluster API's work on its own objects is
not counted, and neither are the informers that an operator keeps open for its whole life (column standing), unless a
process is started during the drain, as in (6).

A budget opens when its status says so: reaction is the time from that write to the first accepted eviction. Those who poll
are as fast as chance will have it: kubectl's reaction is anything up to 5 s, Cluster API's up to 20 s.

A wrong-node eviction is an evicted pod that runs on a Node that noOwner drains. A duplicate is an eviction asked for again
although the same pod's was not refused with 429: it was accepted, or its answer was lost with the process; in brackets
is how many one pod had at most.

The last line of standard output (of standard error with -o json) is
  drain-bench: requests/pod ours=… kubectl=… capi=… | wall ours=… kubectl=… capi=… | wrong-node evictions ours=… kubectl=…
with requests/pod and wall of scenario 1, and wrong-node evictions of scenario 5, medians of all rounds; kubectl is the
arm without client limits, and "-" is what was not measured.

Progress goes to standard error. Ctrl-C stops and removes everything, and prints what was measured so far. The first run
builds the control plane and Cluster API's manager, which takes minutes; both are kept in the user's cache directory.
Exit codes: 0 all was measured, 1 something failed, 2 wrong flags.

Flags:
`

// options are what a person can choose.
type options struct {
	output    string
	rounds    int
	scenarios []scenario
	arms      []armName
	keep      bool
}

func parse(args []string, stdout io.Writer) (options, error) {
	o := options{arms: armNames()}
	flags := flag.NewFlagSet("drainbench", flag.ContinueOnError)
	flags.StringVar(&o.output, "o", "text", "format of the result: text or json")
	flags.IntVar(&o.rounds, "rounds", 1, "how often everything is measured; medians are printed")
	flags.BoolVar(&o.keep, "keep", false, "keep the directory with the audit log and the logs of all components")
	numbers := flags.String("scenario", "", "comma-separated `numbers` of scenarios; the default is all")
	arms := flags.String("arms", "", "comma-separated `names` of arms; the default is all that a scenario has")
	if err := command.Parse(flags, args, fmt.Sprintf(usage, listScenarios()), stdout); err != nil {
		return o, fmt.Errorf("%w: %w", bench.ErrUsage, err)
	}
	if err := o.choose(*numbers, *arms); err != nil {
		return o, fmt.Errorf("%w: %w", bench.ErrUsage, err)
	}
	switch {
	case flags.NArg() > 0:
		return o, fmt.Errorf("%w: unexpected argument %q", bench.ErrUsage, flags.Arg(0))
	case o.output != "text" && o.output != "json":
		return o, fmt.Errorf("%w: -o is text or json, not %q", bench.ErrUsage, o.output)
	case o.rounds < 1:
		return o, fmt.Errorf("%w: --rounds must be at least 1", bench.ErrUsage)
	}
	return o, nil
}

// choose narrows scenarios and arms to what was named. A scenario that has none of the arms is left out.
func (o *options) choose(numbers, arms string) error {
	if arms != "" {
		o.arms = nil
		for name := range strings.SplitSeq(arms, ",") {
			arm := armName(strings.TrimSpace(name))
			if !slices.Contains(armNames(), arm) {
				return fmt.Errorf("no arm %q; there are %v", name, armNames())
			}
			o.arms = append(o.arms, arm)
		}
	}
	wanted := map[int]bool{}
	for number := range strings.SplitSeq(numbers, ",") {
		if numbers == "" {
			break
		}
		n, err := strconv.Atoi(strings.TrimSpace(number))
		if err != nil || n < 1 || n > len(scenarios()) {
			return fmt.Errorf("no scenario %q; there are 1 to %d", number, len(scenarios()))
		}
		wanted[n] = true
	}
	for _, s := range scenarios() {
		s.arms = slices.DeleteFunc(s.arms, func(a armName) bool { return !slices.Contains(o.arms, a) })
		if (numbers == "" || wanted[s.number]) && len(s.arms) > 0 {
			o.scenarios = append(o.scenarios, s)
		}
	}
	if len(o.scenarios) == 0 {
		return errors.New("none of the scenarios has any of the arms")
	}
	return nil
}

func listScenarios() string {
	var out strings.Builder
	for _, s := range scenarios() {
		names := make([]string, 0, len(s.arms))
		for _, a := range s.arms {
			names = append(names, string(a))
		}
		fmt.Fprintf(&out, "  (%d) %s [%s]\n", s.number, s.title, strings.Join(names, ", "))
	}
	return out.String()
}
