// Command contractlint lints the CRDs and objects of a Cluster API provider against the contract: it tells the provider's
// author before the first user whether a Machine could ever become Running with them.
//
//	kustomize build path/to/provider/config/crd | go run ./examples/contractlint -
//
// What it knows is in package contract/conformance. This command reads files, folders and standard input.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/contract/conformance"
	"github.com/machinist-dev/machinist/examples/command"
)

const usage = `contractlint lints the CRDs and objects of a Cluster API provider against the provider contract.

  kustomize build config/crd | contractlint -    the CRDs with the labels that their kustomization sets
  contractlint infrastructure-components.yaml    a built manifest with many documents, as a provider releases it
  contractlint DIR                               a folder, which is searched for YAML and JSON files
  kubectl get crd -l cluster.x-k8s.io/provider -o yaml | contractlint -
  kubectl get awsmachine worker-1 -o yaml | contractlint -contract v1beta1 -
  contractlint -o json infrastructure-components.yaml | jq '.checked[].findings[]'

Of CRDs and objects, those count that a Machine or a MachinePool reads: kinds that end in Machine, MachineTemplate,
MachinePool or MachinePoolTemplate in a group with the part "infrastructure", and Config or ConfigTemplate in one with the
part "bootstrap". A kind with such a name and none of the fields is a question and not judged: -role Kind=role answers it, or
a file of roles. -role judges everything in the input by one role, for kinds with other names.

Exit codes: 0 no MUST is broken, 1 one is (with -strict also a SHOULD, or a question is open), 2 wrong flags, or input that cannot be read.

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

// perform does what the arguments say and returns the exit code.
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
	if len(result.Checked)+len(result.Skipped)+len(result.Questions) == 0 && len(in.errs) == 0 {
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
	case result.Must > 0, o.strict && result.Should+len(result.Questions) > 0:
		return exitBroken
	default:
		return exitOK
	}
}

func parse(args []string, stdout io.Writer) (options, error) {
	o := options{roles: roles{flags: map[string]conformance.Role{}, file: map[string]conformance.Role{}}}
	flags := flag.NewFlagSet("contractlint", flag.ContinueOnError)
	flags.StringVar(&o.output, "o", "text", "format of the report: text or json")
	flags.Var(&o.roles, "role", "judge everything as this `role`, such as InfraMachine, or one kind: Kind=role or Kind.group=role, where the "+
		"role none says not to judge it; can be repeated; the default is to tell by group and kind")
	file := flags.String("roles", "", "a YAML `file` with the roles of kinds, one on each line: \"Kind: role\"; -role goes before it")
	version := flags.String("contract", "", "the contract `version` of objects whose CRD is not in the input, such as v1beta2")
	flags.BoolVar(&o.strict, "strict", false, "exit 1 for a SHOULD or an open question too")
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
	case *file != "":
		return o, o.roles.load(*file)
	}
	return o, nil
}

// roles are what a person says of kinds. The zero Role of a kind says that it has none.
type roles struct {
	all conformance.Role
	// By kind, or by kind and group in dots. What a flag says goes before a file.
	flags, file map[string]conformance.Role
}

// of returns what was said of a kind.
func (r *roles) of(gk schema.GroupKind) (role conformance.Role, said bool) {
	for _, kinds := range []map[string]conformance.Role{r.flags, r.file} {
		for _, name := range []string{gk.String(), gk.Kind} {
			if role, said = kinds[name]; said {
				return role, true
			}
		}
	}
	return r.all, r.all != 0
}

// String is empty, so that help names no default.
func (r *roles) String() string { return "" }

// Set reads role or Kind=role.
func (r *roles) Set(text string) error {
	kind, word, split := strings.Cut(text, "=")
	switch {
	case !split:
		return r.all.UnmarshalText([]byte(text))
	case kind == "":
		return fmt.Errorf("name a kind before the = of %q", text)
	}
	role, err := readRole(word)
	if err == nil {
		r.flags[kind] = role
	}
	return err
}

// load reads a file of kinds and their roles.
func (r *roles) load(path string) error {
	raw, err := os.ReadFile(path) //nolint:gosec // the person who runs this names the file
	if err != nil {
		return fmt.Errorf("read roles: %w", err)
	}
	words := map[string]string{}
	if err := yaml.Unmarshal(raw, &words); err != nil {
		return fmt.Errorf("read roles in %s: want a kind and its role on each line, such as FooMachine: InfraMachine: %w", path, err)
	}
	for _, kind := range slices.Sorted(maps.Keys(words)) {
		role, err := readRole(words[kind])
		if err != nil {
			return fmt.Errorf("read roles in %s: %s: %w", path, kind, err)
		}
		r.file[kind] = role
	}
	return nil
}

// readRole reads the role of a kind, or "none".
func readRole(word string) (role conformance.Role, err error) {
	if word == "none" {
		return 0, nil
	}
	if role.UnmarshalText([]byte(word)) != nil {
		return 0, fmt.Errorf("read role %.40q: want none or one of %s", word, joined(conformance.Roles()))
	}
	return role, nil
}

func joined(roles []conformance.Role) string {
	words := make([]string, 0, len(roles))
	for _, role := range roles {
		words = append(words, role.String())
	}
	return strings.Join(words, ", ")
}
