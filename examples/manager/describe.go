package main

import (
	"context"
	"errors"
	"flag"
	"io"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/machinist-dev/machinist/examples/manager/describe"
)

const describeUsage = `manager describe shows what a Machine waits for, since when, and what a person can do.

  manager describe machine NAME             on one screen
  manager describe machine NAME -o json     as JSON

Exit codes: 0 done, 1 failed, 2 wrong flags.

Flags:
`

// describeOptions are the flags of manager describe.
type describeOptions struct {
	commandFlags

	nodes string
	name  string
}

func parseDescribe(args []string, out io.Writer) (describeOptions, error) {
	var o describeOptions
	flags := flag.NewFlagSet("manager describe", flag.ContinueOnError)
	o.add(flags, "Machine")
	flags.StringVar(&o.nodes, "node-kubeconfig", "", "kubeconfig `file` for the cluster of the Nodes; empty: that of the Machines")
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

// describeCommand is manager describe. It returns the exit code.
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

func (o *describeOptions) reader() (describe.Reader, error) {
	c, err := o.client()
	if err != nil {
		return describe.Reader{}, err
	}
	r := describe.Reader{Client: c, Kind: kindsOf(o.group).Machine}
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
		return o.print(out, m, "")
	}
	return m.Print(out, r.Now)
}
