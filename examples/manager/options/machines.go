package options

import (
	"errors"
	"flag"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/machinist-dev/machinist/contract/pass"
)

// Values of Machines.Clusters.
const (
	// ClustersAuto follows Cluster objects if the kind is served and the group is Cluster API's.
	ClustersAuto = "auto"
	// ClustersAlways follows them, and needs the kind.
	ClustersAlways = "always"
	// ClustersNever means that there are none.
	ClustersNever = "never"
)

// Machines are the settings of the reconcilers of Machines and of their owners.
type Machines struct {
	// Workers is how many objects of each kind are reconciled at the same time. Kubermatic's page has a table: 5 to 10 for fewer than 50
	// Nodes, 10 to 20 for up to 200, 20 to 50 for more.
	Workers int
	// StatusDelay is the least time between two writes of a status; 0 writes every stage.
	StatusDelay time.Duration
	// DrainVolumesInTurn drains Pods with volumes one after the other.
	DrainVolumesInTurn bool
	// Clusters is ClustersAuto, ClustersAlways or ClustersNever.
	Clusters string
	// Namespaces are those of what is reconciled; none: all. Nodes, and the Pods on them, have none of these limits.
	Namespaces []string
	// WatchFilter is the value of the label cluster.x-k8s.io/watch-filter of what is reconciled; empty: everything.
	WatchFilter string
	// OldContracts reads provider objects of the contract versions v1alpha3 and v1alpha4 too.
	OldContracts bool
}

func defaultMachines() Machines {
	return Machines{Workers: 10, StatusDelay: pass.DefaultStatusDelay, Clusters: ClustersAuto}
}

// AddFlags implements Section.
func (m *Machines) AddFlags(flags *flag.FlagSet) {
	flags.IntVar(&m.Workers, "worker-count", m.Workers,
		"objects of each kind that are reconciled at the same time; 5 to 10 for fewer than 50 Nodes, 10 to 20 for up to 200, 20 to 50 for more")
	alias(flags, "concurrency", "worker-count", "count")
	flags.DurationVar(&m.StatusDelay, "status-delay", m.StatusDelay,
		"least time between two writes of a status, unless the object becomes or ceases to be ready; "+
			"0 writes every stage, which costs more requests")
	flags.BoolVar(&m.DrainVolumesInTurn, "drain-volumes-one-at-a-time", m.DrainVolumesInTurn,
		"a drain evicts Pods with volumes one after the other, after the Pods without; for storage that attaches slowly")
	flags.StringVar(&m.Clusters, "clusters", m.Clusters,
		"whether Machines follow the Cluster object of spec.clusterName: while it is paused they are not reconciled, and without it "+
			"they are only deleted; auto: if the kind is served when the manager starts, and --api-group is cluster.x-k8s.io; always; "+
			"never: there are no Cluster objects")
	flags.Var(&list{into: &m.Namespaces}, "namespace",
		"reconcile and cache only what is in these `namespaces`: a list with commas, or the flag several times; empty: all. "+
			"Two managers must not share one. Nodes and the Pods on them are read everywhere, and so are the owners of instances. "+
			"--print-rbac prints a Role for each, and a ClusterRole for the rest")
	flags.StringVar(&m.WatchFilter, "watch-filter", m.WatchFilter,
		"reconcile only objects, of every kind, whose label cluster.x-k8s.io/watch-filter has this `value`; empty: all")
	flags.BoolVar(&m.OldContracts, "old-contracts", m.OldContracts,
		"read objects of providers whose CRDs name only v1alpha3 or v1alpha4 of the contract, too, which Cluster API has given up")
}

// Validate implements Section.
func (m *Machines) Validate() error {
	var errs []error
	if m.Workers < 1 {
		errs = append(errs, fmt.Errorf("--worker-count %d: give at least 1", m.Workers))
	}
	if m.StatusDelay < 0 {
		errs = append(errs, fmt.Errorf("--status-delay %s: give a time such as 1s, or 0", m.StatusDelay))
	}
	if !slices.Contains([]string{ClustersAuto, ClustersAlways, ClustersNever}, m.Clusters) {
		errs = append(errs, fmt.Errorf("--clusters %q: give auto, always or never", m.Clusters))
	}
	for _, namespace := range m.Namespaces {
		if wrong := validation.IsDNS1123Label(namespace); len(wrong) > 0 {
			errs = append(errs, fmt.Errorf("--namespace %q: give names of namespaces: %s", namespace, strings.Join(wrong, "; ")))
		}
	}
	if wrong := validation.IsValidLabelValue(m.WatchFilter); len(wrong) > 0 {
		errs = append(errs, fmt.Errorf("--watch-filter %q: give the value of a label: %s", m.WatchFilter, strings.Join(wrong, "; ")))
	}
	return errors.Join(errs...)
}
