// Command contractlint lints the CRDs and objects of a Cluster API provider against the contract: it tells the provider's
// author before the first user whether a Machine could ever become Running with them.
//
//	go run ./examples/contractlint path/to/provider/config/crd
//
// What it knows is in package contract/conformance. This command reads files: it finds the contract labels, which providers
// keep in a kustomization and not in the CRD files.
package main

import (
	"encoding"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/contract/conformance"
)

const usage = `contractlint lints the CRDs and objects of a Cluster API provider against the provider contract.

  contractlint config/crd                        a kustomize folder: labels and patches of its kustomization are applied
  contractlint config/crd/bases/x_foos.yaml      one file; its labels are looked for in a kustomization that lists it
  contractlint infrastructure-components.yaml    a built manifest with many documents, as a provider releases it
  kustomize build config/default | contractlint -
  kubectl get crd -l cluster.x-k8s.io/provider -o yaml | contractlint -
  kubectl get awsmachine worker-1 -o yaml | contractlint -contract v1beta1 -
  contractlint -o json config/crd | jq '.checked[].findings[]'

Of CRDs and objects, those count that a Machine or a MachinePool reads: kinds that end in Machine, MachineTemplate,
MachinePool or MachinePoolTemplate in a group with the part "infrastructure", and Config or ConfigTemplate in one with the
part "bootstrap". -role judges everything in the input by one role, for kinds with other names. A folder without a
kustomization is searched for YAML and JSON files. Kustomize itself is not needed; of a kustomization are read: resources,
components, labels, commonLabels and patches, and what else it has that could change a CRD is named as a warning.

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
	role     conformance.Role
	contract contract.Version
	strict   bool
}

// run is main without the process.
func run(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	o, err := parse(args, stdout)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return exitOK
	case err != nil:
		fmt.Fprintf(stderr, "contractlint: %v\nRun with -h for help.\n", err)
		return exitUsage
	}
	in := newInput(stdin)
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
	var o options
	flags := flag.NewFlagSet("contractlint", flag.ContinueOnError)
	flags.SetOutput(io.Discard) // errors are printed once, by run
	flags.StringVar(&o.output, "o", "text", "format of the report: text or json")
	flags.Var(text{&o.role}, "role", "judge everything as this `role`, such as InfraMachine; the default is to tell by group and kind")
	version := flags.String("contract", "", "the contract `version` of objects whose CRD is not in the input, such as v1beta2")
	flags.BoolVar(&o.strict, "strict", false, "exit 1 for a SHOULD too")
	if err := flags.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			fmt.Fprint(stdout, usage)
			flags.SetOutput(stdout)
			flags.PrintDefaults()
		}
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

// text makes a flag of what reads and writes itself as text. Its zero value is written as nothing, so that help does not
// name it as a default.
type text struct {
	value interface {
		encoding.TextUnmarshaler
		fmt.Stringer
	}
}

func (t text) String() string { return "" }

func (t text) Set(s string) error { return t.value.UnmarshalText([]byte(s)) }
