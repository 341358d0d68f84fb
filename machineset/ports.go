package machineset

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/contract/external"
	"github.com/machinist-dev/machinist/machineset/scale"
)

// Finalizer keeps a MachineSet until its Machines are gone. It is Cluster API's.
const Finalizer = "cluster.x-k8s.io/machineset"

// DisableCreateAnnotation of a set, with the value true, keeps it from creating Machines. Rule: Cluster API's MachineSet.
const DisableCreateAnnotation = "cluster.x-k8s.io/disable-machine-create"

// Kinds are the kinds of objects that a Reconciler works on. All are needed.
type Kinds struct {
	Set     contract.MachineSetKind
	Machine contract.Kind
	// Maker makes Machines of that kind for sets of that kind.
	Maker contract.MachineMaker
}

// ClusterAPI returns the kinds of cluster.x-k8s.io in a version, contract.V1Beta1 or contract.V1Beta2; for any other the error
// matches contract.ErrUnknownVersion.
func ClusterAPI(v contract.Version) (Kinds, error) {
	set, machine := contract.MachineSetV1Beta2(), contract.MachineV1Beta2()
	switch v {
	case contract.V1Beta2:
	case contract.V1Beta1:
		set, machine = contract.MachineSetV1Beta1(), contract.MachineV1Beta1()
	default:
		return Kinds{}, fmt.Errorf("%w: MachineSets have %s and %s, not %q", contract.ErrUnknownVersion, contract.V1Beta1, contract.V1Beta2, v)
	}
	gvk := clusterAPI(v)
	return Kinds{
		Set: contract.Unstructured(gvk("MachineSet"), set), Machine: contract.Unstructured(gvk("Machine"), machine),
		Maker: contract.UnstructuredMaker(set, gvk("Machine"), machine),
	}, nil
}

func (k Kinds) validate() error {
	errs := []error{validateKind("Set", k.Set), validateKind("Machine", k.Machine)}
	if k.Maker == nil {
		errs = append(errs, errors.New("Kinds.Maker is not set"))
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	return k.keeps()
}

// keeps reports what the kinds forget of what a Reconciler cannot do without. A kind that refuses an object without content cannot be asked.
func (k Kinds) keeps() error {
	var errs []error
	if forgotten, err := contract.CheckMachineSetKind(k.Set); err == nil {
		errs = append(errs, contract.RefuseForgotten(forgotten))
	}
	if forgotten, err := contract.CheckKind(k.Machine); err == nil {
		errs = append(errs, contract.RefuseForgotten(forgotten, "Node.Name", "Node.UID", "DrainStarted")) // which drains need
	}
	return errors.Join(errs...)
}

func validateKind[S, U any](name string, kind contract.KindOf[S, U]) error {
	if kind.New == nil || kind.NewList == nil || kind.Adapter == nil || kind.GVK.Empty() {
		return fmt.Errorf("the kind of %s needs a GVK, New, NewList and an Adapter", name)
	}
	if _, ok := kind.New().(client.Object); !ok {
		return fmt.Errorf("the kind of %s: %s is no client.Object", name, kind.GVK)
	}
	if _, ok := kind.NewList().(client.ObjectList); !ok {
		return fmt.Errorf("the kind of %s: %s has no list of client.Objects", name, kind.GVK)
	}
	return nil
}

// Ports are what a Reconciler acts through. Client, Cache and APIReader are needed.
type Ports struct {
	// Client writes.
	Client client.Client
	// Cache reads sets, Machines and what they refer to, and is asked for informers.
	Cache cache.Cache
	// APIReader reads from the API server itself, where a cache may be behind and something would be lost by it.
	APIReader client.Reader

	// ClusterOf says what is known of a set's Cluster, by the set's namespace and the name in its state's ClusterName; nil means that
	// there are no Clusters. external.Clusters is made for it. It is called in every pass of a set that names a cluster, from several
	// goroutines, and must not wait for anything. What could not be read is a view whose Presence is Unread and no error; an error is
	// retried with back-off, and the set is left alone meanwhile.
	ClusterOf func(ctx context.Context, cluster types.NamespacedName) (external.ClusterView, error)
	// ClusterEvents returns a source that enqueues what the mapper names for a Cluster whenever ClusterOf has something new to say
	// about it. New requires it with ClusterOf; AddToManager calls it once.
	ClusterEvents func(external.ClusterMapper) source.Source
	// PreflightOf says what the checks before a creation look at; nil looks at what the Cluster names as its control plane, if
	// ClusterOf is set. It is called in every pass of a set that is not being deleted, from several goroutines, must not wait for
	// anything, and neither keeps nor changes the state. While a check fails it is asked again every 15 s: it has no events. An
	// error is retried with back-off, and nothing is created meanwhile.
	PreflightOf func(context.Context, *contract.MachineSetState) (scale.PreflightFacts, error)
}

func (p Ports) validate() error {
	var errs []error
	if p.Client == nil {
		errs = append(errs, errors.New("Ports.Client is not set"))
	}
	if p.Cache == nil {
		errs = append(errs, errors.New("Ports.Cache is not set"))
	}
	if p.APIReader == nil {
		errs = append(errs, errors.New("Ports.APIReader is not set"))
	}
	if p.ClusterOf != nil && p.ClusterEvents == nil {
		errs = append(errs, errors.New("Ports.ClusterEvents is not set: nothing would wake sets when their Cluster is paused"))
	}
	return errors.Join(errs...)
}

// Defaults of Options.
const (
	// DefaultStatusDelay is how long a set waits between two writes of its status.
	DefaultStatusDelay = time.Second
	// DefaultPassLimit is how long one pass creates Machines.
	DefaultPassLimit = time.Minute
	// DefaultParallel is how many Machines are created or deleted at the same time.
	DefaultParallel = 16
)

// Options change how a Reconciler works. The zero value is ready for use.
type Options struct {
	// Name is the name of the controller and part of the names of its indexes; it must be unique in a process. Default: the kind of
	// the set in lower case.
	Name string
	// Recorder records events; nil records none, but SetupWithManager takes the manager's.
	Recorder events.EventRecorder
	// Clock says what time it is, for what is compared with the times of objects and for StatusDelay; default the real one. Passes
	// that are asked for, and PassLimit, take real time.
	Clock clock.PassiveClock
	// StatusDelay is how long a set waits after it has written its status until it writes another one, so that Machines which change
	// one after the other cost one write. Default DefaultStatusDelay; negative: write at once.
	StatusDelay time.Duration
	// PassLimit is how long one pass goes on creating Machines; the next one resumes. It bounds for how long a process that has lost
	// its Lease may still create. Default, also when negative: DefaultPassLimit.
	PassLimit time.Duration
	// Parallel is how many Machines are created or deleted at the same time, once so many have gone well one after the other.
	// Default, also when negative: DefaultParallel.
	Parallel int
	// Finalizer keeps a set until its Machines are gone. Default Finalizer.
	Finalizer string
	// MachineFinalizers are those that new Machines get. Default contract.MachineFinalizer alone; an empty list, which is not nil,
	// gives none.
	MachineFinalizers []string
	// Policy says how decisions are made about which people disagree. The zero value decides as Cluster API does; the deletion order
	// is the set's own.
	Policy scale.Policy
	// WatchFilter, when it is not empty, has the Reconciler leave every set alone whose label contract.WatchFilterLabel has another
	// value or is missing.
	WatchFilter string
	// ContractVersions are the versions of the provider contract that count in the labels of CRDs, in any order. Default
	// contract.Versions(), as Cluster API has it; contract.AllVersions() also reads providers of v1alpha3 and v1alpha4.
	ContractVersions []contract.Version
	// Controller is handed to controller-runtime; what is not set there stays the manager's default.
	Controller controller.Options
}

func (o Options) withDefaults(kind contract.MachineSetKind) Options {
	if o.Name == "" {
		o.Name = strings.ToLower(kind.GVK.Kind)
	}
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	if o.StatusDelay == 0 {
		o.StatusDelay = DefaultStatusDelay
	}
	if o.PassLimit <= 0 {
		o.PassLimit = DefaultPassLimit
	}
	if o.Parallel <= 0 {
		o.Parallel = DefaultParallel
	}
	if o.Finalizer == "" {
		o.Finalizer = Finalizer
	}
	if o.MachineFinalizers == nil {
		o.MachineFinalizers = []string{contract.MachineFinalizer}
	}
	return o
}
