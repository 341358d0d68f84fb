// Command contractlint lints the CRDs and objects of a Cluster API provider against the contract: it shows the provider's
// author before the first user whether a Machine could ever become Running with them.
//
//	kustomize build path/to/provider/config/crd | go run ./examples/contractlint -
//
// Its rules are in package contract/conformance. This command reads files, folders and standard input.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/contract/conformance"
	"github.com/machinist-dev/machinist/examples/command"
)

const usage = `contractlint lints the CRDs and objects of a Cluster API provider against the provider contract.

  kustomize build config/crd | contractlint -      with the labels that the kustomization sets
  contractlint -o json components.yaml             a file as a provider releases it, or a folder of YAML
  kubectl get awsmachine worker-1 -o yaml | contractlint -contract v1beta1 -

Kinds count that a Machine or a MachinePool reads, by their group and name. -role Kind=role judges another one.
Exit codes: 0 no MUST is broken, 1 one is (with -strict also a SHOULD), 2 wrong flags, or input that cannot be read.

Flags:
`

// The exit codes.
const (
	exitOK     = 0
	exitBroken = 1
	exitUsage  = 2
)

func main() { os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) }

// options are what a person can choose.
type options struct {
	paths    []string
	output   string
	roles    roles
	contract contract.Version
	strict   bool
}

// run is main without the process.
func run(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	return command.Run("contractlint", command.Codes{Done: exitOK, Lost: exitUsage}, stdout, stderr, func(out io.Writer) int {
		return perform(args, stdin, out, stderr)
	})
}

// perform does what the arguments ask for and returns the exit code.
func perform(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	o, err := parse(args, stdout)
	if code, refused := command.Refused("contractlint", err, stderr); refused {
		return code
	}
	in := &input{stdin: stdin}
	for _, path := range o.paths {
		in.read(path)
	}
	result := lint(in, o)
	if len(result.Checked)+len(result.Skipped) == 0 && len(in.errs) == 0 {
		in.errs = append(in.errs, errors.New("found neither a CustomResourceDefinition nor an object of a provider in the input"))
	}
	if err := result.write(stdout, o.output); err != nil {
		in.errs = append(in.errs, err)
	}
	for _, err := range in.errs {
		fmt.Fprintf(stderr, "contractlint: %v\n", err)
	}
	switch {
	case len(in.errs) > 0:
		return exitUsage
	case result.Must > 0, o.strict && result.Should > 0:
		return exitBroken
	default:
		return exitOK
	}
}

func parse(args []string, stdout io.Writer) (options, error) {
	o := options{roles: roles{byKind: map[string]conformance.Role{}}}
	flags := flag.NewFlagSet("contractlint", flag.ContinueOnError)
	flags.StringVar(&o.output, "o", "text", "format of the report: text or json")
	flags.Var(&o.roles, "role", "judge everything as this `role`, such as InfraMachine, or one kind: Kind=role or Kind.group=role, where the "+
		"with role none it is not judged; can be repeated; the default is to guess by group and kind")
	version := flags.String("contract", "",
		"the contract `version` of objects whose CRD is not in the input, such as v1beta2; without it they are not judged")
	flags.BoolVar(&o.strict, "strict", false, "exit 1 for a SHOULD too")
	if err := command.Parse(flags, args, usage, stdout); err != nil {
		return o, err
	}
	o.paths, o.contract = flags.Args(), contract.Version(*version)
	switch {
	case len(o.paths) == 0:
		return o, errors.New("name a file, a folder, or - for standard input")
	case o.output != "text" && o.output != "json":
		return o, fmt.Errorf("-o is text or json, not %q", o.output)
	case o.contract != "" && !slices.Contains(contract.AllVersions(), o.contract):
		return o, fmt.Errorf("-contract is one of %v, not %q", contract.AllVersions(), o.contract)
	}
	return o, nil
}

// roles are what a person gives for kinds: the role of all, or of one by its kind, or by its kind and group in dots. An empty role of a
// kind means that it has none.
type roles struct {
	all    conformance.Role
	byKind map[string]conformance.Role
}

// of returns the role that was given for a kind.
func (r *roles) of(gk schema.GroupKind) (role conformance.Role, given bool) {
	for _, name := range []string{gk.String(), gk.Kind} {
		if role, given = r.byKind[name]; given {
			return role, true
		}
	}
	return r.all, r.all != ""
}

// String is empty, so that help names no default.
func (r *roles) String() string { return "" }

// Set reads role or Kind=role.
func (r *roles) Set(text string) error {
	kind, word, split := strings.Cut(text, "=")
	if !split {
		kind, word = "", text
	} else if kind == "" {
		return fmt.Errorf("name a kind before the = of %q", text)
	}
	i := slices.IndexFunc(conformance.Roles(), func(role conformance.Role) bool { return strings.EqualFold(string(role), word) })
	switch {
	case i >= 0 && split:
		r.byKind[kind] = conformance.Roles()[i]
	case i >= 0:
		r.all = conformance.Roles()[i]
	case word == "none" && split:
		r.byKind[kind] = ""
	default:
		return fmt.Errorf("read role %.40q: want one of %v, or Kind=none", word, conformance.Roles())
	}
	return nil
}
