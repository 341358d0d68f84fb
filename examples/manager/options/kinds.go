package options

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"time"

	"github.com/machinist-dev/machinist/examples/manager/api"
)

// Kinds are what is reconciled beside Machines.
type Kinds struct {
	// Group is the API group of all kinds.
	Group api.Group
	// PoolGroup is the API group of MachinePools; empty: Group.
	PoolGroup api.Group
	// MachineSets, MachineDeployments, MachinePools and MachineHealthChecks select the kinds that are reconciled.
	MachineSets, MachineDeployments, MachinePools, MachineHealthChecks bool
	// JoinTimeout is how long a Machine of a MachineHealthCheck may be without a Node since its infrastructure was ready; 0: as long as the
	// check has.
	JoinTimeout time.Duration
	// InstallCRDs applies the manager's own CustomResourceDefinitions at the start.
	InstallCRDs bool
}

func defaultKinds() Kinds { return Kinds{Group: api.ClusterAPI} }

// AddFlags implements Section.
func (k *Kinds) AddFlags(flags *flag.FlagSet) {
	GroupFlag(flags, &k.Group)
	flags.BoolVar(&k.MachineSets, "machinesets", k.MachineSets, "reconcile MachineSets too")
	flags.BoolVar(&k.MachineDeployments, "machinedeployments", k.MachineDeployments,
		"reconcile MachineDeployments too; their MachineSets need --machinesets")
	flags.BoolVar(&k.MachinePools, "machinepools", k.MachinePools,
		"reconcile MachinePools too; the CustomResourceDefinition must be installed")
	flags.StringVar((*string)(&k.PoolGroup), "machinepool-group", string(k.PoolGroup),
		"API `group` of the MachinePools, if it differs from --api-group: a HorizontalPodAutoscaler can scale those of machinist.dev, "+
			"and providers for Cluster API need those of cluster.x-k8s.io")
	flags.BoolVar(&k.MachineHealthChecks, "machinehealthchecks", k.MachineHealthChecks,
		"reconcile MachineHealthChecks too; unhealthy Machines are remediated by their owners, or by what watches the objects that are made "+
			"from the template of the MachineHealthCheck")
	flags.DurationVar(&k.JoinTimeout, "join-cluster-timeout", k.JoinTimeout,
		"time that a Machine of a MachineHealthCheck may be without a Node since its infrastructure was ready, as in 25m; then it is "+
			"unhealthy, and its owner replaces it within the limits of both; "+
			"0: only the limits of the MachineHealthCheck count; needs --machinehealthchecks")
	flags.BoolVar(&k.InstallCRDs, "install-crds", k.InstallCRDs,
		"at the start, apply the manager's own CustomResourceDefinitions that the other flags need, and wait until they are served")
}

// Validate implements Section.
func (k *Kinds) Validate() error {
	var join error
	if k.JoinTimeout < 0 || k.JoinTimeout > 0 && !k.MachineHealthChecks {
		join = fmt.Errorf("--join-cluster-timeout %s: give 0, or a time such as 25m together with --machinehealthchecks", k.JoinTimeout)
	}
	return errors.Join(join, ValidGroup("api-group", k.Group), k.validPools())
}

// validPools validates the group of pools.
func (k *Kinds) validPools() error {
	if k.PoolGroup.IsKnown() && !k.PoolGroup.IsForeign() {
		return nil
	}
	return fmt.Errorf("--machinepool-group %q: give %s", k.PoolGroup, api.GroupNames(api.ClusterAPI, api.Machinist))
}

// GroupOfPools returns the group of MachinePools.
func (k *Kinds) GroupOfPools() api.Group { return cmp.Or(k.PoolGroup, k.Group) }

// GroupFlag adds --api-group, which commands for people have too.
func GroupFlag(flags *flag.FlagSet, group *api.Group) {
	flags.StringVar((*string)(group), "api-group", string(cmp.Or(*group, api.ClusterAPI)),
		"API `group` of Machines and the other kinds: cluster.x-k8s.io, whose CRDs Cluster API has; machinist.dev, for --install-crds; or, "+
			"without pools and health checks, cluster.k8s.io and machine.sapcloud.io, whose CRDs Kubermatic and Gardener have")
}

// ValidGroup validates a flag with a group.
func ValidGroup(flag string, group api.Group) error {
	if !group.IsKnown() {
		return fmt.Errorf("--%s %q: give %s", flag, group, api.GroupNames(api.Groups()...))
	}
	return nil
}
