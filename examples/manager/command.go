package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/examples/command"
	"github.com/machinist-dev/machinist/examples/manager/api"
	"github.com/machinist-dev/machinist/examples/manager/options"
)

// outputJSON is the value of -o.
const outputJSON = "json"

// commandFlags are the flags that the commands for people have in common.
type commandFlags struct {
	kubeconfig, namespace, output string
	group                         api.Group
}

// add adds the flags. what is the object in the namespace, empty for a command without one.
func (c *commandFlags) add(flags *flag.FlagSet, what string) {
	flags.StringVar(&c.kubeconfig, "kubeconfig", "", "kubeconfig `file`; empty: KUBECONFIG, ~/.kube/config, or the pod's service account")
	options.GroupFlag(flags, &c.group)
	flags.StringVar(&c.output, "o", "", "json, or empty for text")
	if what != "" {
		flags.StringVar(&c.namespace, "namespace", "default", "`namespace` of the "+what)
		flags.StringVar(&c.namespace, "n", "default", "short for --namespace")
	}
}

// parse returns the words among the arguments, which flags may precede and follow. Help goes to out, and the error is flag.ErrHelp.
func (c *commandFlags) parse(flags *flag.FlagSet, usage string, args []string, out io.Writer) ([]string, error) {
	var words []string
	for rest := args; ; {
		if err := command.Parse(flags, rest, usage, out); err != nil {
			return nil, err
		}
		if flags.NArg() == 0 {
			break
		}
		words, rest = append(words, flags.Arg(0)), flags.Args()[1:]
	}
	if c.output != "" && c.output != outputJSON {
		return nil, fmt.Errorf("-o %q: give json, or nothing for text", c.output)
	}
	return words, options.ValidGroup("api-group", c.group)
}

// client returns a client without a cache and without a limit of requests.
func (c *commandFlags) client() (client.Client, error) { return clientOf(c.kubeconfig, c.group) }

func clientOf(kubeconfig string, group api.Group) (client.Client, error) {
	cfg, err := restConfig(unlimited(kubeconfig))
	if err != nil {
		return nil, err
	}
	scheme, err := newScheme(group)
	if err != nil {
		return nil, err
	}
	return client.New(cfg, client.Options{Scheme: scheme})
}

// print prints a value as JSON, or a text.
func (c *commandFlags) print(out io.Writer, value any, text string) error {
	if c.output == outputJSON {
		return json.NewEncoder(out).Encode(value)
	}
	_, err := fmt.Fprintln(out, text)
	return err
}

// finish runs a command after its flags were parsed, until a signal ends it, prints the error, and returns the exit code.
func finish(name string, parsed error, stderr io.Writer, run func(ctx context.Context) error) int {
	if code, refused := command.Refused("manager "+name, parsed, stderr); refused {
		return code
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintf(stderr, "manager %s: %v\n", name, err)
		return exitFailed
	}
	return exitDone
}
