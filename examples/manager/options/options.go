package options

import (
	"errors"
	"flag"
	"fmt"

	"github.com/machinist-dev/machinist/examples/manager/api"
)

// Options are all flags of the manager, by group. A value belongs to one program; it must not be changed while others read it. Call
// Defaults for useful values: the zero value is not valid.
type Options struct {
	Config         Config
	Kinds          Kinds
	Machines       Machines
	Workload       Workload
	Safety         Safety
	Driver         Driver
	LeaderElection LeaderElection
	Serving        Serving
	Client         Client
	Logging        Logging
	Printing       Printing
}

// Section is a group of flags: a part of Options.
type Section interface {
	// AddFlags adds the flags of the group. The values at the time of the call are the defaults.
	AddFlags(flags *flag.FlagSet)
	// Validate returns all errors at once. Each names its flag, and a value that is valid.
	Validate() error
}

// Group is a Section with the heading that it has in help.
type Group struct {
	Name    string
	Section Section
}

// Flags returns the flags of the group in a set of their own, which sets the same values.
func (g Group) Flags() *flag.FlagSet {
	flags := flag.NewFlagSet(g.Name, flag.ContinueOnError)
	g.Section.AddFlags(flags)
	return flags
}

// Defaults returns the values that the flags have when they are not given.
func Defaults() Options {
	return Options{
		Kinds: defaultKinds(), Machines: defaultMachines(), Workload: defaultWorkload(), Safety: defaultSafety(), Driver: defaultDriver(),
		LeaderElection: defaultLeaderElection(), Serving: defaultServing(), Client: defaultClient(), Logging: defaultLogging(),
		Printing: defaultPrinting(),
	}
}

// Groups returns the groups in the order of the help. They refer to o.
func (o *Options) Groups() []Group {
	return []Group{
		{"Configuration", &o.Config}, {"Kinds", &o.Kinds}, {"Machines", &o.Machines}, {"Workload clusters", &o.Workload},
		{"Safety", &o.Safety}, {"Driver", &o.Driver},
		{"Leader election", &o.LeaderElection}, {"Serving", &o.Serving}, {"Client", &o.Client}, {"Logging", &o.Logging},
		{"Printing", &o.Printing},
	}
}

// AddFlags adds all flags. The values at the time of the call are the defaults, so that a program can have defaults of its own.
func (o *Options) AddFlags(flags *flag.FlagSet) {
	for _, g := range o.Groups() {
		g.Section.AddFlags(flags)
	}
}

// Validate returns all errors at once. Each names its flag, and a value that is valid.
func (o *Options) Validate() error {
	var errs []error
	for _, g := range o.Groups() {
		errs = append(errs, g.Section.Validate())
	}
	if o.LeaderElection.Enabled && o.LeaderElection.ID == "" && (len(o.Machines.Namespaces) > 0 || o.Machines.WatchFilter != "") {
		errs = append(errs, errors.New("--leader-election-id: give a name of its own to each manager of a part of the fleet "+
			"(--namespace, --watch-filter): managers with one Lease wait for each other"))
	}
	if _, class := o.Driver.CredentialsOf(CredentialsClass); class && (!o.Driver.IsStep() || o.Kinds.Group == api.Kubermatic) {
		errs = append(errs, fmt.Errorf("invalid --driver-credentials %q: must be absent where Machines have no MachineClasses: with "+
			"--driver-as=%s, and with --api-group=%s", CredentialsClass, DriverInfraMachine, api.Kubermatic))
	}
	return errors.Join(append(errs, o.foreign())...)
}

// foreign refuses what the group of another system does not have.
func (o *Options) foreign() error {
	group := o.Kinds.Group
	if !group.IsForeign() {
		return nil
	}
	var errs []error
	for _, refused := range []struct {
		given       bool
		flag, lacks string
	}{
		{o.Kinds.MachinePools, "machinepools", "has no MachinePools"},
		{o.Machines.Clusters == ClustersAlways, "clusters=always", "has Machines that name no Cluster"},
		{o.Workload.Enabled, "workload-clusters", "has Machines that name no Cluster"},
	} {
		if refused.given {
			errs = append(errs, fmt.Errorf("--%s: --api-group=%s %s: give %s", refused.flag, group, refused.lacks,
				api.GroupNames(api.ClusterAPI, api.Machinist)))
		}
	}
	if !o.Driver.IsStep() {
		errs = append(errs, fmt.Errorf("--api-group=%s has Machines that refer to no infrastructure objects: give --driver=%s, with "+
			"--driver-as=%s", group, DriverKwok, DriverStep))
	}
	return errors.Join(errs...)
}
