package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/machinist-dev/machinist/machineset/deployment"
)

const rolloutUsage = `manager rollout does for MachineDeployments what kubectl rollout does for Deployments.

  manager rollout status NAME --watch              how far it is and what it waits for, until it is done;
                                                   it goes on while the API server does not answer
  manager rollout history NAME                     the revisions
  manager rollout undo NAME --to-revision 3        back to a revision; 0 is the one before
  manager rollout pause NAME                       hold it up; scaling goes on
  manager rollout resume NAME
  manager rollout restart NAME                     replace all Machines, without a change of the template

Exit codes: 0 done, or going on without --watch; 1 failed, or the progress deadline is exceeded; 2 wrong flags.

Flags:
`

// rolloutOptions are the flags of manager rollout.
type rolloutOptions struct {
	commandFlags

	revision          int64
	watch             bool
	timeout, interval time.Duration

	verb, name string
}

// parseRollout reads the arguments behind "rollout". Help goes to out, and the error is flag.ErrHelp.
func parseRollout(args []string, out io.Writer) (rolloutOptions, error) {
	o := rolloutOptions{interval: watchInterval}
	flags := flag.NewFlagSet("manager rollout", flag.ContinueOnError)
	o.add(flags, "MachineDeployment")
	flags.Int64Var(&o.revision, "to-revision", 0, "for undo: the `revision`, 0 for the one before")
	flags.BoolVar(&o.watch, "watch", false, "for status: wait until the rollout is done, and print each change")
	flags.DurationVar(&o.timeout, "timeout", 0, "for status --watch: give up after this time; 0 is no limit")
	words, err := o.parse(flags, rolloutUsage, args, out)
	if err != nil {
		return o, err
	}
	if len(words) != 2 {
		return o, errors.New("give a verb and a name, such as: rollout status workers")
	}
	o.verb, o.name = words[0], words[1]
	if verbs := []string{"status", "history", "undo", "pause", "resume", "restart"}; !slices.Contains(verbs, o.verb) {
		return o, fmt.Errorf("%q: give %s", o.verb, strings.Join(verbs, ", "))
	}
	return o, nil
}

// rolloutCommand is manager rollout. It returns the exit code.
func rolloutCommand(args []string, stdout, stderr io.Writer) int {
	o, err := parseRollout(args, stdout)
	return finish("rollout", err, stderr, func(ctx context.Context) error {
		c, err := o.client()
		if err != nil {
			return err
		}
		return o.perform(ctx, deployment.Commands{Client: c, Kinds: kindsOf(o.group)}, stdout)
	})
}

// perform runs one verb.
func (o rolloutOptions) perform(ctx context.Context, c deployment.Commands, out io.Writer) error {
	key := types.NamespacedName{Namespace: o.namespace, Name: o.name}
	switch o.verb {
	case "status":
		return o.status(ctx, c, key, out)
	case "history":
		history, err := c.History(ctx, key)
		if err != nil {
			return err
		}
		return o.printHistory(history, out)
	case "undo":
		done, err := c.Undo(ctx, key, o.revision)
		if err != nil {
			return err
		}
		return o.print(out, done, fmt.Sprintf("machinedeployment %s goes back to revision %d", o.name, done.Number))
	}
	do, result := c.Restart, "restarted"
	switch o.verb {
	case "pause":
		do, result = c.Pause, "paused"
	case "resume":
		do, result = c.Resume, "resumed"
	}
	if err := do(ctx, key); err != nil {
		return err
	}
	return o.print(out, map[string]string{"name": o.name, "result": result}, "machinedeployment "+o.name+" "+result)
}

func (o rolloutOptions) printHistory(history []deployment.Revision, out io.Writer) error {
	if o.output == outputJSON {
		return json.NewEncoder(out).Encode(history)
	}
	w := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
	fmt.Fprintln(w, "REVISION\tMACHINESET\tREPLICAS\tCURRENT\tAGE\tCHANGE-CAUSE")
	for _, r := range history {
		current := ""
		if r.Current {
			current = "*"
		}
		fmt.Fprintf(w, "%d\t%s\t%d\t%s\t%s\t%s\n", r.Number, r.Set, r.Replicas, current, duration.HumanDuration(time.Since(r.Created)), r.Cause)
	}
	return w.Flush()
}
