package main

import (
	"cmp"
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
	commandPlan     = "plan"
	commandRun      = "run"
	commandUncordon = "uncordon"
)

// Values of flags.
const (
	outputTable = ""
	outputLines = "lines"
	outputWide  = "wide"
	outputJSON  = "json"

	rulesKubectl = "kubectl"
	rulesCAPI    = "capi"

	orderNone         = "none"
	orderCriticalLast = "critical-last"
	orderPriority     = "priority"

	dryRunNone   = "none"
	dryRunClient = "client"

	podsOwn = -1 // as a grace period
)

// options are the flags.
type options struct {
	command string
	nodes   []string
	given   []given // to be repeated

	selector            string
	kubeconfig, context string
	output              string

	rules, order                                  string
	force, ignoreDaemonSets, deleteEmptyDirData   bool
	podSelector                                   string
	gracePeriod, skipWaitForDelete, concurrency   int
	disableEviction, wait, waitVolumes, printRBAC bool
	deleteAfter, timeout                          time.Duration
	dryRun                                        string
}

const usage = `drainctl shows what draining Nodes would do, drains them, and gives them back.

  drainctl plan worker-1                      what would happen to every pod; changes nothing
  drainctl plan -l pool=old -o json | jq '.obstacles[]'
  drainctl run worker-1 worker-2              drains; Ctrl-C stops, the same command resumes
  drainctl run worker-1 --delete-emptydir-data --timeout 10m
  drainctl run -l pool=old --concurrency 0    all Nodes of a pool at once; budgets are counted over all of them
  drainctl uncordon worker-1                  makes Nodes schedulable again
  drainctl --print-rbac | kubectl apply -f -  the rights that it needs, as a ClusterRole

Flags that kubectl drain has mean the same here. What differs, and why:
  --ignore-daemonsets is on: pods of DaemonSets ignore the cordon, so a drain can do nothing else. =false refuses as kubectl does.
  Finished pods of DaemonSets stay: evicted, they would be created again without end.
  --force and --delete-emptydir-data stay off, because something is lost; the plan says which pods need them.
  --grace-period 0 is refused: it forgets pods that may still run. Give 1.
  What will never go (a budget that allows no eviction, pods that flags do not let go) stops the drain before the first
  cordon; --wait starts all the same, for when the way is about to be opened, or a webhook makes pods go that it is asked
  for (KubeVirt, Strimzi's drain cleaner).

`

const usageEnd = `Exit codes: 0 drained, or a plan that nothing permanent stands against; 1 failed; 2 wrong flags; 3 something stands in the
way for good; 4 --timeout has passed; 130 interrupted. After 4 and 130 Nodes stay cordoned, and the same command resumes.

`

// parse reads the command and its flags, which may stand before and after the names of Nodes. Help goes to out, and
// flag.ErrHelp is returned.
func parse(args []string, out io.Writer) (options, error) {
	var o options
	flags := o.flags()
	for rest := args; len(rest) > 0; {
		if err := command.Parse(flags, rest, usage+usageEnd+"Flags:\n", out); err != nil {
			return options{}, err
		}
		if rest = flags.Args(); len(rest) > 0 {
			o.take(rest[0])
			rest = rest[1:]
		}
	}
	flags.Visit(func(f *flag.Flag) {
		b, ok := f.Value.(interface{ IsBoolFlag() bool })
		o.given = append(o.given, given{name: f.Name, value: f.Value.String(), isBool: ok && b.IsBoolFlag()})
	})
	if o.printRBAC {
		return o, nil
	}
	return o, o.validate()
}

// take records a word that is not a flag: the command, and then the names of Nodes.
func (o *options) take(word string) {
	switch {
	case o.command == "":
		o.command = word
	case !slices.Contains(o.nodes, word):
		o.nodes = append(o.nodes, word)
	}
}

// given is a flag that was given.
type given struct {
	name, value string
	isBool      bool
}

func (o *options) flags() *flag.FlagSet {
	flags := flag.NewFlagSet("drainctl", flag.ContinueOnError)
	flags.Usage = func() {}
	flags.StringVar(&o.kubeconfig, "kubeconfig", "", "kubeconfig `file`; empty: KUBECONFIG, ~/.kube/config, or the pod's service account")
	flags.StringVar(&o.context, "context", "", "`name` of the kubeconfig's context; empty: its current one")
	flags.StringVar(&o.selector, "selector", "", "label `selector` of the Nodes, instead of their names")
	flags.StringVar(&o.selector, "l", "", "short for --selector")
	flags.StringVar(&o.output, "o", outputTable, "plan: wide or json; run: lines or json; empty: a table, live on a terminal")
	flags.BoolVar(&o.printRBAC, "print-rbac", false, "print the ClusterRole that is needed, and end")
	o.podFlags(flags)
	o.runFlags(flags)
	return flags
}

// podFlags decide about pods.
func (o *options) podFlags(flags *flag.FlagSet) {
	flags.StringVar(&o.rules, "rules", rulesKubectl,
		"kubectl, with the flags that follow; or capi, which obeys the label cluster.x-k8s.io/drain and evicts the rest, as Cluster API does")
	flags.BoolVar(&o.force, "force", false, "let pods go that no controller creates again")
	flags.BoolVar(&o.ignoreDaemonSets, "ignore-daemonsets", true,
		"leave pods of DaemonSets where they are; false refuses to drain because of them")
	flags.BoolVar(&o.deleteEmptyDirData, "delete-emptydir-data", false, "let pods go that lose the data of an emptyDir volume")
	flags.StringVar(&o.podSelector, "pod-selector", "", "label `selector` of the pods that have to go; empty: all")
	flags.IntVar(&o.skipWaitForDelete, "skip-wait-for-delete-timeout", 0,
		"do not wait for pods that should have been gone for so many `seconds`, as on a Node that does not answer; 0 waits for all")
	flags.StringVar(&o.order, "order", orderNone,
		"none; critical-last: system-critical pods go after all others; priority: pods go by priority, lowest first, one after the other")
	flags.IntVar(&o.gracePeriod, "grace-period", podsOwn, "`seconds` that pods get to end; -1: each pod's own")
	flags.BoolVar(&o.disableEviction, "disable-eviction", false, "delete pods instead of evicting them, which ignores disruption budgets")
}

// runFlags decide how a drain is carried out.
func (o *options) runFlags(flags *flag.FlagSet) {
	flags.DurationVar(&o.deleteAfter, "delete-after", 0,
		"run: after this `time` on a Node, delete what could not be evicted, which ignores disruption budgets; 0 is never")
	flags.DurationVar(&o.timeout, "timeout", 0, "run: give up after this `time`; 0 is never")
	flags.IntVar(&o.concurrency, "concurrency", 1, "run: `Nodes` that are drained at the same time; 0: all. All are cordoned at the start")
	flags.BoolVar(&o.wait, "wait", false, "run: start although an obstacle does not disappear by waiting, and wait until a person removes it")
	flags.BoolVar(&o.waitVolumes, "wait-volumes", false, "run: wait at the end until the volumes of the pods are detached")
	o.dryRun = dryRunNone
	flags.Var((*dryRun)(&o.dryRun), "dry-run", "none, or client: the same as plan")
}

// dryRun is a flag that may stand alone, as kubectl's.
type dryRun string

func (d *dryRun) String() string   { return string(*d) }
func (d *dryRun) IsBoolFlag() bool { return true }

func (d *dryRun) Set(text string) error {
	switch text {
	case "true":
		text = dryRunClient
	case "false":
		text = dryRunNone
	}
	*d = dryRun(text) // validate judges, because an error here would speak of booleans
	return nil
}

// validate reports all problems.
func (o *options) validate() error {
	errs := []error{o.validateCommand()}
	add := func(wrong bool, format string, args ...any) {
		if wrong {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	oneOf := func(name, value string, allowed ...string) {
		add(!slices.Contains(allowed, value), "--%s %q: give %s", name, value, strings.Join(allowed, " or "))
	}
	oneOf("rules", o.rules, rulesKubectl, rulesCAPI)
	oneOf("order", o.order, orderNone, orderCriticalLast, orderPriority)
	add(o.rules == rulesCAPI && o.kubectlOnly() != "", "--%s has no meaning with --rules capi, which lets such pods go", o.kubectlOnly())
	validSelector := func(name, text string) {
		_, err := labels.Parse(text)
		add(err != nil, "--%s %q: %v", name, text, err)
	}
	validSelector("selector", o.selector)
	validSelector("pod-selector", o.podSelector)
	add(o.dryRun == "server",
		"--dry-run=server: the server tries each pod against the same untouched budget and so promises too much; give client")
	add(!slices.Contains([]string{dryRunNone, dryRunClient, "server"}, o.dryRun), "--dry-run %q: give none or client", o.dryRun)
	add(o.gracePeriod == 0, "--grace-period 0 forgets pods while they may still run; give 1 for the shortest time that is safe")
	add(o.gracePeriod < podsOwn, "--grace-period %d: give a number of seconds, or -1 for each pod's own", o.gracePeriod)
	add(o.skipWaitForDelete < 0, "--skip-wait-for-delete-timeout %d: give a number of seconds, or 0", o.skipWaitForDelete)
	add(o.concurrency < 0, "--concurrency %d: give a number of Nodes, or 0 for all", o.concurrency)
	add(o.timeout < 0, "--timeout %s: give a time such as 10m, or 0", o.timeout)
	add(o.deleteAfter < 0, "--delete-after %s: give a time such as 10m, or 0", o.deleteAfter)
	add(o.deleteAfter > 0 && o.disableEviction, "--delete-after has no meaning with --disable-eviction, which deletes at once")
	return errors.Join(errs...)
}

func (o *options) validateCommand() error {
	outputs := []string{outputTable, outputJSON}
	switch o.command {
	case commandPlan:
		outputs = append(outputs, outputWide)
	case commandRun:
		if outputs = append(outputs, outputLines); o.dryRun == dryRunClient {
			outputs = append(outputs, outputWide)
		}
	case commandUncordon:
		outputs = []string{outputTable}
	case "":
		return errors.New("give a command: plan, run or uncordon")
	default:
		return fmt.Errorf("unknown command %q: give plan, run or uncordon", o.command)
	}
	var errs []error
	if !slices.Contains(outputs, o.output) {
		errs = append(errs, fmt.Errorf("-o %q: %s knows %s", o.output, o.command, cmp.Or(strings.Join(outputs[1:], ", "), "no formats")))
	}
	switch {
	case o.selector == "" && len(o.nodes) == 0:
		errs = append(errs, errors.New("name the Nodes, or select them with -l"))
	case o.selector != "" && len(o.nodes) > 0:
		errs = append(errs, fmt.Errorf("-l %s and names (%s): give one of them", o.selector, strings.Join(o.nodes, ", ")))
	}
	return errors.Join(errs...)
}

// kubectlOnly names a flag that only kubectl's rules understand, if one was given.
func (o *options) kubectlOnly() string {
	switch {
	case o.force:
		return "force"
	case !o.ignoreDaemonSets:
		return "ignore-daemonsets=false"
	case o.deleteEmptyDirData:
		return "delete-emptydir-data"
	case o.podSelector != "":
		return "pod-selector"
	case o.skipWaitForDelete != 0:
		return "skip-wait-for-delete-timeout"
	default:
		return ""
	}
}
