package machine

import (
	"cmp"
	"context"
	"errors"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/drain"
	"github.com/machinist-dev/machinist/internal/engine"
	"github.com/machinist-dev/machinist/noderef"
	"github.com/machinist-dev/machinist/noderef/cluster"
	"github.com/machinist-dev/machinist/noderef/propagate"
)

// Workload is the access to the Nodes of one cluster; see cluster.Workload.
type Workload = cluster.Workload

// Ports are the interfaces that a Reconciler uses: those of all kinds, and the access to Nodes. Client, Cache and APIReader are required,
// and so is Workload.Nodes or NodesOf.
type Ports struct {
	engine.Ports

	// Workload is the cluster of all Machines, or, if NodesOf is set, of Machines without a cluster name. Events of its Nodes wake Machines if
	// Workload.Nodes has a Source, as a cluster.NodeIndex does. Its Client defaults to Ports.Client; without a Client, its APIReader defaults
	// to Ports.APIReader.
	Workload Workload

	// NodesOf returns the access to the Nodes of a workload cluster; nil means that all Nodes are those of Ports.Workload. A Machine's
	// cluster has the Machine's namespace and the name in its state's ClusterName. The function is called in every pass, from several
	// goroutines, and must not block.
	//
	// An error that matches cluster.ErrNotConnected or cluster.ErrNotSynced means that the Nodes cannot be read now: a condition has the
	// error's text, which should change only with the state, and the Machine waits for WorkloadEvents. Steps that need no Node continue. In a
	// deletion, drain and Node deletion wait, and Deleting names the reason. NodeReady and NodeHealthy become Unknown (ConnectionDown,
	// InspectionFailed), and known ones only after Options.ConnectionGrace. Any other error is retried with back-off.
	//
	// Machines of different clusters never compete for one Node, so two names must not refer to the same cluster: if all Machines have their
	// Nodes in one cluster, leave NodesOf nil. cluster.NodesOf returns such a function for a cluster.Clusters.
	NodesOf func(cluster types.NamespacedName) (Workload, error)
	// WorkloadEvents returns a source that enqueues the mapper's result for a cluster whenever the result of NodesOf for it changes.
	// cluster.Clusters.Source is one. AddToManager requires it with NodesOf.
	WorkloadEvents func(cluster.Mapper) source.Source
}

// Options configure a Reconciler. The zero value is ready for use.
type Options struct {
	// Options are those of all kinds. Its Metrics must be nil: the ones below contain them.
	//
	// Machines that WatchFilter excludes still count as Machines of a control plane, and when they claim a Node. If the cache has no other
	// Machine of a control plane, for example because of its label selector, the Reconciler lists them from the API server, because the Node
	// of a Cluster without control plane Machines is not drained.
	engine.Options

	// Steps replace the default steps; see Steps. Nil means the default; with an empty, non-nil list, a pass does nothing.
	Steps engine.Steps[*Scope]
	// ConnectionGrace is how long NodeReady, NodeHealthy, BootstrapConfigReady and InfrastructureReady keep a known status while their objects
	// cannot be read: while the workload cluster is not connected, or a kind is listed for the first time. Then they become Unknown. It counts
	// from the first pass of a process that cannot read. Default engine.DefaultConnectionGrace; negative: at once.
	ConnectionGrace time.Duration
	// Policy holds the decisions that an embedder can replace. The zero value decides as Cluster API does.
	Policy Policy
	// Matching defines which Node belongs to a Machine. Default: an equal provider ID, and nothing else. Ports.Workload.Nodes must be an
	// index for the same rules.
	Matching noderef.Rules
	// Propagation defines what a Machine propagates to its Node. Default propagate.ClusterAPI(). It must not be changed later.
	Propagation *propagate.Policy
	// Metrics, when it is not nil, is updated by the Reconciler. The caller creates and registers it.
	Metrics *Metrics
}

func (o Options) withDefaults(kind contract.Kind) Options {
	o.Options = engine.WithDefaults(o.Options, kind.GVK.Kind)
	if o.Steps == nil {
		o.Steps = Steps()
	}
	o.ConnectionGrace = cmp.Or(o.ConnectionGrace, engine.DefaultConnectionGrace)
	if o.Policy.DrainPolicy == nil {
		o.Policy.DrainPolicy = drain.DefaultPolicy()
	}
	if o.Propagation == nil {
		o.Propagation = propagate.ClusterAPI()
	}
	return o
}

type (
	frame = engine.Frame[contract.MachineState, contract.MachineUpdate]
	loop  = engine.Reconciler[contract.MachineState, contract.MachineUpdate, *Scope]
)

// Reconciler reconciles Machines of one kind. Safe for concurrent use for different Machines.
type Reconciler struct {
	*loop

	frame   *frame
	kind    contract.Kind
	ports   Ports
	options Options
	memory  *engine.Memory[recollection]
	// startsElsewhere are the stages of a deletion for whose starts the kind has fields.
	startsElsewhere []string
	indexed         bool // the cache has the index of Machines that claim a Node
	// neverSet are the conditions that no step sets.
	neverSet []string
	// withoutInfrastructure: the phase depends on whether the infrastructure is ready, and no step of this package sets that.
	withoutInfrastructure bool

	workloads *cluster.Tracker
}

// New returns a Reconciler. It reports all errors in its inputs at once and makes no request. Most callers want SetupWithManager, which
// fills the ports from a manager. New rejects a kind that does not store the values that the steps need, see contract.CheckKind.
func New(kind contract.Kind, ports Ports, options Options) (*Reconciler, error) {
	options = options.withDefaults(kind)
	wrong := []error{validateSteps(options.Steps), options.Policy.DrainPolicy.Validate()}
	if ports.Workload.Nodes == nil && ports.NodesOf == nil {
		wrong = append(wrong, errors.New("neither Ports.Workload.Nodes nor Ports.NodesOf is set"))
	}
	if options.Options.Metrics != nil {
		wrong = append(wrong, errors.New("Options.Options.Metrics is set: set Options.Metrics, which contains them"))
	}
	if engine.CheckKind("", kind) == nil {
		wrong = append(wrong, validateKind(kind, options))
	}
	shared := options.Options
	shared.Metrics = options.Metrics.ofPasses()
	f, err := engine.NewFrame("machine reconciler", kind, contract.MachineFinalizer, ports.Ports, shared, wrong...)
	if err != nil {
		return nil, err
	}
	return newReconciler(f, ports, options), nil
}

// newReconciler connects the parts of a Reconciler, which New has checked.
func newReconciler(f *frame, ports Ports, options Options) *Reconciler {
	r := &Reconciler{
		frame: f, kind: f.Kind, ports: ports, options: options, neverSet: neverSet(options.Steps),
		// when a Machine is forgotten during its drain, because its finalizer was removed, the drain of its Node ends
		memory:          engine.NewMemory(nil, (*recollection).stopWatching),
		startsElsewhere: startsElsewhere(f.Kind),
	}
	r.withoutInfrastructure = engine.HasStandard(options.Steps, StepPhase) &&
		engine.Position(options.Steps, StepInfrastructure, engine.InRunning) < 0
	f.Track("kinds that Machines refer to", r.machinesOf)
	r.workloads = cluster.NewTracker(cluster.TrackerConfig{
		Kind: "Machine", Own: ports.Workload.Or(ports.Client, ports.APIReader), NodesOf: ports.NodesOf, Events: ports.WorkloadEvents,
		OfNode: r.machinesOfNode, InCluster: f.InCluster,
	})
	r.loop = engine.NewReconciler(engine.Kind[contract.MachineState, contract.MachineUpdate, *Scope]{
		Frame: f, Steps: options.Steps, RunStep: runStep,
		NewScope: func() *Scope { return &Scope{env: r} },
		Begin:    r.begin, Flush: flush, Forget: r.memory.Forget,
	})
	return r
}

// begin reads what the steps need.
func (r *Reconciler) begin(ctx context.Context, s *Scope) {
	s.memory = r.memory.Of(s.State.Key, s.State.UID)
	s.memory.observeDeletion(s.State.Deleting)
	s.deletion = s.State.Deletion(s.Now)
	s.cluster = r.clusterOf(&s.State)
	if s.Workload, s.NodesErr = r.workloads.Of(s.cluster); s.NodesErr == nil {
		s.NodesErr = s.Workload.Recognize(&s.State.Metadata)
	}
	s.lookUpCluster(ctx)
}

// clusterOf returns the cluster of a Machine's Node; the zero name means Ports.Workload.
func (r *Reconciler) clusterOf(state *contract.MachineState) types.NamespacedName {
	return r.workloads.ClusterOf(state.Key.Namespace, state.ClusterName)
}
