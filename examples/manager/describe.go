package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/examples/manager/describe"
)

const describeUsage = `manager describe tells what a Machine waits for, since when, and what a person can do.

  manager describe machine NAME             on one screen
  manager describe machine NAME -o json     as JSON

Exit codes: 0 done, 1 failed, 2 wrong flags.

Flags:
`

const treeUsage = `manager tree shows a MachineDeployment with its MachineSets, Machines and Nodes, and the Pods and budgets that
hold drains.

  manager tree NAME             once
  manager tree NAME --watch     again after each change, until Ctrl-C; it goes on while the API server does not answer
  manager tree NAME -o json     as JSON; with --watch a line for each change

Exit codes: 0 done, 1 failed, 2 wrong flags.

Flags:
`

// describeOptions are the flags of manager describe and manager tree.
type describeOptions struct {
	commandFlags

	nodes    string
	watch    bool
	interval time.Duration
	name     string
}

func parseDescribe(args []string, out io.Writer) (describeOptions, error) {
	var o describeOptions
	flags := flag.NewFlagSet("manager describe", flag.ContinueOnError)
	o.flags(flags, "Machine")
	words, err := o.parse(flags, describeUsage, args, out)
	switch {
	case err != nil:
		return o, err
	case len(words) != 2 || words[0] != "machine":
		return o, errors.New("give a kind and a name, such as: describe machine workers-abcde")
	}
	o.name = words[1]
	return o, nil
}

func parseTree(args []string, out io.Writer) (describeOptions, error) {
	o := describeOptions{interval: watchInterval}
	flags := flag.NewFlagSet("manager tree", flag.ContinueOnError)
	o.flags(flags, "MachineDeployment")
	flags.BoolVar(&o.watch, "watch", false, "print the tree again after each change")
	words, err := o.parse(flags, treeUsage, args, out)
	switch {
	case err != nil:
		return o, err
	case len(words) != 1:
		return o, errors.New("give the name of a MachineDeployment, such as: tree workers")
	}
	o.name = words[0]
	return o, nil
}

func (o *describeOptions) flags(flags *flag.FlagSet, what string) {
	o.add(flags, what)
	flags.StringVar(&o.nodes, "node-kubeconfig", "", "kubeconfig `file` for the cluster of the Nodes; empty: that of the Machines")
}

// describeCommand is manager describe, and treeCommand manager tree. They return the exit code.
func describeCommand(args []string, stdout, stderr io.Writer) int {
	o, err := parseDescribe(args, stdout)
	return finish("describe", err, stderr, func(ctx context.Context) error {
		r, err := o.reader()
		if err != nil {
			return err
		}
		return o.describe(ctx, r, stdout)
	})
}

func treeCommand(args []string, stdout, stderr io.Writer) int {
	o, err := parseTree(args, stdout)
	return finish("tree", err, stderr, func(ctx context.Context) error {
		r, err := o.reader()
		if err != nil {
			return err
		}
		return o.tree(ctx, r, stdout)
	})
}

func (o *describeOptions) reader() (describe.Reader, error) {
	c, err := o.client()
	if err != nil {
		return describe.Reader{}, err
	}
	r := describe.Reader{Client: c, Kinds: deploymentKinds(o.group)}
	if o.nodes != "" {
		r.Nodes, err = clientOf(o.nodes, o.group)
	}
	return r, err
}

func (o *describeOptions) describe(ctx context.Context, r describe.Reader, out io.Writer) error {
	r.Now = time.Now()
	m, err := r.Machine(ctx, types.NamespacedName{Namespace: o.namespace, Name: o.name})
	if err != nil {
		return err
	}
	if o.output == outputJSON {
		return o.say(out, m, "")
	}
	return m.Print(out, r.Now)
}

// tree prints the tree, with --watch after each change until ctx ends. Ages alone are no change.
func (o *describeOptions) tree(ctx context.Context, r describe.Reader, out io.Writer) error {
	ticker := time.NewTicker(o.interval)
	defer ticker.Stop()
	for said := []byte(nil); ; {
		r.Now = time.Now()
		tree, err := r.Tree(ctx, types.NamespacedName{Namespace: o.namespace, Name: o.name})
		switch {
		case ctx.Err() != nil && o.watch:
			return nil
		case err != nil && o.watch && passes(err):
			tree = describe.Tree{Kind: "MachineDeployment", Name: o.name, Status: "the API server does not answer, trying again: " +
				contract.SteadyText(err.Error())}
		case err != nil:
			return err
		}
		if said, err = o.printTree(tree, r.Now, said, out); err != nil || !o.watch {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

// printTree prints a tree unless it is the one that was printed before, and returns what it is compared by.
func (o *describeOptions) printTree(tree describe.Tree, now time.Time, said []byte, out io.Writer) ([]byte, error) {
	var still bytes.Buffer
	if err := tree.Print(&still, time.Time{}); err != nil || bytes.Equal(still.Bytes(), said) {
		return said, err
	}
	if o.output == outputJSON {
		return still.Bytes(), o.say(out, tree, "")
	}
	if said != nil {
		fmt.Fprintln(out)
	}
	return slices.Clip(still.Bytes()), tree.Print(out, now)
}
