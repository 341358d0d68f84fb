package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/machinist-dev/machinist/examples/command"
)

// Commands.
const (
	commandPlan = "plan"
	commandRun  = "run"
)

const (
	podsOwn    = -1 // as a grace period
	outputJSON = "json"
)

// options are the flags.
type options struct {
	command string
	nodes   []string

	selector, output        string
	kubeconfig, context     string
	force, ignoreDaemonSets bool
	deleteEmptyDirData      bool
	disableEviction         bool
	gracePeriod             int
	skipWaitForDelete       int
	wait                    bool
	timeout                 time.Duration
}

const usage = `drainctl shows what draining Nodes would do, and drains them.

  drainctl plan worker-1                      what would happen to every pod; changes nothing
  drainctl run worker-1 worker-2              drains; Ctrl-C stops, the same command resumes
  drainctl run -l pool=old                    all Nodes of a pool at once; budgets are counted over all of them

Flags that kubectl drain has mean the same here. What differs, and why:
  --ignore-daemonsets is on: pods of DaemonSets ignore the cordon, so a drain can do nothing else. =false refuses as kubectl does.
  --force and --delete-emptydir-data stay off, because something is lost; the plan says which pods need them.
  What will never go (a budget that allows no eviction, pods that flags do not let go) stops the drain before the first
  cordon; --wait starts all the same: the way is about to be opened, or a webhook makes pods go (KubeVirt, Strimzi).

Exit codes: 0 drained, or a plan that nothing blocks for ever; 1 failed; 2 wrong flags; 3 something is in the
way for good; 4 --timeout has passed; 130 interrupted. After 4 and 130 Nodes stay cordoned, and the same command resumes.
Flags:
`

// parse reads the command and its flags, which may be before and after the names of Nodes. Help goes to out, and
// flag.ErrHelp is returned.
func parse(args []string, out io.Writer) (options, error) {
	var o options
	flags := o.flags()
	for rest := args; len(rest) > 0; {
		if err := command.Parse(flags, rest, usage, out); err != nil {
			return options{}, err
		}
		if rest = flags.Args(); len(rest) > 0 {
			switch word := rest[0]; {
			case o.command == "":
				o.command = word
			case !slices.Contains(o.nodes, word):
				o.nodes = append(o.nodes, word)
			}
			rest = rest[1:]
		}
	}
	return o, o.validate()
}

func (o *options) flags() *flag.FlagSet {
	flags := flag.NewFlagSet("drainctl", flag.ContinueOnError)
	flags.StringVar(&o.kubeconfig, "kubeconfig", "", "kubeconfig `file`; empty: KUBECONFIG, ~/.kube/config, or the pod's service account")
	flags.StringVar(&o.context, "context", "", "`name` of the kubeconfig's context; empty: its current one")
	flags.StringVar(&o.selector, "selector", "", "label `selector` of the Nodes, instead of their names")
	flags.StringVar(&o.selector, "l", "", "short for --selector")
	flags.StringVar(&o.output, "o", "", "plan, run: `json`, an object for programs, or one for each event; empty: text for people")
	flags.DurationVar(&o.timeout, "timeout", 0, "run: give up after this `time`; 0 is never")
	flags.BoolVar(&o.wait, "wait", false, "run: start although an obstacle does not disappear by waiting, and wait until a person removes it")
	flags.BoolVar(&o.force, "force", false, "let pods go that no controller creates again")
	flags.BoolVar(&o.ignoreDaemonSets, "ignore-daemonsets", true,
		"leave pods of DaemonSets where they are; false refuses to drain because of them")
	flags.BoolVar(&o.deleteEmptyDirData, "delete-emptydir-data", false, "let pods go that lose the data of an emptyDir volume")
	flags.IntVar(&o.skipWaitForDelete, "skip-wait-for-delete-timeout", 0,
		"do not wait for pods that should have been gone for so many `seconds`, as on a Node that does not answer; 0 waits for all")
	flags.IntVar(&o.gracePeriod, "grace-period", podsOwn, "`seconds` that pods get to end; -1: each pod's own")
	flags.BoolVar(&o.disableEviction, "disable-eviction", false, "delete pods instead of evicting them, which ignores disruption budgets")
	return flags
}

// validate reports all problems.
func (o *options) validate() error {
	var errs []error
	add := func(wrong bool, format string, args ...any) {
		if wrong {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	add(o.command != commandPlan && o.command != commandRun, "give a command: unknown command %q: must be plan or run", o.command)
	add(o.selector == "" && len(o.nodes) == 0, "name the Nodes, or select them with -l")
	add(o.selector != "" && len(o.nodes) > 0, "-l %s and names (%s): give one of them", o.selector, strings.Join(o.nodes, ", "))
	_, err := labels.Parse(o.selector)
	add(err != nil, "invalid --selector %q: %v", o.selector, err)
	add(o.output != "" && o.output != outputJSON, "invalid -o %q: must be json, or nothing for people", o.output)
	add(o.gracePeriod == 0, "--grace-period 0 forgets pods while they may still run; give 1 for the shortest time that is safe")
	add(o.gracePeriod < podsOwn, "invalid --grace-period %d: must be a number of seconds, or -1 for each pod's own", o.gracePeriod)
	add(o.skipWaitForDelete < 0, "invalid --skip-wait-for-delete-timeout %d: must be a number of seconds, or 0", o.skipWaitForDelete)
	add(o.timeout < 0, "invalid --timeout %s: must be a time such as 10m, or 0", o.timeout)
	return errors.Join(errs...)
}
