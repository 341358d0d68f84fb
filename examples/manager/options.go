package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/machinist-dev/machinist/examples/manager/api"
	"github.com/machinist-dev/machinist/examples/manager/options"
)

// settings are the flags, with what this program does with them.
type settings struct{ options.Options }

const usage = `manager reconciles Machines: bootstrap data, infrastructure and Node, and in a deletion drain, clean-up and
the Node. They are Cluster API's, whose CRDs and a provider must be installed and whose core manager must not run; or with
--api-group=machinist.dev those of the manager's own CRDs.

  go run ./examples/manager --print-rbac | kubectl apply -f -    the rights that it needs with these flags, as a ClusterRole
  go run ./examples/manager                                      KUBECONFIG, ~/.kube/config, or the pod's service account
  go run ./examples/manager --kubeconfig dev.yaml -v 1           more logs
  go run ./examples/manager --config flags.yaml                  flags from a file; --print-config prints one
  go run ./examples/manager --leader-elect                       several replicas, one of which acts
  go run ./examples/manager --workload-clusters                  Nodes are in the clusters that Machines name, not in this one
  go run ./examples/manager --machinesets                        MachineSets too
  go run ./examples/manager --machinesets --machinedeployments   MachineDeployments too
  go run ./examples/manager rollout --help                       history, undo, pause, resume, restart and status of a rollout
  go run ./examples/manager describe --help                      what a Machine waits for, and what a person can do
  go run ./examples/manager --machinepools                       MachinePools too
  go run ./examples/manager --machinehealthchecks                MachineHealthChecks too
  go run ./examples/manager --api-group=machinist.dev --install-crds --machinesets --machinedeployments --driver=kwok
                                                                 CRDs of its own, without Cluster API and its providers
  go run ./examples/manager --print-crds | kubectl apply -f -    those CRDs, for a manager that may not install them
  go run ./examples/manager --api-group=cluster.k8s.io --machinesets --machinedeployments --driver=kwok
                                                                 CRDs of Kubermatic; or machine.sapcloud.io, those of Gardener
  go run ./examples/manager --driver=kwok                        Nodes of kwok in place of all infrastructure objects
  go run ./examples/manager --driver=kwok --driver-credentials=secret:machinist-system/cloud,environment:CLOUD_TOKEN
                                                                 with a token of its own, which may be replaced at any time
  go run ./examples/manager orphans --driver=kwok                its instances without a Machine; it deletes nothing
  go run ./examples/manager --clusters=never                     Machines have no Cluster objects, although their CRD is installed

/healthz answers 200 while the process lives, /readyz once it has read the cluster. SIGTERM ends it cleanly.
Exit codes: 0 ended by a signal, 1 failed, 2 wrong flags.

`

// parse reads the flags. Help goes to out, and the error is flag.ErrHelp.
func parse(args []string, out io.Writer) (settings, error) {
	o := settings{options.Defaults()}
	flags := flag.NewFlagSet("manager", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	o.AddFlags(flags)
	if err := flags.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			fmt.Fprint(out, usage)
			defaults := options.Defaults()
			defaults.PrintHelp(out)
		}
		return settings{}, err
	}
	if flags.NArg() > 0 {
		return settings{}, fmt.Errorf("unexpected argument %q: everything is a flag, unless the first argument is one of the commands %s",
			flags.Arg(0), strings.Join(slices.Sorted(maps.Keys(commands())), ", "))
	}
	if o.Config.File != "" {
		if err := options.ReadConfig(flags, o.Config.File); err != nil {
			return settings{}, err
		}
	}
	return o, o.validate()
}

// printConfig prints the flags as a file for --config.
func printConfig(out io.Writer, o settings) error {
	flags := flag.NewFlagSet("manager", flag.ContinueOnError)
	o.AddFlags(flags) // with the values as defaults
	return options.PrintConfig(flags, out)
}

// validate reports all errors at once.
func (o settings) validate() error {
	errs := []error{o.Validate()}
	if o.Kinds.InstallCRDs && len(ownCRDs(o)) == 0 {
		errs = append(errs, fmt.Errorf("--install-crds: the other flags need no CRD of the manager's own: give --api-group=%s", api.Machinist))
	}
	return errors.Join(errs...)
}
